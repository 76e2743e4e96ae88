package watch

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// More walks than usual: go test -run TestWalk -seeds 134 -first 1000.
var (
	seeds     = flag.Uint64("seeds", 3, "how many walks")
	firstSeed = flag.Uint64("first", 0, "seed of the first")
)

// A day in the life of three agent hosts of two users, with every quirk of Envoy's, faults of the network, restarts of
// the watcher and lost leases. What must hold whatever happens is in the checks below. One purchase in ten of those that
// wait for their user becomes ready in one step, far more often than is likely: that is stress for what is done about a
// ready reply. Reads are to blame for next to none all the same.
func TestWalk(t *testing.T) {
	sum := walks(t, envoysim.DefaultQuirks())
	if !few(sum.late, sum.purchases) {
		t.Errorf("one ready reply to a read in less than a thousand purchases: %v", sum)
	}
}

// The same where that step is seldom, and where replies seldom lag, which hides what was between: status replies that are
// ready, whatever explains them, are under one in a thousand purchases. How often Envoy takes the step, nobody says; this
// shows that nothing of ours adds to it.
func TestWalkSeldomReady(t *testing.T) {
	quirks := envoysim.DefaultQuirks()
	quirks.SkipToReady, quirks.Skew = 0.001, 0.01
	sum := walks(t, quirks)
	if !few(sum.overtaken+sum.late, sum.purchases) {
		t.Errorf("one ready reply in less than a thousand purchases: %v", sum)
	}
}

// few tells whether n is less than one in a thousand. Of a handful of purchases two are chance.
func few(n, purchases int) bool { return n*1000 < max(purchases, 2001) }

// walks makes the walks, sees that they led everywhere, and gives what their status replies released.
func walks(t *testing.T, quirks envoysim.Quirks) guilt {
	t.Helper()
	reached := map[string]bool{}
	var sum guilt
	for i := range *seeds {
		seed := *firstSeed + i
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { sum.add(walk(t, seed, quirks, reached)) })
		})
	}
	for _, word := range []string{
		"needs_details", "needs_answer", "waiting_for_user", "processing", "ready", "verifying", "completed", "failed",
		"cancelled", "superseded", "otu_card", "operated_checkout", "elixir_marketplace", "gift_card", "agent", "envoy",
	} {
		if !reached[word] {
			t.Errorf("no purchase of these walks was ever %s, so nothing was shown about it", word)
		}
	}
	t.Log(sum)
	return sum
}

// walk adds to reached the states, rails and routes that its purchases went through.
func walk(t *testing.T, seed uint64, quirks envoysim.Quirks, reached map[string]bool) guilt {
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, envoysim.Options{Seed: seed, Speed: 1, Quirks: quirks, AuthFailuresPerMinute: -1}, []string{"asha", "asha", "ravi"})
	defer w.quit()
	lies := w.watchForLies()
	w.pass(30 * time.Second)
	for i := range w.tokens { // what comes and goes before first contact is over is nobody's news
		for tries := 0; !w.store.set(fmt.Sprint("host-", i)).Baselined; tries++ {
			if w.pass(10 * time.Second); tries > 60 {
				t.Fatal("first contact does not end")
			}
		}
	}
	for _, token := range w.tokens {
		if err := w.sim.AddAgent(envoysim.Agent{Token: token, Every: 90 * time.Second, Purchases: 25}); err != nil {
			t.Fatal(err)
		}
	}
	ready := 0.0
	for range 40 {
		for _, remove := range w.someFaults(r) {
			defer remove()
		}
		w.pass(time.Duration(r.IntN(600)) * time.Second)
		switch r.IntN(6) {
		case 0:
			ready += w.readyReplies()
			w.breaks = append(w.breaks, time.Now())
			w.stop()
			w.pass(time.Duration(r.IntN(120)) * time.Second)
			w.again()
		case 1:
			w.breaks = append(w.breaks, time.Now())
			back := w.leases.steal(leaseName("host-0"))
			w.pass(time.Duration(r.IntN(60)) * time.Second)
			back()
		case 2:
			w.store.with(func() { w.store.noState = r.IntN(2) == 0; w.store.noBus = r.IntN(2) == 0 })
			from := time.Now()
			w.pass(time.Duration(r.IntN(120)) * time.Second)
			w.away = append(w.away, [2]time.Time{from, time.Now()})
			w.store.with(func() { w.store.noState, w.store.noBus = false, false })
		}
	}
	w.sim.Inject(envoysim.Fault{Kind: envoysim.FaultSlow, Probability: 1e-12}) // a fault that never strikes
	w.pass(12 * time.Hour)
	ready += w.readyReplies()
	w.stop()
	for _, lie := range lies() {
		t.Error(lie)
	}
	for _, record := range w.sim.Purchases() {
		reached[string(record.Purchase.Rail)] = true
		for _, h := range record.History {
			reached[string(h.State)], reached[string(h.CheckoutBy)] = true, true
		}
	}
	w.checkEverythingWasTold()
	sum := w.checkGuilt(ready)
	w.checkReadyReplies()
	w.checkNoSecrets()
	for token, c := range w.sim.Requests() {
		if c.PeakMinute > 40 {
			t.Errorf("%d requests in a minute with %s", c.PeakMinute, token)
		}
		sum.peak = max(sum.peak, c.PeakMinute)
	}
	return sum
}

