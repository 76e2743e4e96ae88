// Package e2e tests the programs as they are shipped: real processes, a real
// NATS server, a real Redis, and stand-ins only for what cannot be had.
package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/redistest"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/stream"
)

const hookSecret = "an-end-to-end-signing-key-32-byte"

// bin is the folder of the programs, built once for all tests.
func bin(t *testing.T) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "herald-e2e-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/...")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build programs: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := build(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// world is everything around the programs under test.
type world struct {
	t     *testing.T
	sim   *envoysim.Sim
	envoy *httptest.Server
	nats  *natstest.Proc
	redis *redistest.Server
	hook  *sinkfakes.Hook
	token string
	dir   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sim, err := envoysim.New(envoysim.Options{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, sim: sim, nats: natstest.Process(t), redis: redistest.Own(t), dir: t.TempDir()}
	w.token = sim.AddToken("asha", "origin:https://host.example.test")
	w.envoy = httptest.NewServer(sim.Handler())
	t.Cleanup(func() { w.envoy.CloseClientConnections(); w.envoy.Close() })
	if w.hook, err = sinkfakes.NewHook("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.hook.Close() })
	return w
}

// places says where the programs find NATS and Redis; empty: embedded.
type places struct{ nats, redis string }

func (w *world) outside() places {
	return places{nats: w.nats.URL(), redis: w.redis.URL()}
}

// config writes a configuration and gives its path.
func (w *world) config(name string, at places) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.write(dir, "token", w.token)
	w.write(dir, "hook", "whsec_"+base64.StdEncoding.EncodeToString([]byte(hookSecret)))
	var b strings.Builder
	if at.nats != "" {
		fmt.Fprintf(&b, "nats: { url: %q }\n", at.nats)
	}
	if at.redis != "" {
		fmt.Fprintf(&b, "redis: { url: %q }\n", at.redis)
	}
	fmt.Fprintf(&b, `data_dir: %s/data
http: { listen: "127.0.0.1:0" }
log: { level: debug, format: json }
shutdown_grace: 5s
connections:
  - { name: host-a, base_url: %q, token: "file:token" }
watch: { requests_per_minute: 120, look_every: 1s, discover_every: 1s }
sinks:
  - name: orders
    retry: { schedule: [200ms, 400ms, 800ms, 2s, 2s, 2s] }
    webhook: { url: %q, secrets: ["file:hook"], allow_cidrs: [127.0.0.0/8], timeout: 5s }
subscriptions:
  - { name: orders, match: 'type == "money.envoy.purchase.changed.v1"', sinks: [orders] }
`, dir, w.envoy.URL, w.hook.URL("/hooks"))
	return w.write(dir, "herald.yaml", b.String())
}

func (w *world) write(dir, name, text string) string {
	w.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// proc is a running program.
type proc struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *journal
	done chan struct{}
	err  error
}

// start runs a program; it is killed at the end of the test.
func (w *world) start(name string, args ...string) *proc {
	w.t.Helper()
	p := &proc{t: w.t, out: newJournal(), done: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(bin(w.t), name), args...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { defer close(p.done); p.err = p.cmd.Wait() }()
	w.t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop asks with SIGTERM and gives the exit code.
func (p *proc) stop() int {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.exit()
}

func (p *proc) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("%s does not end:\n%s", p.cmd.Path, p.out)
	}
	return p.cmd.ProcessState.ExitCode()
}

// says waits until the output has a text.
func (p *proc) says(text string) {
	p.t.Helper()
	await(p.t, 20*time.Second, fmt.Sprintf("%s says %q", filepath.Base(p.cmd.Path), text), func() bool {
		return strings.Contains(p.out.String(), text)
	}, func() string { return p.out.String() })
}

// journal keeps output and can be read while it grows.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func newJournal() *journal { return &journal{} }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// await polls a condition until it holds, and fails with details after a time.
func await(t *testing.T, limit time.Duration, what string, ok func() bool, details ...func() string) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			var more strings.Builder
			for _, d := range details {
				more.WriteString("\n" + d())
			}
			t.Fatalf("not in %s: %s%s", limit, what, more.String())
		case <-tick.C:
		}
	}
}

// stored reads the stream, past any proxy.
func (w *world) stored() []events.Envelope {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	bus, err := stream.Open(ctx, stream.Options{URL: w.nats.URL(), Name: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer bus.Close(context.WithoutCancel(ctx))
	var out []events.Envelope
	for env, err := range bus.Stored(ctx, time.Time{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, env)
	}
	return out
}

// accepted gives the ids that the receiver took, in order, repeats included.
func (w *world) accepted() []string {
	var out []string
	for _, r := range w.hook.Received() {
		if r.Status/100 == 2 {
			out = append(out, r.Header.Get("webhook-id"))
		}
	}
	return out
}

// envoyCheckout puts a purchase that Envoy checks out, so that it is held.
func (w *world) envoyCheckout() string {
	w.t.Helper()
	id, err := w.sim.Put("asha", envoysim.Purchase{
		State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
		CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) move(id string, to envoysim.State) {
	w.t.Helper()
	if err := w.sim.Transition(id, func(p *envoysim.Purchase) { p.State = to }); err != nil {
		w.t.Fatal(err)
	}
}

// revisions gives the published revisions of a purchase, in stream order. Further
// readings at one revision (money that moved meanwhile) are left out.
func revisions(stored []events.Envelope, id string) []int64 {
	var out []int64
	for _, e := range stored {
		if e.Event.Subject == id && e.Event.Type == events.TypeChanged && e.Event.Purchase.Reading.N == 0 {
			out = append(out, e.Event.Purchase.Reading.Revision)
		}
	}
	return out
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readBody(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
