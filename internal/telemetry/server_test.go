package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/telemetry"
)

// start runs a server and gives its address, a way to end it and what Run returns.
func start(t *testing.T, o telemetry.ServerOptions) (url string, stop func(), done <-chan error) {
	t.Helper()
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	server, err := telemetry.NewServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		result <- server.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-finished; http.DefaultClient.CloseIdleConnections() })
	return "http://" + server.Addr().String(), cancel, result
}

func get(t *testing.T, url, token, accept string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestHealthNamesWhatIsMissing(t *testing.T) {
	health := telemetry.NewHealth("nats", "redis")
	url, _, _ := start(t, telemetry.ServerOptions{Health: health})

	health.Set("redis", errors.New("no route"))
	if status, body := get(t, url+"/readyz", "", ""); status != 503 || body != "not ready\nnats: is starting\nredis: no route\n" {
		t.Errorf("readyz: %d %q", status, body)
	}
	if status, body := get(t, url+"/readyz", "", "application/json"); status != 503 ||
		!strings.Contains(body, `"missing":[{"name":"nats","reason":"is starting"},{"name":"redis","reason":"no route"}]`) {
		t.Errorf("readyz as JSON: %d %q", status, body)
	}
	if status, body := get(t, url+"/healthz", "", ""); status != 200 || body != "alive\n" {
		t.Errorf("healthz: %d %q", status, body)
	}

	health.Set("nats", nil)
	health.Remove("redis")
	if status, body := get(t, url+"/readyz", "", ""); status != 200 || body != "ready\n" {
		t.Errorf("readyz: %d %q", status, body)
	}
	if !health.Ready() {
		t.Error("not ready")
	}
}

func TestTokenGuardsAllButHealth(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /v1/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	token := "s3cret"
	var tokenErr error
	url, _, _ := start(t, telemetry.ServerOptions{
		Token:    func(context.Context) (string, error) { return token, tokenErr },
		Registry: telemetry.NewRegistry(),
		Pages:    pages,
	})
	tests := []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/metrics", "", 401},
		{"/metrics", "Bearer wrong", 401},
		{"/metrics", "Basic s3cret", 401},
		{"/metrics", "Bearer s3cret", 200},
		{"/v1/page", "", 401},
		{"/v1/page", "bearer s3cret", 200},
		{"/nothing", "", 401},
		{"/nothing", "Bearer s3cret", 404},
	}
	for _, tt := range tests {
		if status, body := get(t, url+tt.path, tt.token, ""); status != tt.want || strings.Contains(body, token) {
			t.Errorf("%s with %q: %d %q, want %d", tt.path, tt.token, status, body, tt.want)
		}
	}

	tokenErr = errors.New("file is gone")
	if status, _ := get(t, url+"/metrics", "Bearer s3cret", ""); status != 503 {
		t.Errorf("unreadable token: %d", status)
	}
	token, tokenErr = "", nil
	if status, _ := get(t, url+"/metrics", "Bearer ", ""); status != 503 {
		t.Errorf("empty token: %d", status)
	}
}

// Behind a listener without a token a header that nobody looked at must not look like proof.
func TestUncheckedTokenIsTakenAway(t *testing.T) {
	seen := make(chan string, 1)
	pages := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") })
	url, _, _ := start(t, telemetry.ServerOptions{Pages: pages})
	get(t, url+"/v1/page", "Bearer invented", "")
	if got := <-seen; got != "" {
		t.Errorf("the page sees %q", got)
	}
	token := func(context.Context) (string, error) { return "s3cret", nil }
	url, _, _ = start(t, telemetry.ServerOptions{Pages: pages, Token: token})
	get(t, url+"/v1/page", "Bearer s3cret", "")
	if got := <-seen; got != "Bearer s3cret" {
		t.Errorf("behind a token the page sees %q", got)
	}
}

// A page that breaks down ends its request, is told to operators, and leaves the listener as it was.
func TestPageThatBreaksDownIsTold(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /broken", func(http.ResponseWriter, *http.Request) { panic("a mistake of ours") })
	pages.HandleFunc("GET /given-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	said := &lockedBuffer{}
	url, _, _ := start(t, telemetry.ServerOptions{Pages: pages, Log: telemetry.NewLogger(said, "info", "json")})
	for _, path := range []string{"/given-up", "/broken"} {
		if resp, err := http.DefaultClient.Get(url + path); err == nil {
			resp.Body.Close()
			t.Errorf("%s: answered %d", path, resp.StatusCode)
		}
	}
	if status, _ := get(t, url+"/healthz", "", ""); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
	text := said.String()
	if strings.Count(text, "a page broke down") != 1 || !strings.Contains(text, "a mistake of ours") || !strings.Contains(text, "server_test.go") {
		t.Errorf("said:\n%s", text)
	}
}

// lockedBuffer is a log that many may write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds to the log.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String gives what was said.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A reader who takes nothing of a long answer does not hold it for ever; one who reads now and then keeps a stream that
// lasts longer than its patience.
func TestReadersWhoStopAreCutOff(t *testing.T) {
	ended, quiet := make(chan error, 1), make(chan struct{})
	pages := http.NewServeMux()
	pages.HandleFunc("GET /endless", func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for {
			if _, err := w.Write(part); err != nil {
				ended <- err
				return
			}
		}
	})
	const patience = 200 * time.Millisecond
	pages.HandleFunc("GET /stream", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		<-quiet
		_, _ = io.WriteString(w, "second")
	})
	url, _, _ := start(t, telemetry.ServerOptions{Pages: pages, Patience: patience})
	deaf, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, "GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ended by %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the answer goes on")
	}
	defer time.AfterFunc(3*patience, func() { close(quiet) }).Stop()
	if status, body := get(t, url+"/stream", "", ""); status != 200 || body != "first second" {
		t.Errorf("stream: %d %q", status, body)
	}
}

