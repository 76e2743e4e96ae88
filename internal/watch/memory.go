package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// memory is what a term remembers about purchases that it does not follow, and what of all this outlives it.
type memory struct {
	loaded    bool // the stored set is known
	baselined bool // first contact is over
	registers bool // the host registers its purchases
	saved     time.Time
	dirty     bool          // the stored set is not what is known
	handed    time.Time     // when the newest was given to the writer
	waiting   []func(error) // who waits for it to be stored

	// noted are the purchases that had ended at first contact and are still in the list. They are stored as references
	// without a time, since nobody is ever told about them.
	noted map[string]struct{}
	// others are purchases of the user's other agent hosts.
	others map[string]struct{}
	// over are purchases that were followed to their end in this term, or known to have ended.
	over map[string]ending
	// gaveUp are those whose money hung for too long.
	gaveUp map[string]struct{}
}

// ending is what is remembered of a purchase that is not followed any more.
type ending struct {
	state events.State
	root  string
}

const memoryLimit = 4096 // entries of over and others; beyond it they are forgotten and found again

func newMemory() memory {
	return memory{
		noted: map[string]struct{}{}, others: map[string]struct{}{}, over: map[string]ending{},
		gaveUp: map[string]struct{}{},
	}
}

// loadSet takes what was watched before, until the store answers: from then on no other term can write it.
func (t *term) loadSet(ctx context.Context) {
	t.spawn(ctx, func(ctx context.Context) effect {
		delays := backoff.Policy{Base: time.Second, Max: 30 * time.Second}
		for try := 0; t.owned.Err() == nil; try++ {
			set, found, err := t.w.sets.TakeWatchSet(ctx, t.conn.Name, t.writer.owner)
			if err == nil && !found {
				set, err = t.salvage(ctx)
			}
			if err == nil {
				return func(ctx context.Context, now time.Time) { t.remember(ctx, set, found, now) }
			}
			if ctx.Err() != nil {
				return nil
			}
			t.w.metrics.storeErrors.WithLabelValues("set").Inc()
			t.log.Warn("read watch set", "error", err)
			pause(ctx, delays.Delay(try)+200*time.Millisecond)
		}
		return nil
	})
}

// retakeSet takes the set again when another has taken it, and the lease is ours all the same: a process that was stopped
// in the midst of taking it, and has lost its lease since. What that one wrote is taken up with the rest.
func (t *term) retakeSet(ctx context.Context) {
	if t.writer.overtaken() {
		t.log.Warn("another owner took the watch set")
		t.loadSet(ctx)
	}
}

// salvage makes a set of what this process and the stream know, where the store knows nothing: it may have been emptied,
// and a purchase whose money hangs would be forgotten.
func (t *term) salvage(ctx context.Context) (events.WatchSet, error) {
	set := t.k.left
	set.Refs = slices.Clone(set.Refs)
	ids, err := t.w.publisher.Followed(ctx, t.conn.Name)
	for _, id := range ids {
		if !slices.ContainsFunc(set.Refs, func(r events.WatchRef) bool { return r.PurchaseID == id }) {
			set.Refs = append(set.Refs, events.WatchRef{PurchaseID: id, Seen: true, Since: time.Now()})
		}
	}
	return set, err
}

// remember takes up what was watched before.
func (t *term) remember(ctx context.Context, set events.WatchSet, found bool, now time.Time) {
	t.memory.loaded = true
	t.writer.goOn()
	t.memory.baselined = t.memory.baselined || set.Baselined
	t.agentID = cmp.Or(t.agentID, set.Agent)
	t.sense.readyDay = later(t.sense.readyDay, set.ReadyTold)
	for _, r := range set.Refs {
		switch {
		case events.ValidPurchaseID(r.PurchaseID) && r.Since.IsZero():
			t.memory.noted[r.PurchaseID] = struct{}{}
		case events.ValidPurchaseID(r.PurchaseID):
			p := t.track(ctx, r.PurchaseID, now)
			p.registered, p.seen = p.registered || r.Registered, p.seen || r.Seen
			p.keyHash, p.ours = r.KeyHash, true
			p.onlyLook = p.onlyLook || r.OnlyLook
			p.baseline, p.probe = p.baseline || r.Baseline, p.probe || r.Probe
			p.ref = earlier(r.Since, now)
			t.memory.registers = t.memory.registers || r.Registered
		case r.KeyHash != "":
			t.trackKey(r.KeyHash, secret.Value{}, r.Since, now)
		}
	}
	if !found && !set.Baselined {
		t.log.Info("first contact")
	}
	t.saveSet(now, nil) // with what was found and registered meanwhile
}

// saveSet has the set stored soon. done, if given, hears of the outcome.
func (t *term) saveSet(now time.Time, done func(error)) {
	if !t.memory.loaded {
		if done != nil {
			done(errNotLoaded)
		}
		return // what is stored is not known yet and must not be lost
	}
	t.memory.saved, t.memory.dirty = now, true
	if done != nil {
		t.memory.waiting = append(t.memory.waiting, done)
	}
}

