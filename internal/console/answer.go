package console

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	usualLimit = 100
	mostItems  = 5000
	maxBody    = 256 << 10 // bytes of a request
	maxText    = 4096      // bytes of one parameter
)

// Duration is a time.Duration that JSON writes as text, such as 90s.
type Duration time.Duration

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration with units.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is no duration such as 90s or 2h", text)
	}
	*d = Duration(v)
	return nil
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // the after of the next page; empty: this is the last
}

// wrong is a refusal of one parameter or member.
func wrong(field, problem string) error {
	return &Refusal{Status: http.StatusBadRequest, Field: field, Problem: problem}
}

func absent(field, problem string) error {
	return &Refusal{Status: http.StatusNotFound, Field: field, Problem: problem}
}

// refuse answers with an error. What is no refusal is trouble with a store.
func refuse(w http.ResponseWriter, err error) {
	var r *Refusal
	if !errors.As(err, &r) {
		r = &Refusal{Status: http.StatusServiceUnavailable, Problem: err.Error()}
	}
	answer(w, r.Status, map[string]any{"error": map[string]string{"field": r.Field, "problem": r.Problem}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // the reader may have gone
}

// give answers 200.
func give(w http.ResponseWriter, body any) error {
	answer(w, http.StatusOK, body)
	return nil
}

// place is what is wrong with an expression and where in it; the field is named
// beside it already.
func place(err error) string { return strings.TrimPrefix(err.Error(), "match:") }

// parameters reads the query and refuses what is unknown, repeated or too long.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wrong("", "the query cannot be read")
	}
	for _, name := range sortedKeys(q) {
		switch values := q[name]; {
		case !slices.Contains(known, name):
			return nil, wrong(clip(name, 40), "no such parameter; there are "+strings.Join(known, ", "))
		case len(values) > 1:
			return nil, wrong(name, "is given twice")
		case len(values[0]) > maxText:
			return nil, wrong(name, fmt.Sprintf("is longer than %d bytes", maxText))
		}
	}
	return q, nil
}

func sortedKeys(q url.Values) []string {
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// limitOf reads how many items a page has.
func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return usualLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostItems {
		return 0, wrong("limit", fmt.Sprintf("is not a number from 1 to %d", mostItems))
	}
	return n, nil
}

// truth reads a yes or no; none means not given.
func truth(q url.Values, name string) (value, given bool, err error) {
	switch q.Get(name) {
	case "":
		return false, false, nil
	case "true", "1":
		return true, true, nil
	case "false", "0":
		return false, true, nil
	}
	return false, false, wrong(name, "is neither true nor false")
}

// cut gives one page of a list that is sorted by its keys, after a cursor.
func cut[T any](list []T, key func(T) string, q url.Values) (Page[T], error) {
	limit, err := limitOf(q)
	if err != nil {
		return Page[T]{}, err
	}
	start := 0
	if text := q.Get("after"); text != "" {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return Page[T]{}, wrong("after", "is no cursor that this API gave")
		}
		start = sort.Search(len(list), func(i int) bool { return key(list[i]) > string(raw) })
	}
	end := min(start+limit, len(list))
	page := Page[T]{Items: slices.Clone(list[start:end])}
	if page.Items == nil {
		page.Items = []T{}
	}
	if end < len(list) {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(key(list[end-1])))
	}
	return page, nil
}

// newestFirst is a key by which later times come earlier.
func newestFirst(t time.Time) string {
	return fmt.Sprintf("%020d", uint64(1)<<63-uint64(max(t.UnixNano(), 0)))
}

func oldestFirst(t time.Time) string { return fmt.Sprintf("%020d", max(t.UnixNano(), 0)) }

// body decodes a request strictly.
func body(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		return &Refusal{Status: http.StatusUnsupportedMediaType, Problem: "the body must be application/json"}
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var size *http.MaxBytesError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &size):
			return &Refusal{Status: http.StatusRequestEntityTooLarge, Problem: fmt.Sprintf("the body is over %d bytes", maxBody)}
		case errors.As(err, &kind):
			return wrong(kind.Field, "has the wrong type")
		}
		return wrong("", "the body cannot be read: "+strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return wrong("", "something follows the JSON document")
	}
	return nil
}

// Guard refuses what a page of another site may have made a browser send: a
// request from another origin, or, where no token proves the sender, one by a
// name that could have been pointed here.
func Guard(next http.Handler) http.Handler {
	same := http.NewCrossOriginProtection()
	same.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &Refusal{Status: http.StatusForbidden, Problem: "the request comes from another site"})
	}))
	inner := same.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Authorization") == "" && !numeric(r.Host) {
			refuse(w, &Refusal{Status: http.StatusForbidden, Problem: "without a token this is reached by an IP address or localhost only"})
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// numeric tells whether a Host names an address, or this machine.
func numeric(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost" || host == ""
}