func (w *world) readyReplies() float64 {
	sum := 0.0
	for _, s := range []string{"waiting_for_user", "processing", "verifying", "ready", "needs_answer", "needs_details", "completed", "failed", "cancelled", "superseded", "unknown", "other"} {
		sum += counter(w.t, w.w.metrics.readyReplies.WithLabelValues(s))
	}
	return sum
}

// someFaults makes some replies go wrong for a while.
func (w *world) someFaults(r *rand.Rand) []func() {
	kinds := []envoysim.Fault{
		{Kind: envoysim.FaultError, Code: envoysim.Unavailable, Retryable: true, Wait: 3 * time.Second},
		{Kind: envoysim.FaultError, Code: envoysim.Unavailable, Wait: -1},
		{Kind: envoysim.FaultError, Code: envoysim.RateLimited, Wait: 20 * time.Second},
		{Kind: envoysim.FaultError, Code: envoysim.Unauthenticated, Wait: -1},
		{Kind: envoysim.FaultError, Code: envoysim.NotFound, Wait: -1},
		{Kind: envoysim.FaultReset, Delay: 5 * time.Second}, {Kind: envoysim.FaultHTML, Status: 502},
		{Kind: envoysim.FaultCut}, {Kind: envoysim.FaultForeign, Tool: "get_purchase_status"},
		{Kind: envoysim.FaultMissingField}, {Kind: envoysim.FaultImmediate}, {Kind: envoysim.FaultNoContent, Status: 204},
		{Kind: envoysim.FaultSlow, Delay: 4 * time.Second},
	}
	var out []func()
	for range r.IntN(3) {
		f := kinds[r.IntN(len(kinds))]
		f.Count, f.Probability = 1+r.IntN(4), 0.5
		out = append(out, w.sim.Inject(f))
	}
	return out
}

