package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestWrongConfigurationExitsWithTwo(t *testing.T) {
	w := newWorld(t)
	file := w.write(w.dir, "wrong.yaml", `http: { listen: "127.0.0.1:0" }
connections:
  - { name: host.a, base_url: "http://203.0.113.9/", token: "file:none" }
sinks:
  - { name: orders, retires: 5, webhook: { url: "https://orders.example.test/", timeout: 30 } }
subscriptions:
  - { name: orders, match: "sitution == 'done'", sinks: [order] }
`)
	for _, call := range [][]string{{"herald", "run", "-c", file}, {"herald", "config", "check", "-c", file}} {
		p := w.start(call[0], call[1:]...)
		if code := p.exit(); code != 2 {
			t.Errorf("%v: exit code %d, want 2", call, code)
		}
		place := regexp.MustCompile(`^` + regexp.QuoteMeta(file) + `:\d+:\d+: `)
		lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
		for _, line := range lines {
			if !place.MatchString(line) {
				t.Errorf("no place in %q", line)
			}
		}
		for _, about := range []string{"host.a", "base_url", "none", "retires", "timeout", "order"} {
			if !strings.Contains(p.out.String(), about) {
				t.Errorf("%v says nothing about %s:\n%s", call, about, p.out)
			}
		}
	}
}

func TestWrongExpressionIsPlaced(t *testing.T) {
	w := newWorld(t)
	file := w.config("expr", places{})
	p := w.start("herald", "config", "check", "-c", file)
	if code := p.exit(); code != 0 {
		t.Fatalf("a right file: exit code %d\n%s", code, p.out)
	}
	bad := w.write(filepath.Dir(file), "bad.yaml", strings.Replace(readFile(t, file), `type ==`, `sitution ==`, 1))
	p = w.start("herald", "config", "check", "-c", bad)
	if code := p.exit(); code != 2 || !strings.Contains(p.out.String(), "sitution") || !strings.Contains(p.out.String(), "bad.yaml:") {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
}

func TestWrongUsageExitsWithTwo(t *testing.T) {
	w := newWorld(t)
	for _, call := range [][]string{
		{"herald", "watch"}, {"herald", "run", "--confg", "x"}, {"watcher", "now"}, {"notifier", "-c"}, {"herald", "demo", "--for", "soon"},
		{"herald", "demo", "--for", "1s"}, {"herald", "demo", "--for", "-5s"},
	} {
		p := w.start(call[0], call[1:]...)
		if code := p.exit(); code != 2 {
			t.Errorf("%v: exit code %d, want 2\n%s", call, code, p.out)
		}
	}
	watcherAlone := w.start("watcher", "-c", w.config("alone", places{}))
	if code := watcherAlone.exit(); code != 2 || !strings.Contains(watcherAlone.out.String(), "redis.url") {
		t.Errorf("watcher without Redis: exit code %d\n%s", code, watcherAlone.out)
	}
}

// A store that is away at the start is waited for with one clear line, and
// nothing that was to be watched is lost.
func TestStoresAwayAtTheStart(t *testing.T) {
	for _, store := range []string{"nats", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			file := w.config("away", w.outside())
			stop, start := w.nats.Kill, w.nats.Start
			if store == "redis" {
				stop, start = w.redis.Stop, w.redis.Restart
			}
			stop()
			p := w.start("watcher", "-c", file)
			addr := listenAddr(t, p)
			await(t, 20*time.Second, "it is alive and not ready", func() bool {
				return status(addr+"/healthz") == http.StatusOK && status(addr+"/readyz") == http.StatusServiceUnavailable
			}, p.out.String)
			// Long enough for several tries, by their number at the closed port and not by time: the log must not grow with them.
			await(t, 10*time.Second, "it says so", func() bool { return strings.Contains(strings.ToLower(p.out.String()), store) }, p.out.String)
			start()
			p.says(`"msg":"running"`)
			await(t, 20*time.Second, "it is ready", func() bool { return status(addr+"/readyz") == http.StatusOK }, p.out.String)
			n := 0
			for _, line := range strings.Split(p.out.String(), "\n") {
				if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
					n++
				}
			}
			if n < 1 || n > 2 {
				t.Errorf("%d lines of warning, want one for going and at the most one for coming back:\n%s", n, p.out)
			}
			id := w.envoyCheckout()
			await(t, 30*time.Second, "a purchase is published", func() bool { return len(revisions(w.stored(), id)) == 1 }, p.out.String)
			if code := p.stop(); code != 0 {
				t.Errorf("exit code %d\n%s", code, p.out)
			}
		})
	}
}

// SIGTERM while it waits for a store ends it at once, with exit code 0.
func TestStopWhileWaiting(t *testing.T) {
	w := newWorld(t)
	file := w.config("stop", w.outside())
	w.nats.Kill()
	p := w.start("notifier", "-c", file)
	listenAddr(t, p)
	began := time.Now()
	if code := p.stop(); code != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("exit code %d after %s\n%s", code, time.Since(began), p.out)
	}
}

