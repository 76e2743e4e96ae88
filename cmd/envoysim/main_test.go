package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsageErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("purchases: [{ state: sleeping }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"UnknownFlag":   {"--nonsense"},
		"Argument":      {"here"},
		"NoNumber":      {"--speed", "fast"},
		"NegativeSpeed": {"--speed", "-1"},
		"NegativeCount": {"--purchases", "-1"},
		"NoScenario":    {"--scenario", "nonsense"},
		"MistakenPlay":  {"--scenario", bad},
	} {
		t.Run(name, func(t *testing.T) {
			c := command(io.Discard)
			c.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
			var usage usageError
			if err := c.ExecuteContext(t.Context()); !errors.As(err, &usage) {
				t.Errorf("got %v, want a usage error", err)
			}
		})
	}
}

func TestAddressInUse(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := command(io.Discard)
	c.SetArgs([]string{"--listen", l.Addr().String()})
	var usage usageError
	if err := c.ExecuteContext(t.Context()); err == nil || errors.As(err, &usage) {
		t.Errorf("got %v, want a failure that is not the user's", err)
	}
}

// lines hands on each line that is written.
type lines struct {
	c    chan string
	rest bytes.Buffer
}

// Write never fails.
func (l *lines) Write(p []byte) (int, error) {
	l.rest.Write(p)
	for {
		before, after, whole := strings.Cut(l.rest.String(), "\n")
		if !whole {
			return len(p), nil
		}
		l.rest.Reset()
		l.rest.WriteString(after)
		l.c <- before
	}
}

func TestServesUntilStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &lines{c: make(chan string, 10)}
	c := command(out)
	c.SetArgs([]string{"--listen", "127.0.0.1:0", "--scenario", "happy-card", "--token", "one-test-token", "--token", "two-test-token"})
	done := make(chan error)
	go func() { done <- c.ExecuteContext(ctx) }()
	first := <-out.c
	address, ok := strings.CutPrefix(first, "serving ")
	if !ok {
		t.Fatalf("the first line is %q", first)
	}
	for _, want := range []string{"token one-test-token", "token two-test-token"} {
		if got := <-out.c; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	url := strings.Replace(address, "{tool}", "get_account", 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer two-test-token")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("answered %d", resp.StatusCode)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
}
