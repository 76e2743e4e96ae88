package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// A half-wrong file is refused as a whole, a right one is put in force in one
// step, and no event is lost while both happen under load.
func TestB38_ReloadIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	second, err := sinkfakes.NewHook("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() })
	file := w.config("reload", places{})
	right := readFile(t, file)
	h := w.start("herald", "run", "-c", file)
	addr := listenAddr(t, h)
	h.says(`"msg":"running"`)
	await(t, 20*time.Second, "it is ready", func() bool { return status(addr+"/readyz") == http.StatusOK }, h.out.String)

	id := w.envoyCheckout()
	await(t, 30*time.Second, "the purchase is held", func() bool { return w.sim.Holds() > 0 }, h.out.String)
	ctx, stop := context.WithCancel(t.Context())
	changing := make(chan struct{})
	go func() {
		defer close(changing)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = w.sim.Transition(id, func(p *envoysim.Purchase) { p.State = envoysim.Processing })
			}
		}
	}()

	moved := strings.ReplaceAll(right, w.hook.URL("/hooks"), second.URL("/hooks"))
	bad := moved + "  - name: broken\n    match: 'sitution'\n    sinks: [orders]\n"
	replaceFile(t, file, bad)
	await(t, 20*time.Second, "the bad file is refused", func() bool { return gauge(addr, "herald_config_reload_success") == "0" }, h.out.String)
	if code, text := reloadOver(t, addr); code/100 == 2 || !strings.Contains(text, "sitution") {
		t.Errorf("a reload of the bad file answered %d %s", code, text)
	}
	before := len(w.accepted())
	await(t, 20*time.Second, "the old receiver goes on", func() bool { return len(w.accepted()) > before }, h.out.String)
	if n := len(second.Received()); n != 0 {
		t.Errorf("the receiver of the bad file got %d requests", n)
	}

	replaceFile(t, file, moved)
	if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, 20*time.Second, "the good file is in force", func() bool { return gauge(addr, "herald_config_reload_success") == "1" }, h.out.String)
	await(t, 20*time.Second, "the new receiver gets events", func() bool { return len(second.Received()) > 3 }, h.out.String)
	stop()
	<-changing

	last := want(w, id)
	final := events.EventID(id, events.Position{Revision: last[len(last)-1]})
	await(t, 30*time.Second, "the last change arrives", func() bool {
		for _, r := range second.Received() {
			if r.Header.Get("webhook-id") == final {
				return true
			}
		}
		return false
	}, h.out.String)
	got := map[string]int{}
	for _, hook := range []*sinkfakes.Hook{w.hook, second} {
		for _, r := range hook.Received() {
			got[r.Header.Get("webhook-id")]++
		}
	}
	published := 0
	resp, err := http.Get(addr + "/v1/purchases/" + id)
	if err != nil {
		t.Fatal(err)
	}
	text := readBody(t, resp)
	for _, rev := range last {
		e := events.EventID(id, events.Position{Revision: rev})
		if !strings.Contains(text, `"`+e+`"`) {
			continue // seen together with a later one
		}
		published++
		if rev > 0 && got[e] != 1 {
			t.Errorf("%s was accepted %d times", e, got[e])
		}
	}
	if published < 5 { // the budget of requests lets fewer readings through than there are changes
		t.Errorf("only %d readings were published", published)
	}
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, h.out)
	}
}

// replaceFile exchanges the content in one step, as editors and orchestrators do.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".next")
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

func reloadOver(t *testing.T, addr string) (int, string) {
	t.Helper()
	resp, err := http.Post(addr+"/v1/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, readBody(t, resp)
}

// gauge reads one number of /metrics.
func gauge(addr, name string) string {
	resp, err := http.Get(addr + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		var value string
		if n, _ := fmt.Sscanf(line, name+" %s", &value); n == 1 {
			return value
		}
	}
	return ""
}
