package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
)

const (
	soakUsers   = 700              // connections, each with one purchase at a time
	soakChanges = 60               // changes of a purchase before the next one begins
	soakEvery   = 10 * time.Second // between two samples
	soakSecret  = "a signing key of the soak, 32 b."
)

// soak runs the two programs as they are deployed, over NATS and Redis, while purchases change at a steady pace, and
// writes down what they use. It ends with an error if an event is lost or comes twice.
type soak struct {
	b        *bench
	rate     float64
	sim      *envoysim.Sim
	envoy    *http.Server
	hook     *soakHook
	programs []*soakProgram
	ids      []string // the current purchase of each user
	left     []int    // changes until the next one
	samples  []sample
}

// soakProgram is a watcher or a notifier.
type soakProgram struct {
	name string
	cmd  *exec.Cmd
	log  *soakLog
}

// sample is what everything uses at one moment.
type sample struct {
	At        float64            `json:"at_s"`
	Changes   int                `json:"changes"`
	Received  int                `json:"received"`
	Behind    int                `json:"behind"` // changes that the receiver has not got yet
	Consumers int                `json:"consumers"`
	RSS       map[string]int64   `json:"rss"`
	CPU       map[string]float64 `json:"cpu_s"`
	Files     map[string]int     `json:"files"`
	Routines  map[string]int     `json:"goroutines"`
}

func runSoak(ctx context.Context, b *bench) (err error) {
	s := &soak{b: b, rate: b.o.rate}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.begin(ctx); err != nil {
		return err
	}
	b.say("soak: %s at %.0f changes/s over %d connections", b.o.soak, s.rate, soakUsers)
	if err := s.play(ctx); err != nil {
		return err
	}
	return s.tell()
}

// begin starts everything and waits until all purchases are held.
func (s *soak) begin(ctx context.Context) error {
	var err error
	if s.sim, err = envoysim.New(envoysim.Options{Seed: 1, RequestsPerMinute: -1}); err != nil {
		return fmt.Errorf("make the stand-in: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.envoy = &http.Server{Handler: s.sim.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.envoy.Serve(l) }()
	if s.hook, err = newSoakHook(ctx); err != nil {
		return err
	}
	file, err := s.config(l.Addr().String())
	if err != nil {
		return err
	}
	bin := filepath.Join(s.b.dir, "bin")
	if _, err := goCommand(ctx, "build", "-o", bin+"/", "./cmd/watcher", "./cmd/notifier"); err != nil {
		return err
	}
	for _, name := range []string{"watcher", "notifier"} {
		p := &soakProgram{name: name, cmd: exec.Command(filepath.Join(bin, name), "-c", file), log: &soakLog{}} //nolint:gosec,noctx // ended by end
		p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
		if err := p.cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		s.programs = append(s.programs, p)
	}
	return await(ctx, 3*time.Minute, "wait until all purchases are held", func() error {
		if n := s.sim.Holds(); n < soakUsers {
			return fmt.Errorf("%d holds of %d", n, soakUsers)
		}
		return nil
	})
}

func (s *soak) config(envoy string) (string, error) {
	dir := filepath.Join(s.b.dir, "soak")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	var y strings.Builder
	fmt.Fprintf(&y, `nats: { url: %q, max_bytes: 20GiB }
redis: { url: %q }
data_dir: %s/data
http: { listen: "127.0.0.1:0" }
log: { level: info, format: json }
watch: { requests_per_minute: 110 }
sinks:
  - name: orders
    concurrency: 16
    webhook: { url: %q, secrets: ["file:hook"], allow_cidrs: [127.0.0.0/8], timeout: 5s }
subscriptions:
  - { name: orders, match: 'type == "money.envoy.purchase.changed.v1"', sinks: [orders] }
connections:
`, s.b.nats.url, s.b.redis.url, dir, s.hook.url)
	for i := range soakUsers {
		user := "user-" + strconv.Itoa(i)
		token := s.sim.AddToken(user, "origin:https://host.example.test")
		if err := os.WriteFile(filepath.Join(dir, user), []byte(token), 0o600); err != nil {
			return "", fmt.Errorf("write a token: %w", err)
		}
		fmt.Fprintf(&y, "  - { name: host-%d, base_url: \"http://%s\", token: \"file:%s\" }\n", i, envoy, user)
		id, err := s.purchase(user)
		if err != nil {
			return "", err
		}
		s.ids, s.left = append(s.ids, id), append(s.left, rand.N(soakChanges)+1)
	}
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte(soakSecret))
	if err := os.WriteFile(filepath.Join(dir, "hook"), []byte(key), 0o600); err != nil {
		return "", fmt.Errorf("write a key: %w", err)
	}
	file := filepath.Join(dir, "herald.yaml")
	return file, os.WriteFile(file, []byte(y.String()), 0o600)
}

func (s *soak) purchase(user string) (string, error) {
	return s.sim.Put(user, envoysim.Purchase{
		State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
		CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
	})
}

// play changes purchases at the pace, user by user, and samples.
func (s *soak) play(ctx context.Context) error {
	const step = 10 * time.Millisecond
	tick, look := time.NewTicker(step), time.NewTicker(soakEvery)
	defer tick.Stop()
	defer look.Stop()
	start := time.Now()
	changes, next := 0, 0
	for time.Since(start) < s.b.o.soak {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if err := s.sample(ctx, time.Since(start), changes); err != nil {
				return err
			}
		case <-tick.C:
			for ; float64(changes) < time.Since(start).Seconds()*s.rate; next = (next + 1) % soakUsers {
				if err := s.change(next); err != nil {
					return err
				}
				changes++
			}
		}
	}
	ends := len(s.ids)
	return await(ctx, time.Minute, "wait until the receiver has the last reading of each purchase", func() error {
		for _, id := range s.ids[:ends] {
			rec, _ := s.sim.Purchase(id)
			if got := s.hook.newest(id); got != int64(rec.Purchase.Revision) {
				return fmt.Errorf("%s: received up to revision %d, it is at %d", id, got, rec.Purchase.Revision)
			}
		}
		return nil
	})
}

