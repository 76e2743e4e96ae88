package e2e_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// closedPort is a loopback address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// No failure, page, log line or stored byte shows the secret parts of a sink's address.
func TestB39_NoSecretOfAnAddressShows(t *testing.T) {
	const canary = "CANARY-7f3a9b"
	w := newWorld(t)
	notFound, silent := newHookFor(t, nil), newHookFor(t, nil)
	notFound.Always(&sinkfakes.Answer{Status: http.StatusNotFound, Body: "no such hook: " + canary})
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	silent.Always(&sinkfakes.Answer{Handler: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}})
	authority, err := sinkfakes.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	var server *tls.Config
	if server, err = authority.Server("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	untrusted := newHookFor(t, server)
	host := func(h *sinkfakes.Hook) string { return hostOf(h.URL("/")) }
	addresses := map[string]string{
		"refused":   "http://user:@c@" + closedPort(t),
		"unknown":   "http://user:@c@name.invalid",
		"untrusted": "https://user:@c@" + host(untrusted),
		"silent":    "http://user:@c@" + host(silent),
		"missing":   "http://user:@c@" + host(notFound),
	}
	dir := filepath.Join(w.dir, "fleet")
	var sinks, names strings.Builder
	sinks.WriteString("sinks:\n")
	for name := range addresses {
		fmt.Fprintf(&sinks, "  - { name: %s, retry: { schedule: [200ms, 400ms] }, webhook: { url: \"file:url-%s\", timeout: 500ms, allow_cidrs: [127.0.0.0/8] } }\n", name, name)
		fmt.Fprintf(&names, "%s, ", name)
	}
	file := w.fleet(1, sinks.String()+fmt.Sprintf("subscriptions:\n  - { name: all, match: '%s', sinks: [%s] }\nredis: { url: %q }\n",
		everything, strings.TrimSuffix(names.String(), ", "), w.redis.URL()))
	for name, address := range addresses {
		w.write(dir, "url-"+name, strings.ReplaceAll(address, "@c", canary)+"/hooks/"+canary+"?key="+canary)
	}
	h := w.start("herald", "run", "-c", file)
	addr := listenAddr(t, h)
	h.says(`"msg":"running"`)
	ids := w.changeAll(1, envoysim.Verifying, h.out.String)
	for name := range addresses {
		await(t, 60*time.Second, name+" has failed", func() bool {
			return failures(fetch(t, addr+"/metrics"), name) > 0
		}, h.out.String)
	}
	for _, name := range []string{"refused", "unknown", "untrusted"} {
		if !strings.Contains(h.out.String(), fmt.Sprintf(`"sink":%q`, name)) {
			t.Errorf("no line names the sink %s", name)
		}
	}
	places := map[string]string{"log": h.out.String(), "Redis": redisDump(t, w)}
	for _, page := range []string{
		"/metrics", "/readyz", "/healthz", "/v1/sinks", "/v1/dead", "/v1/deliveries", "/v1/purchases",
		"/v1/purchases/" + ids[0], "/v1/explain/" + ids[0], "/v1/connections", "/v1/silences",
	} {
		places[page] = fetch(t, addr+page)
	}
	for place, text := range places {
		if strings.Contains(text, canary) {
			i := strings.Index(text, canary)
			t.Errorf("%s shows it: …%s…", place, text[max(0, i-120):min(len(text), i+40)])
		}
	}

	bad := w.fleet(1, sinks.String())
	w.write(dir, "url-missing", "http://"+canary+" /"+canary)
	p := w.start("herald", "config", "check", "-c", bad)
	if code := p.exit(); code != 2 || strings.Contains(p.out.String(), canary) || !strings.Contains(p.out.String(), "missing") && !strings.Contains(p.out.String(), "sinks[") {
		t.Errorf("a malformed address: exit code %d\n%s", code, p.out)
	}
}

// failures sums a sink's failures in an exposition.
func failures(exposition, sink string) int {
	sum := 0
	for _, line := range strings.Split(exposition, "\n") {
		if strings.HasPrefix(line, "herald_deliver_failures_total{") && strings.Contains(line, fmt.Sprintf("sink=%q", sink)) {
			var n int
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

func newHookFor(t *testing.T, config *tls.Config) *sinkfakes.Hook {
	t.Helper()
	h, err := sinkfakes.NewHook("127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// redisDump gives all keys and values.
func redisDump(t *testing.T, w *world) string {
	t.Helper()
	c, ctx := w.redis.Client(), context.WithoutCancel(t.Context())
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) == 0 {
		t.Fatal("Redis is empty, so nothing was looked at")
	}
	var b strings.Builder
	for _, k := range keys {
		v, err := c.Get(ctx, k).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			v = fmt.Sprint(c.HGetAll(ctx, k).Val())
		}
		fmt.Fprintln(&b, k, v)
	}
	return b.String()
}