// watchForLies compares what is said about money with the ledger in the moment in which it is said.
func (w *world) watchForLies() func() []string {
	var mu sync.Mutex
	var lies []string
	w.store.with(func() {
		w.store.notified = func(e events.Event) {
			if e.Purchase == nil {
				return
			}
			p := e.Purchase
			claims := p.Situation == events.SituationStopped ||
				p.Terminal && p.Money == events.MoneyNotCharged && p.State != events.StateCompleted && p.State != events.StateSuperseded
			entry, ok := w.sim.Ledger(e.Subject)
			open := entry.Status == envoysim.LedgerSetAside || entry.Status == envoysim.LedgerDebited || entry.Status == envoysim.LedgerRefunding
			if claims && ok && open {
				mu.Lock()
				defer mu.Unlock()
				rec, _ := w.sim.Purchase(e.Subject)
				lies = append(lies, fmt.Sprintf("%s says %s, %s (%s), but the money is %s; rail %s, approval %q\nhistory %+v", e.ID, p.Situation, p.Money, p.MoneyBasis, entry.Status, p.Rail, p.Approval.State, rec.History))
			}
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lies
	}
}

// checkEverythingWasTold: every purchase has its events once and in order, each revision that was shown is among them,
// and the last is the truth.
func (w *world) checkEverythingWasTold() {
	shown := map[string][]showing{}
	for _, one := range w.witnesses {
		for _, s := range one.shown {
			shown[s.id] = append(shown[s.id], s)
		}
	}
	said := 0
	for _, rec := range w.sim.Purchases() {
		id := rec.Purchase.ID
		list := w.store.purchases(id)
		if len(list) == 0 {
			w.t.Errorf("%s was never told; it is %s by %s, shown %v, breaks %v\n%+v", id, rec.Purchase.State, rec.Purchase.Agent.ID, shown[id], w.breaks, rec.History)
			continue
		}
		said += len(list)
		ids, told := map[string]bool{}, map[int64]bool{}
		for i, e := range list {
			if ids[e.ID] {
				w.t.Errorf("%s was said twice, by %s after %s", e.ID, e.Source, list[i-1].Source)
			}
			ids[e.ID], told[e.Purchase.Reading.Revision] = true, true
			if i > 0 && e.Type == events.TypeChanged && events.Compare(list[i-1].Position(), e.Position()) >= 0 {
				w.t.Errorf("%s after %s", e.ID, list[i-1].ID)
			}
			if i > 0 && (e.Purchase.Previous == nil || e.Purchase.Previous.ID != list[i-1].ID) {
				w.t.Errorf("%s does not name %s as the one before, but %+v\n%s breaks %v", e.ID, list[i-1].ID, e.Purchase.Previous, w.tale(id), w.breaks)
			}
		}
		w.checkShown(id, shown[id], told)
		last := list[len(list)-1].Purchase
		if string(last.State) != string(rec.Purchase.State) || last.Reading.Revision != int64(rec.Purchase.Revision) {
			w.t.Errorf("%s ended as %s at revision %d, last told: %s at %d\n%s\n%+v", id, rec.Purchase.State, rec.Purchase.Revision, last.State, last.Reading.Revision, w.tale(id), rec.History)
		}
	}
	if n := len(w.sim.Purchases()); n < 30 || said < 2*n {
		w.t.Errorf("%d purchases, %d events: the walk shows little", n, said)
	}
}

// tale is what was said about a purchase, for people who look for a mistake.
func (w *world) tale(id string) string {
	out := ""
	for i, e := range w.store.purchases(id) {
		p := e.Purchase
		out += fmt.Sprintf("%s %s %s %s %s (%s, %s) %s\n", w.store.times(id)[i].Format("15:04:05"), e.ID[len(id):], p.Reading.Cause, p.State, p.Situation, p.Money, p.MoneyBasis, p.SourceOfReading)
	}
	return out
}

// checkShown: a revision that was shown was told, unless a higher one was shown before or in the same moment.
func (w *world) checkShown(id string, shown []showing, told map[int64]bool) {
	slices.SortStableFunc(shown, func(a, b showing) int { return a.at.Compare(b.at) })
	for i, s := range shown {
		if w.cutShort(s.at) {
			continue
		}
		higher := slices.ContainsFunc(shown, func(o showing) bool { return o.revision > s.revision && !o.at.After(s.at) })
		if !higher && !told[s.revision] {
			w.t.Errorf("%s: revision %d was shown (%d of %d) and never told, at %s\n%s breaks %v", id, s.revision, i, len(shown), s.at.Format("15:04:05"), w.tale(id), w.breaks)
		}
	}
}

// cutShort tells whether the watcher was stopped before it could tell what it was shown at that time.
func (w *world) cutShort(at time.Time) bool {
	from := at
	for _, a := range w.away {
		if !at.Before(a[0]) && at.Before(a[1]) {
			from = a[1] // it could not be told before
		}
	}
	return slices.ContainsFunc(w.breaks, func(b time.Time) bool { return !b.Before(at) && b.Sub(from) < time.Minute })
}

// checkNoSecrets searches all that was published, stored and logged for every secret that Envoy gave out.
func (w *world) checkNoSecrets() {
	var out bytes.Buffer
	for _, e := range w.store.stored {
		raw, err := events.Encode(e)
		if err != nil {
			w.t.Fatal(err)
		}
		out.Write(raw)
	}
	fmt.Fprintf(&out, "%+v %+v", w.store.cursors, w.store.sets)
	out.WriteString(w.log.String())
	text := out.String()
	canaries := w.sim.Canaries()
	if len(canaries) < 100 {
		w.t.Errorf("only %d canaries were about", len(canaries))
	}
	for _, c := range canaries {
		if strings.Contains(text, c) {
			at := strings.Index(text, c)
			w.t.Errorf("secret %s came out: ...%s...", c, text[max(0, at-150):min(len(text), at+80)])
		}
	}
}
