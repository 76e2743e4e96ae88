package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/dedupe/dedupetest"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/redistest"
)

func purchaseID(i int) string { return fmt.Sprintf("pur_%032x", i) }

// The primary is demoted with its connections left open; new connections reach
// the new one.
func TestB30_ReadOnlyAnswersDropTheConnections(t *testing.T) {
	first, second := redistest.Own(t), redistest.Own(t)
	proxy := startProxy(t, first.Port())
	var said journal
	store, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: proxy.url(), Log: said.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	var warm sync.WaitGroup // several connections of the pool
	for i := range 8 {
		warm.Go(func() {
			if err := store.Advance(t.Context(), map[string]events.Cursor{purchaseID(i): dedupetest.CursorAt(0, 1, 0, 1)}); err != nil {
				t.Error(err)
			}
		})
	}
	warm.Wait()

	if err := first.Client().ReplicaOf(t.Context(), "127.0.0.1", strconv.Itoa(second.Port())).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.point(second.Port())
	for i := range 20 {
		eventually(t, "a write on the new primary", func() bool {
			return store.Advance(t.Context(), map[string]events.Cursor{purchaseID(i): dedupetest.CursorAt(0, 2, 0, 2)}) == nil
		})
	}
	onSecond := openRedis(t, second.URL(), nil)
	for i := range 20 {
		c, found, err := onSecond.Cursor(t.Context(), purchaseID(i))
		if err != nil || !found || c.Revision != 2 {
			t.Errorf("purchase %d on the new primary: %+v, %v, %v", i, c, found, err)
		}
	}
	if n := said.count("read only"); n != 1 {
		t.Errorf("the demotion is said %d times, want once:\n%s", n, said.String())
	}
}

// While Redis is stopped, full or hanging, every answer is an error and is
// counted; afterwards the same store works again.
func TestB31_OutOfReachIsNotAlreadySeen(t *testing.T) {
	cases := []struct {
		name   string
		worsen func(*testing.T, *redistest.Server)
		mend   func(*testing.T, *redistest.Server)
		reads  bool // reading goes on
	}{
		{"Stopped", func(_ *testing.T, s *redistest.Server) { s.Stop() },
			func(_ *testing.T, s *redistest.Server) { s.Restart() }, false},
		{"OutOfMemory", func(t *testing.T, s *redistest.Server) { configure(t, s, "maxmemory", "1") },
			func(t *testing.T, s *redistest.Server) { configure(t, s, "maxmemory", "0") }, true},
		{"Hanging", func(_ *testing.T, s *redistest.Server) { s.Pause() },
			func(_ *testing.T, s *redistest.Server) { s.Resume() }, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Own(t)
			reg := prometheus.NewRegistry()
			store, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: srv.URL(), Metrics: reg})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			must(t, store.Advance(t.Context(), map[string]events.Cursor{purchaseID(1): dedupetest.CursorAt(0, 1, 0, 1)}))

			tc.worsen(t, srv)
			if err := store.Advance(t.Context(), map[string]events.Cursor{purchaseID(1): dedupetest.CursorAt(0, 2, 0, 2)}); err == nil {
				t.Error("a write in trouble says that it is done")
			}
			c, found, err := store.Cursor(t.Context(), purchaseID(1))
			if tc.reads && (err != nil || !found || c.Revision != 1) {
				t.Errorf("a read that can be answered: %+v, %v, %v", c, found, err)
			}
			if !tc.reads && err == nil {
				t.Errorf("a read in trouble is answered: %+v, %v", c, found)
			}
			if families, err := reg.Gather(); err != nil || len(families) == 0 {
				t.Errorf("the trouble is not counted: %v, %v", families, err)
			}

			tc.mend(t, srv)
			eventually(t, "a write after the trouble", func() bool {
				return store.Advance(t.Context(), map[string]events.Cursor{purchaseID(1): dedupetest.CursorAt(0, 3, 0, 3)}) == nil
			})
			if c, found, err := store.Cursor(t.Context(), purchaseID(1)); err != nil || !found || c.Revision != 3 {
				t.Errorf("after the trouble: %+v, %v, %v", c, found, err)
			}
		})
	}
}

