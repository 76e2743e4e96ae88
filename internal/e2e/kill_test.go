package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// Each case holds one command on its way to NATS or Redis, kills the process
// right there, starts another one, and looks what became of the change.
func TestKillLosesNothing(t *testing.T) {
	cases := map[string]struct {
		program string    // that is killed
		before  string    // which store the held command is for
		dir     direction // and which way it goes
		pattern string    // what it looks like on the wire
		after   string    // what went the other way before, on the same connection
		sends   [2]int    // how often the receiver may get the change, least and most
	}{
		"watcher, the publish has not reached NATS": {"watcher", "nats", toServer, `HPUB envoy\.purchase\.host-a\.`, "", [2]int{1, 1}},
		"watcher, stored and the ack is lost":       {"watcher", "nats", toClient, `"stream":"ENVOY_PURCHASES"`, `HPUB envoy\.purchase\.host-a\.`, [2]int{1, 1}},
		"watcher, acknowledged and no cursor":       {"watcher", "redis", toServer, `(?is)evalsha\r\n.{0,120}\}:cursor`, "", [2]int{1, 1}},
		"notifier, sent and no standing":            {"notifier", "redis", toServer, `(?i)\r\nset\r\n\$\d+\r\nherald:\{orders\}:standing:`, "", [2]int{1, 2}},
		"notifier, standing and no ack":             {"notifier", "nats", toServer, `\+ACK`, "", [2]int{1, 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			natsProxy := newProxy(t, hostOf(w.nats.URL()))
			redisProxy := newProxy(t, hostOf(w.redis.URL()))
			direct := w.config("direct", w.outside())
			proxied := w.config("proxied", places{"nats://" + natsProxy.addr(), "redis://" + redisProxy.addr()})

			files := map[string]string{"watcher": direct, "notifier": direct}
			files[c.program] = proxied
			victim := w.start(c.program, "-c", files[c.program])
			victim.says(`"msg":"running"`)
			other := map[string]string{"watcher": "notifier", "notifier": "watcher"}[c.program]
			w.start(other, "-c", files[other]).says(`"msg":"running"`)

			id := w.envoyCheckout()
			// Quiet before the trap: the first reading is out, and the receiver took what it passes on.
			await(t, 30*time.Second, "the first reading is stored", func() bool {
				return len(revisions(w.stored(), id)) == 1
			}, victim.out.String)
			w.move(id, envoysim.Processing)
			await(t, 30*time.Second, "the second reading is delivered", func() bool {
				return len(revisions(w.stored(), id)) == 2 && slices.Contains(w.accepted(), eventID(w, id, 1))
			}, victim.out.String)
			awaitQuiet(t, w)

			p := natsProxy
			if c.before == "redis" {
				p = redisProxy
			}
			sprung := p.arm(c.dir, c.pattern, c.after)
			w.move(id, envoysim.Verifying)
			select {
			case <-sprung:
			case <-time.After(30 * time.Second):
				t.Fatalf("the command never came by\n%s", victim.out)
			}
			victim.kill()
			p.disarm()

			again := w.start(c.program, "-c", direct)
			again.says(`"msg":"running"`)
			w.move(id, envoysim.Completed)
			await(t, 60*time.Second, "all readings are stored and delivered", func() bool {
				got := w.accepted()
				return slices.Equal(revisions(w.stored(), id), want(w, id)) &&
					slices.Contains(got, eventID(w, id, 2)) && slices.Contains(got, eventID(w, id, 3))
			}, again.out.String)
			if code := again.stop(); code != 0 {
				t.Errorf("exit code %d\n%s", code, again.out)
			}
			n := count(w.accepted(), eventID(w, id, 2))
			if n < c.sends[0] || n > c.sends[1] {
				t.Errorf("the change of the kill was delivered %d times, want %v", n, c.sends)
			}
			for _, e := range w.stored() {
				if count(w.accepted(), e.Event.ID) > c.sends[1] {
					t.Errorf("%s was delivered %d times", e.Event.ID, count(w.accepted(), e.Event.ID))
				}
			}
		})
	}
}
