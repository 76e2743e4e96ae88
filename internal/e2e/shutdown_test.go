package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// SIGTERM comes while requests are at a receiver that thinks, while events wait, and while three hundred holds are open.
// The holds go at once, the requests are finished, the rest follows after the restart; each event is accepted once.
func TestB42_ShutdownWithEverythingInFlight(t *testing.T) {
	const hosts, changed = 300, 70
	w := newWorld(t)
	file, ids := w.hosts(hosts, w.outside())
	w.write(w.dir, "hosts/hook", strings.Repeat("signing-key-", 4))
	text := strings.Replace(readFile(t, file), "shutdown_grace: 5s", "shutdown_grace: 60s", 1) + fmt.Sprintf(`sinks:
  - { name: orders, webhook: { url: %q, secrets: ["file:hook"], allow_cidrs: [127.0.0.0/8], timeout: 60s } }
subscriptions: [{ name: orders, match: 'type == "money.envoy.purchase.changed.v1"', sinks: [orders] }]
`, w.hook.URL("/hooks"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := w.start("herald", "run", "-c", file)
	await(t, 3*time.Minute, "all are held", func() bool { return w.sim.Holds() == hosts }, h.out.String)

	answer := make(chan struct{})
	w.hook.Always(&sinkfakes.Answer{Status: http.StatusNoContent, Handler: func(rw http.ResponseWriter, _ *http.Request) {
		<-answer
		rw.WriteHeader(http.StatusNoContent)
	}})
	for _, id := range ids[:changed] {
		w.move(id, envoysim.Processing)
	}
	changes := func() (out []string) {
		for _, e := range w.stored() {
			if p := e.Event.Purchase; p != nil && p.Reading.Cause == events.CauseRevision {
				out = append(out, e.Event.ID)
			}
		}
		return out
	}
	await(t, time.Minute, "the changes are stored, and held again", func() bool { return len(changes()) == changed && w.sim.Holds() == hosts }, h.out.String)
	await(t, time.Minute, "requests are at the receiver", func() bool { return len(w.hook.Received()) > 0 })
	inHand := len(w.hook.Received())
	if waiting := changed - inHand; waiting < 50 {
		t.Fatalf("only %d events wait", waiting)
	}

	h.signal(syscall.SIGTERM)
	// Two seconds are promised; ten times that is still less than half a hold, and most holds have just begun.
	await(t, 20*time.Second, "no hold is open, though the receiver still thinks", func() bool { return w.sim.Holds() == 0 }, h.out.String)
	select {
	case <-h.done:
		t.Error("the process did not wait for the requests that are under way")
	default:
	}
	if n := len(w.hook.Received()); n > 16 { // as many as go at one time: none was answered, so none may follow
		t.Errorf("%d requests at the receiver", n)
	}
	close(answer)
	if code := h.exit(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, h.out)
	}

	h = w.start("herald", "run", "-c", file)
	times := func() map[string]int {
		n := map[string]int{}
		for _, id := range w.accepted() {
			n[id]++
		}
		return n
	}
	await(t, 3*time.Minute, "all changes are accepted", func() bool {
		n := times()
		for _, id := range changes() {
			if n[id] == 0 {
				return false
			}
		}
		return true
	}, h.out.String)
	for id, n := range times() {
		if n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, h.out)
	}
}