// flushSet hands the set to the writer when it has changed and the one before is stored, once a second unless somebody
// waits: many changes are one write. It says when to come again.
func (t *term) flushSet(now time.Time) time.Time {
	if !t.memory.dirty || !t.writer.free() {
		return never // the writer wakes us
	}
	if next := t.memory.handed.Add(time.Second); len(t.memory.waiting) == 0 && now.Before(next) {
		return next
	}
	done := t.memory.waiting
	t.memory.dirty, t.memory.waiting, t.memory.handed = false, nil, now
	t.writer.putSet(t.set(), done)
	return never
}

// set is what outlives the term.
func (t *term) set() events.WatchSet {
	set := events.WatchSet{Baselined: t.memory.baselined, Agent: t.agentID, ReadyTold: t.sense.readyDay}
	for id, p := range t.byID {
		set.Refs = append(set.Refs, events.WatchRef{
			PurchaseID: id, KeyHash: p.keyHash, Registered: p.registered, Seen: p.seen, Since: p.ref,
			OnlyLook: p.onlyLook, Baseline: p.baseline, Probe: p.probe,
		})
	}
	for hash, p := range t.byKey {
		set.Refs = append(set.Refs, events.WatchRef{KeyHash: hash, Registered: true, Since: p.ref})
	}
	for id := range t.memory.noted {
		if _, followed := t.byID[id]; !followed {
			set.Refs = append(set.Refs, events.WatchRef{PurchaseID: id})
		}
	}
	slices.SortFunc(set.Refs, func(a, b events.WatchRef) int {
		return cmp.Or(strings.Compare(a.PurchaseID, b.PurchaseID), strings.Compare(a.KeyHash, b.KeyHash))
	})
	return set
}

// track follows a purchase from now on, if it is not followed already.
func (t *term) track(ctx context.Context, id string, now time.Time) *purchase {
	if p, ok := t.byID[id]; ok {
		return p
	}
	p := &purchase{id: id, ref: now, begun: now, since: now, heard: now, heapIndex: -1, at: never}
	if e, ok := t.memory.over[id]; ok {
		p.root = e.root
	}
	t.byID[id] = p
	t.recallHeld(p)
	t.load(ctx, p, "")
	return p
}

// trackKey follows a purchase of which only the key is known, the key itself or its hash.
func (t *term) trackKey(hash string, key secret.Value, since, now time.Time) *purchase {
	if p, ok := t.byKey[hash]; ok {
		if p.key.IsZero() {
			p.key = key
		}
		return p
	}
	for _, p := range t.byID {
		if p.keyHash == hash {
			p.registered = true
			return p
		}
	}
	p := &purchase{
		keyHash: hash, key: key, registered: true, loaded: true, ref: earlier(since, now), begun: now, since: now, heard: now,
		heapIndex: -1, at: never,
	}
	t.memory.registers = true
	t.byKey[hash] = p
	t.schedule(p, now)
	return p
}

// adopt gives a purchase that was known by its key its id. Where the id is followed already, the two become one.
func (t *term) adopt(ctx context.Context, p *purchase, id string, now time.Time) *purchase {
	delete(t.byKey, p.keyHash)
	p.key = secret.Value{}
	if other, ok := t.byID[id]; ok {
		other.keyHash, other.registered = p.keyHash, true
		other.baseline, other.probe = false, false // a host waits for news of it
		t.forget(p)
		return other
	}
	p.id, p.loaded, p.seen = id, false, true
	t.byID[id] = p
	t.load(ctx, p, "")
	t.saveSet(now, nil)
	return p
}

// forget stops following p, whatever the reason.
func (t *term) forget(p *purchase) {
	p.gone = true
	if p.call != nil {
		p.call.dropped = true
		p.call.cancel()
	}
	t.agenda.drop(p)
	if p.id == "" {
		delete(t.byKey, p.keyHash)
		return
	}
	if t.byID[p.id] == p {
		delete(t.byID, p.id)
	}
}

// finish stops following a purchase that has ended and about whose money nothing is open.
func (t *term) finish(p *purchase, now time.Time) {
	if len(t.memory.over) >= memoryLimit {
		clear(t.memory.over)
	}
	t.memory.over[p.id] = ending{state: p.state, root: p.root}
	t.forget(p)
	t.saveSet(now, nil)
}

// note remembers a purchase that had ended at first contact, to tell nobody about it.
func (t *term) note(id string) { t.memory.noted[id] = struct{}{} }

// other stops following a purchase that belongs to another agent host of the user.
func (t *term) other(p *purchase, now time.Time) {
	if len(t.memory.others) >= memoryLimit {
		clear(t.memory.others)
	}
	t.memory.others[p.id] = struct{}{}
	t.forget(p)
	t.saveSet(now, nil)
}