// change moves a user's purchase on, or ends it and begins the next.
func (s *soak) change(i int) error {
	to := envoysim.Processing
	if s.left[i]--; s.left[i]%2 == 0 {
		to = envoysim.Verifying
	}
	if s.left[i] > 0 {
		return s.sim.Transition(s.ids[i], func(p *envoysim.Purchase) { p.State = to })
	}
	if err := s.sim.Transition(s.ids[i], func(p *envoysim.Purchase) { p.State = envoysim.Completed }); err != nil {
		return fmt.Errorf("end a purchase: %w", err)
	}
	id, err := s.purchase("user-" + strconv.Itoa(i))
	s.ids[i], s.left[i] = id, soakChanges
	return err
}

// sample looks at the programs from outside, as the system sees them, and at their own metrics.
func (s *soak) sample(ctx context.Context, at time.Duration, changes int) error {
	one := sample{
		At: at.Seconds(), Changes: changes, Received: s.hook.count(),
		RSS: map[string]int64{}, CPU: map[string]float64{}, Files: map[string]int{}, Routines: map[string]int{},
	}
	for _, id := range s.ids {
		if rec, ok := s.sim.Purchase(id); ok && int64(rec.Purchase.Revision) > s.hook.newest(id) {
			one.Behind++
		}
	}
	for _, p := range s.programs {
		proc := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
		open, err := os.ReadDir(proc + "/fd")
		if err != nil {
			return fmt.Errorf("%s has ended: %w\n%s", p.name, err, p.log.tail())
		}
		one.Files[p.name] = len(open)
		m, err := p.metrics(ctx)
		if err != nil {
			return fmt.Errorf("ask %s: %w", p.name, err)
		}
		one.RSS[p.name], one.Routines[p.name], one.CPU[p.name] = int64(m["process_resident_memory_bytes"]), int(m["go_goroutines"]), m["process_cpu_seconds_total"]
	}
	for stream := range s.b.js.ListStreams(ctx).Info() {
		one.Consumers += stream.State.Consumers
	}
	s.samples = append(s.samples, one)
	if n := len(s.samples); n%6 == 0 {
		s.b.say("%5.0f s: %d changes, %d received, watcher %d MiB %d goroutines, notifier %d MiB %d goroutines", one.At, one.Changes, one.Received,
			one.RSS["watcher"]>>20, one.Routines["watcher"], one.RSS["notifier"]>>20, one.Routines["notifier"])
	}
	return nil
}

// metrics reads the plain numbers of a program's /metrics.
func (p *soakProgram) metrics(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	at, err := p.log.listen()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = n
			}
		}
	}
	return out, nil
}

// end stops the programs; each has to end well.
func (s *soak) end() error {
	var errs []error
	for _, p := range s.programs {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(40*time.Second, func() { _ = p.cmd.Process.Kill() })
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w\n%s", p.name, err, p.log.tail()))
		}
		kill.Stop()
	}
	if s.envoy != nil {
		_ = s.envoy.Close()
	}
	if s.hook != nil {
		_ = s.hook.server.Close()
	}
	return errors.Join(errs...)
}

// soakLog keeps the end of a program's output, and its address.
type soakLog struct {
	mu  sync.Mutex
	at  string
	end []byte
}

func (l *soakLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		var said struct{ Msg, Listen string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "listening" {
			l.at = "http://" + said.Listen
		}
	}
	if l.end = append(l.end, p...); len(l.end) > 8192 {
		l.end = append([]byte(nil), l.end[len(l.end)-4096:]...)
	}
	return len(p), nil
}

func (l *soakLog) listen() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == "" {
		return "", errors.New("it has not said where it listens")
	}
	return l.at, nil
}

func (l *soakLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.end)
}

// soakHook is a receiver that remembers the newest revision of each purchase.
type soakHook struct {
	url    string
	server *http.Server

	mu       sync.Mutex
	revision map[string]int64
	received int
	wrong    []string
}

func newSoakHook(ctx context.Context) (*soakHook, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	h := &soakHook{url: "http://" + l.Addr().String() + "/hooks", revision: map[string]int64{}}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = h.server.Serve(l) }()
	return h, nil
}

func (h *soakHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Subject string `json:"subject"`
		Data    struct {
			Reading struct {
				Revision int64 `json:"revision"`
				N        int64 `json:"n"`
			} `json:"reading"`
		} `json:"data"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received++
	before, known := h.revision[e.Subject]
	now := e.Data.Reading.Revision
	if known && (now < before || now == before && e.Data.Reading.N == 0) && len(h.wrong) < 10 {
		h.wrong = append(h.wrong, fmt.Sprintf("%s: revision %d after %d", e.Subject, now, before))
	}
	h.revision[e.Subject] = now
}

func (h *soakHook) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.received
}

func (h *soakHook) newest(id string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := h.revision[id]; ok {
		return r
	}
	return -1
}
