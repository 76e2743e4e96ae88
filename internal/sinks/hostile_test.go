package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// over2 begins a receiver of HTTP/2 and gives its address and a client for it.
func over2(t *testing.T, h http.HandlerFunc) (string, *http.Client) {
	t.Helper()
	authority, err := sinkfakes.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	if s.TLS, err = authority.Server("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	s.EnableHTTP2, s.Config.ErrorLog = true, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := sinks.NewHTTPClient(sinks.ClientOptions{TLS: sinks.TLS{CA: ca}, AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); c.CloseIdleConnections() })
	return s.URL, c
}

// Over HTTP/2, where all tries share a connection, a receiver gets no further.
func TestHostileReceiversOverHTTP2AreBounded(t *testing.T) {
	const accepted = 200
	long := strings.Repeat("a", 8<<10)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		status  int // 0: a failure
	}{
		"floods":       {sinkfakes.Flood(accepted, -1), accepted},
		"drips":        {sinkfakes.DripBody, accepted},
		"hangs":        {sinkfakes.Hang, 0},
		"aborts":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"long headers": {func(w http.ResponseWriter, _ *http.Request) { fill(w.Header(), "", long) }, 0},
		"long trailers": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(accepted)
			fill(w.Header(), http.TrailerPrefix, long)
		}, accepted},
		"hints for ever": {func(w http.ResponseWriter, r *http.Request) {
			for w.Header().Set("Link", long); r.Context().Err() == nil; {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, 0},
		"packs a bomb": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" { // unpacked by nobody, since nobody asked for it
				w.WriteHeader(http.StatusTeapot)
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b not unpacked")
		}, accepted},
	} {
		t.Run(name, func(t *testing.T) {
			address, c := over2(t, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					w.WriteHeader(http.StatusHTTPVersionNotSupported)
					return
				}
				if r.Header.Get("X-Next") == "" {
					test.handler(w, r)
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			a, err := post2(t, c, address, "")
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; took > time.Minute || used > 32<<20 || len(a.Body) > sinks.MaxExcerpt {
				t.Errorf("the try took %v and %d bytes", took, used)
			}
			var f *sinks.Failure
			if a.Status != test.status || (test.status == 0) != errors.As(err, &f) {
				t.Errorf("gave %d, %v, want %d", a.Status, err, test.status)
			}
			if f != nil && (f.Verdict != sinks.Temporary || len(f.Error()) > 1<<10) {
				t.Errorf("the failure is %s: %s", f.Verdict, f)
			}
			if a, err := post2(t, c, address, "1"); err != nil || a.Status != accepted { // the next one is not the worse for it
				t.Errorf("the next try gave %d, %v", a.Status, err)
			}
		})
	}
}

func fill(h http.Header, prefix, text string) {
	for i := range 100 {
		h.Set(fmt.Sprint(prefix, "X-", i), text)
	}
}

func post2(t *testing.T, c *http.Client, address, next string) (sinks.Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Next", next)
	return sinks.Exchange(ctx, c, r, sinks.Bounds{}, nil)
}
