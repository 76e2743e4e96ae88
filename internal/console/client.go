package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
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

func (c Client) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	target, err := url.JoinPath(c.URL, path)
	if err != nil {
		return nil, fmt.Errorf("read url: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
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
	if resp.StatusCode == http.StatusOK {
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
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 8<<10))
	var body struct {
		Error struct{ Field, Problem string }
	}
	if json.Unmarshal(text, &body) == nil && body.Error.Problem != "" {
		return &Refusal{resp.StatusCode, body.Error.Field, body.Error.Problem}
	}
	hint := strings.TrimSpace(string(text))
	if resp.StatusCode == http.StatusUnauthorized {
		hint = "(give the token with --token-file)"
	}
	return &Refusal{Status: resp.StatusCode, Problem: hint}
}