func TestOpenPagesNeedNoToken(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	url, _, _ := start(t, telemetry.ServerOptions{
		Token: func(context.Context) (string, error) { return "s3cret", nil },
		Open:  []string{"/", "/page.js"},
		Pages: pages,
	})
	for path, want := range map[string]int{"/": 200, "/page.js": 200, "/page.js/x": 401, "/v1/purchases": 401, "/%2e": 401} {
		if status, _ := get(t, url+path, "", ""); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	resp, err := http.Post(url+"/", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST /: %d, want 401", resp.StatusCode)
	}
}

func TestMetricsAreServed(t *testing.T) {
	url, _, _ := start(t, telemetry.ServerOptions{Registry: telemetry.NewRegistry()})
	if status, body := get(t, url+"/metrics", "", ""); status != 200 || !strings.Contains(body, "go_goroutines ") {
		t.Errorf("%d %.200q", status, body)
	}
}

func TestRequestsUnderWayFinish(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "whole")
	})
	url, stop, done := start(t, telemetry.ServerOptions{Pages: pages, Grace: time.Minute})
	answer := make(chan string, 1)
	go func() {
		_, body := get(t, url+"/", "", "")
		answer <- body
	}()
	<-entered
	stop()
	close(leave)
	if body := <-answer; body != "whole" {
		t.Errorf("answer %q", body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStreamsAreToldAndEndWithoutError(t *testing.T) {
	entered := make(chan struct{})
	pages := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	url, stop, done := start(t, telemetry.ServerOptions{Pages: pages, Grace: 200 * time.Millisecond})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		get(t, url+"/", "", "")
	}()
	<-entered
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-ended
}

func TestPortInUseIsKnownAtOnce(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, err := telemetry.NewServer(t.Context(), telemetry.ServerOptions{Listen: listener.Addr().String()}); err == nil {
		t.Error("a port in use was opened")
	}
}

func TestB17_ListenerOnIPv6(t *testing.T) {
	url, _, _ := start(t, telemetry.ServerOptions{Listen: "[::1]:0"})
	if !strings.HasPrefix(url, "http://[::1]:") {
		t.Errorf("address %s", url)
	}
	if status, _ := get(t, url+"/healthz", "", ""); status != 200 {
		t.Errorf("status %d", status)
	}
}

// Whoever refuses, the guard, net/http or a page in plain text: the answer is the document that the API refuses with.
func TestRefusalsAreJSON(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /v1/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	pages.HandleFunc("GET /v1/full", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no <room>", http.StatusInsufficientStorage)
	})
	pages.HandleFunc("GET /v1/own", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, `{"own":true}`)
	})
	url, _, _ := start(t, telemetry.ServerOptions{
		Token: func(context.Context) (string, error) { return "s3cret", nil }, Registry: telemetry.NewRegistry(), Pages: pages,
	})
	tests := []struct {
		method, path, token string
		status              int
		want                string
	}{
		{"GET", "/v1/page", "", 401, `{"error":{"field":"","problem":"a bearer token is needed"}}`},
		{"POST", "/v1/page", "Bearer s3cret", 405, `{"error":{"field":"","problem":"this path takes GET, HEAD"}}`},
		{"DELETE", "/metrics", "Bearer s3cret", 404, `{"error":{"field":"","problem":"there is no such page"}}`},
		{"GET", "/nothing", "Bearer s3cret", 404, `{"error":{"field":"","problem":"there is no such page"}}`},
		{"GET", "/v1/full", "Bearer s3cret", 507, `{"error":{"field":"","problem":"no <room>"}}`},
		{"GET", "/v1/own", "Bearer s3cret", 418, `{"own":true}`},
		{"GET", "/v1/page", "Bearer s3cret", 200, "page"},
	}
	for _, tt := range tests {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, url+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", tt.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status || strings.TrimSpace(string(body)) != tt.want {
			t.Errorf("%s %s: %d %s %v, want %d %s", tt.method, tt.path, resp.StatusCode, body, err, tt.status, tt.want)
		}
		if kind := resp.Header.Get("Content-Type"); tt.status >= 400 && kind != "application/json" {
			t.Errorf("%s %s is %s", tt.method, tt.path, kind)
		}
	}
}

func TestReadinessIsAMetric(t *testing.T) {
	health, registry := telemetry.NewHealth("nats"), telemetry.NewRegistry()
	if err := health.Register(registry); err != nil {
		t.Fatal(err)
	}
	url, _, _ := start(t, telemetry.ServerOptions{Health: health, Registry: registry})
	for _, want := range []string{"herald_ready 0", "herald_ready 1"} {
		if _, body := get(t, url+"/metrics", "", ""); !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no %q in the metrics", want)
		}
		health.Set("nats", nil)
	}
}
