package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// The promises about owners: design section 3, Leases.
const (
	followed  = 20 * time.Second // after a death all is owned again
	settledIn = 60 * time.Second // after a birth everyone has its share
)

// listen is where a program's API is.
func (p *proc) listen() string {
	p.t.Helper()
	for line := range strings.Lines(p.out.String()) {
		var said struct{ Msg, Listen string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "listening" {
			return "http://" + said.Listen
		}
	}
	p.t.Fatalf("%s does not say where it listens:\n%s", p.cmd.Path, p.out)
	return ""
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// fleet is several processes of one program.
type fleet struct {
	w       *world
	program string
	file    string
	live    []*proc
}

func (f *fleet) add() *proc {
	f.w.t.Helper()
	p := f.w.start(f.program, "-c", f.file)
	p.says(`"msg":"running"`)
	f.live = append(f.live, p)
	return p
}

func (f *fleet) kill(i int) {
	f.live[i].kill()
	f.live = slices.Delete(f.live, i, i+1)
}

// owners counts what each live process owns, by the answers of all.
func (f *fleet) owners() (each []int, all int) {
	each = make([]int, len(f.live))
	for _, p := range f.live {
		owners, err := f.ask(p)
		if err != nil {
			continue // a stopped one; another answers for all
		}
		for _, owner := range owners {
			for i, q := range f.live {
				if strings.HasSuffix(owner, fmt.Sprintf(" %d", q.cmd.Process.Pid)) {
					each[i]++
					all++
				}
			}
		}
		return each, all
	}
	return each, 0
}

// ask names the owner of each connection or sink, as one process sees it.
func (f *fleet) ask(p *proc) ([]string, error) {
	ctx, cancel := context.WithTimeout(f.w.t.Context(), 3*time.Second)
	defer cancel()
	c := console.Client{URL: p.listen(), HTTP: http.DefaultClient}
	var out []string
	if f.program == "watcher" {
		var page console.Page[console.Connection]
		err := c.Get(ctx, "/v1/connections", url.Values{"limit": {"1000"}}, &page)
		for _, one := range page.Items {
			out = append(out, one.Owner)
		}
		return out, err
	}
	var page console.Page[console.Sink]
	err := c.Get(ctx, "/v1/sinks", url.Values{"limit": {"1000"}}, &page)
	for _, one := range page.Items {
		out = append(out, one.Owner)
	}
	return out, err
}

// owned waits until all n are owned, and by none more than most.
func (f *fleet) owned(what string, limit time.Duration, n, most int, also func() bool) {
	f.w.t.Helper()
	start := time.Now()
	var each []int
	await(f.w.t, limit, what, func() bool {
		var all int
		each, all = f.owners()
		return all == n && slices.Max(each) <= most && (also == nil || also())
	}, func() string { return fmt.Sprintf("owned by %v", each) }, func() string { return f.live[0].out.String() })
	f.w.t.Logf("%s: %v after %s", what, each, time.Since(start).Round(100*time.Millisecond))
}

// hosts writes the configuration of watchers of n connections, each of its own
// user with one purchase, and gives the purchases.
func (w *world) hosts(n int, at places) (file string, ids []string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "hosts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `nats: { url: %q }
redis: { url: %q }
data_dir: %s/data
http: { listen: "127.0.0.1:0" }
log: { level: info, format: json }
shutdown_grace: 5s
watch: { requests_per_minute: 100, look_every: 5s, discover_every: 5s }
connections:
`, at.nats, at.redis, dir)
	for i := range n {
		user := fmt.Sprintf("user-%d", i)
		w.write(dir, user, w.sim.AddToken(user, "origin:https://host.example.test"))
		fmt.Fprintf(&b, "  - { name: host-%d, base_url: %q, token: \"file:%s\" }\n", i, w.envoy.URL, user)
		id, err := w.sim.Put(user, envoysim.Purchase{
			State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
			CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return w.write(dir, "herald.yaml", b.String()), ids
}

// published waits until every reading of the purchases is stored, and sees that
// none is stored twice.
func (w *world) published(what string, ids []string) {
	w.t.Helper()
	start := time.Now()
	var got map[string][]int64
	missing := func() (out []string) {
		got = map[string][]int64{}
		seen := map[string]bool{}
		for _, e := range w.stored() {
			if seen[e.Event.ID] {
				w.t.Errorf("%s is stored twice", e.Event.ID)
			}
			seen[e.Event.ID] = true
			if e.Event.Type == events.TypeChanged {
				got[e.Event.Subject] = append(got[e.Event.Subject], e.Event.Purchase.Reading.Revision)
			}
		}
		for _, id := range ids {
			// A revision may be read anew in other words; that is another event.
			if !slices.Equal(slices.Compact(got[id]), want(w, id)) {
				out = append(out, fmt.Sprintf("%s: %v, want %v", id, got[id], want(w, id)))
			}
		}
		return out
	}
	await(w.t, 60*time.Second, what, func() bool { return len(missing()) == 0 },
		func() string { return strings.Join(missing(), "\n") })
	w.t.Logf("%s: all stored after %s", what, time.Since(start).Round(100*time.Millisecond))
}

// heldOnce checks that every purchase was held, and at no moment twice.
func (w *world) heldOnce(ids []string) {
	w.t.Helper()
	most := w.sim.MostHolds()
	for _, id := range ids {
		if most[id] != 1 {
			w.t.Errorf("%s: %d holds were open at once, want 1", id, most[id])
		}
	}
}

// Three watchers share three hundred connections. One is killed while all
// purchases change, and a fourth comes.
func TestWatchersShareConnections(t *testing.T) {
	const n = 300
	w := newWorld(t)
	file, ids := w.hosts(n, w.outside())
	f := &fleet{w: w, program: "watcher", file: file}
	for range 3 {
		f.add()
	}
	held := func() bool { return w.sim.Holds() == n }
	f.owned("three watchers", settledIn, n, n/3, held)
	w.published("the first readings", ids)

	for i, id := range ids {
		if i == n/2 {
			f.kill(1)
		}
		w.move(id, envoysim.Processing)
	}
	f.owned("one killed, and all is watched", followed, n, n/2, held)
	w.published("the changes of the kill", ids)

	f.add()
	f.owned("a fourth one", settledIn, n, n/3, held)
	for _, id := range ids {
		w.move(id, envoysim.Verifying)
	}
	w.published("the last changes", ids)
	w.heldOnce(ids)
	for _, p := range f.live {
		if code := p.stop(); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.out)
		}
	}
}