func listenAddr(t *testing.T, p *proc) string {
	t.Helper()
	at := regexp.MustCompile(`"listen":"([^"]+)"`)
	var addr string
	await(t, 20*time.Second, "it says where it listens", func() bool {
		m := at.FindStringSubmatch(p.out.String())
		if m != nil {
			addr = "http://" + m[1]
		}
		return m != nil
	}, p.out.String)
	return addr
}

func status(address string) int {
	resp, err := http.Get(address)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestEventsTail(t *testing.T) {
	w := newWorld(t)
	h := w.start("herald", "run", "-c", w.config("tail", places{}))
	addr := listenAddr(t, h)
	h.says(`"msg":"running"`)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"people": {nil, "₹2,499.00"},
		"json":   {[]string{"--json"}, `"specversion":"1.0"`},
		"match":  {[]string{"--match", `state == "processing"`, "--json"}, `"state":"processing"`},
	} {
		t.Run(name, func(t *testing.T) {
			tail := w.start("herald", append([]string{"events", "tail", "--url", addr, "--since", "1h"}, c.args...)...)
			play(t, w, h.out.String)
			tail.says(c.want)
			if name == "match" && strings.Contains(tail.out.String(), `"state":"verifying"`) {
				t.Errorf("the match let others through:\n%s", tail.out)
			}
			tail.stop()
		})
	}
	wrong := w.start("herald", "events", "tail", "--url", addr, "--match", "sitution")
	if code := wrong.exit(); code != 2 || !strings.Contains(wrong.out.String(), "sitution") {
		t.Errorf("exit code %d\n%s", code, wrong.out)
	}
	nobody := w.start("herald", "events", "tail", "--url", "http://127.0.0.1:1")
	if code := nobody.exit(); code != 1 || !strings.Contains(nobody.out.String(), "running") {
		t.Errorf("exit code %d\n%s", code, nobody.out)
	}
}

func TestWrongRegistrationNamesTheField(t *testing.T) {
	w := newWorld(t)
	h := w.start("herald", "run", "-c", w.config("register", places{}))
	addr := listenAddr(t, h)
	h.says(`"msg":"running"`)
	for body, field := range map[string]string{
		`{"connection":"host-b","purchase":"pur_0123456789abcdef0123456789abcdef"}`: "connection",
		`{"connection":"host-a","purchase":"pur_1"}`:                                "purchase",
		`{"connection":"host-a","purchase":"short"}`:                                "purchase",
		`{"connection":"host-a","key":"synthetic-intent-0042"}`:                     "key",
		`{"connection":7}`: "connection",
	} {
		resp, err := http.Post(addr+"/v1/watches", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text := readBody(t, resp)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, field) {
			t.Errorf("%s: %d %s, want 400 and %s", body, resp.StatusCode, text, field)
		}
	}
	key := "synthetic-intent-0042"
	// The connection may not be owned yet so soon after the start.
	await(t, 10*time.Second, "a right registration is taken", func() bool {
		resp, err := http.Post(addr+"/v1/watches", "application/json",
			strings.NewReader(fmt.Sprintf(`{"connection":"host-a","purchase":%q}`, key)))
		if err != nil {
			t.Fatal(err)
		}
		text := readBody(t, resp)
		if strings.Contains(text, key) {
			t.Errorf("the key came back: %s", text)
		}
		return resp.StatusCode/100 == 2
	}, h.out.String)
	if strings.Contains(h.out.String(), key) {
		t.Errorf("the key is in the log:\n%s", h.out)
	}
}

// A page of another site, or a name that was pointed at loopback, can neither
// register nor reload nor read.
func TestForeignPagesAreRefused(t *testing.T) {
	w := newWorld(t)
	h := w.start("herald", "run", "-c", w.config("foreign", places{}))
	addr := listenAddr(t, h)
	h.says(`"msg":"running"`)
	for _, c := range []struct{ method, path, host, origin, token string }{
		{http.MethodPost, "/v1/watches", "", "https://evil.example.test", ""},
		{http.MethodPost, "/v1/reload", "", "https://evil.example.test", ""},
		{http.MethodPost, "/v1/reload", "evil.example.test", "", ""},
		{http.MethodGet, "/v1/watches", "evil.example.test", "", ""},
		{http.MethodGet, "/v1/purchases", "evil.example.test", "", ""},
		// This process asks for no token, so one that is brought has been looked at by nobody.
		{http.MethodGet, "/v1/purchases", "evil.example.test", "", "invented"},
		{http.MethodPost, "/v1/watches", "evil.example.test", "", "invented"},
		{http.MethodPost, "/v1/reload", "", "https://evil.example.test", "invented"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, addr+c.path,
			strings.NewReader(`{"connection":"host-a","purchase":"synthetic-intent-0042"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.host != "" {
			req.Host = c.host
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%+v: %d, want 403", c, resp.StatusCode)
		}
	}
}
