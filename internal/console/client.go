package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/heraldbridge/herald/internal/events"
)

// maxLine bounds one event of a tail, in bytes.
const maxLine = 1 << 20

// Client speaks to the API of a running process.
type Client struct {
	URL   string // scheme, host and port
	Token string // bearer token; empty: none
	HTTP  *http.Client
}

// Tail yields events as the process stores them, each with the bytes of its
// document, until ctx ends or the process goes away.
func (c Client) Tail(ctx context.Context, match, since string) iter.Seq2[events.Envelope, error] {
	return func(yield func(events.Envelope, error) bool) {
		body, err := c.get(ctx, "/v1/events", url.Values{"match": {match}, "since": {since}})
		if err != nil {
			yield(events.Envelope{}, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 64<<10), maxLine)
		for lines.Scan() {
			e, err := events.Decode(lines.Bytes())
			if err != nil {
				yield(events.Envelope{}, fmt.Errorf("read event: %w", err))
				return
			}
			if !yield(events.Envelope{Event: e, Raw: append([]byte(nil), lines.Bytes()...)}, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		err = lines.Err()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		yield(events.Envelope{}, fmt.Errorf("follow events of %s: %w", c.URL, err))
	}
}

// Get asks for a document and decodes it.
func (c Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return c.do(ctx, http.MethodGet, path, query, nil, into)
}

// Post sends a document and decodes the answer.
func (c Client) Post(ctx context.Context, path string, body, into any) error {
	return c.do(ctx, http.MethodPost, path, nil, body, into)
}

// Delete removes what a path names.
func (c Client) Delete(ctx context.Context, path string) error {
	return c.do(ctx, http.MethodDelete, path, nil, nil, nil)
}

// List goes over all items of a list, page by page, until limit (0: all).
func List[T any](ctx context.Context, c Client, path string, query url.Values, limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := maps.Clone(query)
		if q == nil {
			q = url.Values{}
		}
		for n := 0; ; {
			size := mostItems
			if limit > 0 {
				size = min(size, limit-n)
			}
			q.Set("limit", strconv.Itoa(size))
			var page Page[T]
			if err := c.Get(ctx, path, q, &page); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
				n++
			}
			if page.Next == "" || limit > 0 && n >= limit {
				return
			}
			q.Set("after", page.Next)
		}
	}
}

func (c Client) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	answer, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(answer).Decode(into); err != nil {
		return fmt.Errorf("read answer of %s: %w", c.URL, err)
	}
	return nil
}

func (c Client) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.send(ctx, http.MethodGet, path, query, nil)
}

func (c Client) send(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
	target, err := url.JoinPath(c.URL, path)
	if err != nil {
		return nil, fmt.Errorf("read url: %w", err)
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("reach %s (is herald or notifier running there?): %w", c.URL, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// Refusal is an answer of the API that says what was wrong with the request.
type Refusal struct {
	Status  int
	Field   string
	Problem string
}

// Error names the field and the problem.
func (r *Refusal) Error() string {
	if r.Field == "" {
		return fmt.Sprintf("the process answered %d %s", r.Status, r.Problem)
	}
	return r.Field + ": " + r.Problem
}

func refusal(resp *http.Response) error {
	if resp.StatusCode == http.StatusUnauthorized {
		return &Refusal{Status: resp.StatusCode, Problem: "(give the token with --token-file)"}
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 8<<10))
	var body struct {
		Error struct{ Field, Problem string }
	}
	if json.Unmarshal(text, &body) == nil && body.Error.Problem != "" {
		return &Refusal{resp.StatusCode, body.Error.Field, body.Error.Problem}
	}
	return &Refusal{Status: resp.StatusCode, Problem: strings.TrimSpace(string(text))}
}
