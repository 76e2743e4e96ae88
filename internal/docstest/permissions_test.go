package docstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/redistest"
	"github.com/heraldbridge/herald/internal/stream"
)

// guardedNATS runs a server with the users of nats-permissions.conf and one that may do all. Whoever brings no name is
// the role.
func guardedNATS(t *testing.T, role string) *server.Server {
	t.Helper()
	o, err := server.ProcessConfigFile("../../deploy/nats-permissions.conf")
	if err != nil {
		t.Fatal(err)
	}
	o.Users = append(o.Users, &server.User{Username: "admin", Password: "admin"})
	for _, u := range o.Users {
		if u.Password == "" {
			u.Password = u.Username
		}
	}
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoAuthUser = "127.0.0.1", server.RANDOM_PORT, true, t.TempDir(), role
	o.NoLog, o.NoSigs = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

// admin opens the streams as the user who may do all.
func admin(t *testing.T, s *server.Server) *stream.Bus {
	t.Helper()
	b, err := stream.Open(t.Context(), stream.Options{URL: s.ClientURL(), MaxBytes: 64 << 20,
		User: func() (string, string, error) { return "admin", "admin", nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.WithoutCancel(t.Context())) })
	return b
}

// said is a log that can be read while it grows.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write takes lines.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// runRole runs a role and gives its address. Whatever NATS did not permit fails the test.
func runRole(t *testing.T, role config.Role, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"herald.yaml": text, "secret": "stand-in-of-at-least-24-bytes-x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.LoadFor(filepath.Join(dir, "herald.yaml"), role)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out := &said{}
	a, err := app.New(ctx, app.Options{Config: cfg, Role: role, Version: "test",
		Log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
		for line := range strings.Lines(out.text()) {
			if strings.Contains(strings.ToLower(line), "permissions violation") {
				t.Errorf("not permitted: %s", line)
			}
		}
	})
	select {
	case <-a.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("the %s ended: %v\n%s", role, err, out.text())
	case <-time.After(time.Minute):
		t.Fatalf("the %s does not become ready\n%s", role, out.text())
	}
	return "http://" + a.Addr()
}

// send makes a request and gives status and body.
func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// lists asks for all that a console shows.
func lists(t *testing.T, addr string) {
	t.Helper()
	for _, path := range []string{"/v1/purchases", "/v1/sinks", "/v1/connections", "/v1/dead", "/v1/deliveries", "/v1/silences"} {
		if status, body := send(t, http.MethodGet, addr+path, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestWatcherWorksWithItsPermissions(t *testing.T) {
	s := guardedNATS(t, "watcher")
	bus := admin(t, s)
	sim, err := envoysim.New(envoysim.Options{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	token := sim.AddToken("asha", "origin:https://host.example.test")
	envoy := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { envoy.CloseClientConnections(); envoy.Close() })
	t.Setenv("HOST_TOKEN", token)
	addr := runRole(t, config.RoleWatcher, fmt.Sprintf(`
nats: { url: %q }
redis: { url: %q }
http: { listen: "127.0.0.1:0" }
connections: [{ name: host-a, base_url: %q, token: "env:HOST_TOKEN" }]
`, s.ClientURL(), redistest.Own(t).URL(), envoy.URL))
	id, err := sim.Put("asha", envoysim.Purchase{State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
		CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 100})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection has an owner, who takes a registration", func() bool {
		status, _ := send(t, http.MethodPost, addr+"/v1/watches", `{"connection":"host-a","purchase":"`+id+`"}`)
		return status == http.StatusCreated
	})
	eventually(t, "its event is stored", func() bool {
		e, _, err := bus.Last(t.Context(), "host-a", id)
		return err == nil && e != nil
	})
	lists(t, addr)

	// A host reaches its own connection over NATS, and no other subject.
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("host", "host"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	m, err := nc.RequestWithContext(t.Context(), "envoy.control.watch.host-a", []byte(`{"op":"list"}`))
	if err != nil || !strings.Contains(string(m.Data), id) {
		t.Errorf("a host is answered %v %v", m, err)
	}
	forbidden(t, nc, "envoy.purchase.host-a."+id)
	forbidden(t, nc, "envoy.control.watch.host-b")
}

// forbidden sees that a user may not publish on a subject.
func forbidden(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	heard := make(chan error, 8)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { heard <- err })
	if err := nc.Publish(subject, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-heard:
		if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
			t.Errorf("%s: %v", subject, err)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s is permitted", subject)
	}
}

func TestNotifierAndReaderWorkWithTheirPermissions(t *testing.T) {
	s := guardedNATS(t, "notifier")
	bus := admin(t, s)
	refuse := make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-refuse:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(func() { hook.CloseClientConnections(); hook.Close() })
	addr := runRole(t, config.RoleNotifier, fmt.Sprintf(`
nats: { url: %q }
redis: { url: %q }
http: { listen: "127.0.0.1:0" }
sinks: [{ name: orders, retry: { schedule: [50ms, 50ms] }, webhook: { url: %q, secrets: ["file:secret"], allow_cidrs: [127.0.0.0/8] } }]
subscriptions: [{ name: all, match: "true", sinks: [orders] }]
`, s.ClientURL(), redistest.Own(t).URL(), hook.URL))
	var last events.Event
	for _, e := range events.Samples() {
		if e.Purchase == nil {
			continue
		}
		if _, err := bus.Publish(t.Context(), e, 0); err != nil {
			t.Fatal(err)
		}
		last = e
	}
	eventually(t, "what is refused rests as a dead letter", func() bool {
		_, body := send(t, http.MethodGet, addr+"/v1/dead", "")
		return strings.Contains(body, last.ID)
	})
	close(refuse)
	eventually(t, "it is replayed", func() bool {
		_, body := send(t, http.MethodPost, addr+"/v1/dead/replay", `{"event":"`+last.ID+`","sink":"orders"}`)
		_, left := send(t, http.MethodGet, addr+"/v1/dead", "")
		return strings.Contains(body, `"asked":`) && !strings.Contains(left, last.ID)
	})
	if status, body := send(t, http.MethodPost, addr+"/v1/sinks/orders/test", "{}"); status != http.StatusOK || !strings.Contains(body, `"done"`) {
		t.Errorf("a test of the sink: %d %s", status, body)
	}
	lists(t, addr)
	if status, body := send(t, http.MethodPost, addr+"/v1/leakcheck", "{}"); status != http.StatusOK {
		t.Errorf("a search for secrets: %d %s", status, body)
	}
	reads(t, s)
}

// reads takes one event as a service does that may only read.
func reads(t *testing.T, s *server.Server) {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("reader", "reader"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), "ENVOY_PURCHASES", jetstream.ConsumerConfig{
		Durable: "orders-service", FilterSubjects: []string{"envoy.purchase.>"}, AckPolicy: jetstream.AckExplicitPolicy,
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(30 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	forbidden(t, nc, m.Subject())
	forbidden(t, nc, "$JS.API.STREAM.DELETE.ENVOY_PURCHASES")
}