func configure(t *testing.T, s *redistest.Server, key, value string) {
	t.Helper()
	must(t, s.Client().ConfigSet(t.Context(), key, value).Err())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenRedisWaitsForTheServer(t *testing.T) {
	srv := redistest.Own(t)
	srv.Stop()
	var said journal
	opened := make(chan error, 1)
	go func() {
		r, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: srv.URL(), Log: said.logger()})
		if err == nil {
			err = r.Close()
		}
		opened <- err
	}()
	eventually(t, "a line about the server being away", func() bool { return said.count("out of reach") > 0 })
	srv.Restart()
	must(t, <-opened)
	if said.count("out of reach") > 2 || said.count("redis is reachable") != 1 {
		t.Errorf("want a line per change, got:\n%s", said.String())
	}
}

func TestOpenRedisEndsWithItsContext(t *testing.T) {
	srv := redistest.Own(t)
	srv.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dedupe.OpenRedis(ctx, dedupe.RedisOptions{URL: srv.URL()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestOpenRedisRefusesWhatWaitingCannotMend(t *testing.T) {
	srv := redistest.Own(t, "--requirepass", "secret-word")
	cases := []struct{ name, url string }{
		{"NoPassword", fmt.Sprintf("redis://127.0.0.1:%d/0", srv.Port())},
		{"WrongPassword", fmt.Sprintf("redis://:another-word@127.0.0.1:%d/0", srv.Port())},
		{"NoAddress", "://:another-word@x"},
		{"AnotherScheme", "http://:another-word@x"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: tc.url})
			if err == nil {
				t.Fatal("it opens")
			}
			if text := err.Error(); strings.Contains(text, "another-word") {
				t.Errorf("the error holds the password: %s", text)
			}
		})
	}
	r, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{
		URL:         srv.URL(),
		Credentials: func(context.Context) (string, string, error) { return "", "secret-word", nil },
	})
	must(t, err)
	must(t, r.Healthy(t.Context()))
	must(t, r.Close())
}

func TestOpenRedisNamesAnEvictingPolicy(t *testing.T) {
	cases := []struct {
		policy string
		lines  int
	}{{"noeviction", 0}, {"allkeys-lru", 1}, {"volatile-ttl", 1}}
	for _, tc := range cases {
		t.Run(tc.policy, func(t *testing.T) {
			srv := redistest.Own(t, "--maxmemory-policy", tc.policy)
			var said journal
			openRedis(t, srv.URL(), said.logger())
			if n := said.count("maxmemory_policy=" + tc.policy); n != tc.lines {
				t.Errorf("the policy is named %d times, want %d:\n%s", n, tc.lines, said.String())
			}
		})
	}
}

func TestRedisPrefixesKeepApart(t *testing.T) {
	srv := redistest.Start(t)
	open := func(prefix string) *dedupe.Redis {
		r, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: srv.URL(), Prefix: prefix})
		must(t, err)
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	a, b := open(t.Name()+"-a"), open(t.Name()+"-b")
	must(t, a.Advance(t.Context(), map[string]events.Cursor{purchaseID(1): dedupetest.CursorAt(0, 1, 0, 1)}))
	if _, found, err := b.Cursor(t.Context(), purchaseID(1)); err != nil || found {
		t.Errorf("another prefix sees it: %v, %v", found, err)
	}
}

// proxy passes connections to a port that can be changed; what is open stays.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	port     int
	open     []net.Conn
	done     sync.WaitGroup
}

func startProxy(t *testing.T, port int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: l, port: port}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.done.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() + "/0" }

func (p *proxy) point(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.port = port
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		out, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), time.Second)
		if err != nil {
			p.mu.Unlock()
			_ = in.Close()
			continue
		}
		p.open = append(p.open, in, out)
		p.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			p.done.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}
