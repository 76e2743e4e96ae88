package envoysim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// purchase is a Purchase with all that surrounds it.
type purchase struct {
	now    Purchase
	prev   Purchase // the revision before; Revision -1 if none
	owner  *user
	ledger Entry

	life  Life
	steps []Step
	named map[string]*scripted // siblings in the same scenario
	gen   int                  // goes up with each change; lapses what was planned
	rng   *rand.Rand           // its life
	draws *rand.Rand           // its replies

	changed chan struct{} // closed at the next change; nil while nobody waits
	history []Reading
	skew    skew

	request  string // the canonical start_purchase input, for replays
	attempt  string // the newest checkout attempt
	guilty   []GuiltyRead
	lastSeen map[*token]State
	held     map[*token]int // holds open now
	mostHeld int            // of one token
}

// skew makes one of the two reading tools show the revision before, until a time.
type skew struct {
	tool  string
	until time.Time
}

// Reading is one thing that was true about a purchase for a while.
type Reading struct {
	Revision   int
	State      State
	CheckoutBy Route
	Money      MoneyStatus
	Ledger     LedgerStatus
	Stop       bool
	At         time.Time
}

// Change is told to subscribers when a purchase gets a new revision, or a reading without one.
type Change struct {
	ID   string
	User string
	Reading
}

// Record is the ground truth about one purchase.
type Record struct {
	Purchase Purchase
	History  []Reading
	Ledger   Entry
}

// ErrNoPurchase says that there is no such purchase.
var ErrNoPurchase = errors.New("no such purchase")

// Put adds a purchase as it is, with the fields that its state needs filled in, and returns its id. It does not ask
// whether the user has another one open. Nothing moves it but Transition and the tools.
func (s *Sim) Put(userID string, p Purchase) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.userLocked(userID)
	p = p.clone()
	if p.ID != "" && s.byID[p.ID] != nil {
		return "", fmt.Errorf("put purchase %s: exists", p.ID)
	}
	if p.Key != "" && u.byKey[p.Key] != nil {
		return "", fmt.Errorf("put purchase: idempotency key exists")
	}
	return s.addLocked(u, p, LifeManual).now.ID, nil
}

func (s *Sim) addLocked(u *user, p Purchase, life Life) *purchase {
	if p.ID == "" {
		p.ID = s.newIDLocked()
	}
	if p.Key == "" {
		p.Key = s.mint.key()
	}
	p.User = u.id
	now := s.now()
	if p.Created.IsZero() {
		p.Created = now
	}
	n := uint64(len(s.order)) + 2
	c := &purchase{
		prev: Purchase{Revision: -1}, owner: u, life: life, ledger: Entry{Status: LedgerNone, Since: now},
		rng: rand.New(rand.NewPCG(s.opts.Seed, 2*n)), draws: rand.New(rand.NewPCG(s.opts.Seed, 2*n+1)),
		lastSeen: map[*token]State{}, held: map[*token]int{},
	}
	if p.Description != "" && life != LifeManual && chance(c.rng, s.opts.Quirks.DirtyText) {
		p.Description += s.dirt(c)
	}
	s.tidyLocked(c, &Purchase{}, &p)
	if p.Updated.IsZero() {
		p.Updated = now
	}
	c.now = p
	s.byID[p.ID], u.byKey[p.Key] = c, c
	s.order, u.all = append(s.order, c), append(u.all, c)
	if !p.State.Terminal() {
		u.open = append(u.open, c)
	}
	s.followMoneyLocked(c)
	s.recordLocked(c)
	return c
}

// newIDLocked depends on nothing but the seed and how many purchases there are: no reading changes it.
func (s *Sim) newIDLocked() string {
	n := mix(mix(s.opts.Seed) ^ uint64(len(s.order)))
	return fmt.Sprintf("pur_%016x%016x", n, mix(n))
}

// Transition changes a purchase by hand: fn edits the truth, the revision goes up by one unless fn set another, what
// the new state needs is filled in, and holds wake. Whatever was planned for the purchase is dropped. fn must not call
// the Sim.
func (s *Sim) Transition(id string, fn func(*Purchase)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.byID[id]
	if !ok {
		return fmt.Errorf("change purchase %s: %w", id, ErrNoPurchase)
	}
	p.life, p.steps = LifeManual, nil
	s.changeLocked(p, fn)
	return nil
}

// Amend changes what replies say without a revision, and wakes nobody. The plan for the purchase stands.
func (s *Sim) Amend(id string, fn func(*Purchase)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.byID[id]
	if !ok {
		return fmt.Errorf("amend purchase %s: %w", id, ErrNoPurchase)
	}
	s.amendLocked(p, fn)
	return nil
}

func (s *Sim) amendLocked(p *purchase, fn func(*Purchase)) {
	next := p.now.clone()
	fn(&next)
	p.now = next
	s.recordLocked(p)
}

// changeLocked makes a new revision; the ledger follows as far as it proves.
func (s *Sim) changeLocked(p *purchase, fn func(*Purchase)) { s.changeMoneyLocked(p, fn, "") }

// changeMoneyLocked is the only way to a new revision. A money other than empty is where the ledger goes with it.
func (s *Sim) changeMoneyLocked(p *purchase, fn func(*Purchase), money LedgerStatus) {
	before := p.now
	next := before.clone()
	fn(&next)
	if next.Revision == before.Revision {
		next.Revision++
		if chance(p.rng, s.opts.Quirks.RevisionJump) {
			next.Revision += 1 + p.rng.IntN(3)
		}
	}
	s.tidyLocked(p, &before, &next)
	next.Updated = s.now()
	p.prev, p.now = before, next
	p.gen++
	if before.State.Terminal() && !next.State.Terminal() {
		p.owner.open = append(p.owner.open, p)
	}
	s.skewLocked(p)
	s.followMoneyLocked(p)
	if money != "" {
		s.moveMoneyLocked(p, money)
	}
	s.recordLocked(p)
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// skewLocked decides whether the tools disagree about the change just made. A ready purchase is never shown by a
// status read after it has gone on: that would release details of nothing.
func (s *Sim) skewLocked(p *purchase) {
	p.skew = skew{}
	if p.life == LifeManual || !chance(p.rng, s.opts.Quirks.Skew) {
		return
	}
	p.skew = skew{tool: toolAccount, until: s.now().Add(s.scaled(2 * time.Second))}
	if p.rng.IntN(2) == 0 && p.prev.State != Ready {
		p.skew.tool = toolStatus
	}
}

// shownLocked is the purchase as a tool shows it now, and when that ends by itself (zero: it does not).
func (p *purchase) shownLocked(tool string, now time.Time) (*Purchase, time.Time) {
	if p.skew.tool == tool && now.Before(p.skew.until) && p.prev.Revision >= 0 {
		return &p.prev, p.skew.until
	}
	return &p.now, time.Time{}
}

// nextChangeLocked returns a channel that is closed at the purchase's next change.
func (p *purchase) nextChangeLocked() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (s *Sim) recordLocked(p *purchase) {
	r := Reading{
		Revision: p.now.Revision, State: p.now.State, CheckoutBy: p.now.CheckoutBy, Money: p.now.Money.Status,
		Ledger: p.ledger.Status, Stop: p.now.Stop, At: s.now(),
	}
	p.history = append(p.history, r)
	for _, fn := range s.subs {
		fn(Change{ID: p.now.ID, User: p.owner.id, Reading: r})
	}
}

// Subscribe calls fn at every change, in order, until cancel is called. fn runs inside the Sim: it must be quick and
// must not call the Sim, but hand the change on.
func (s *Sim) Subscribe(fn func(Change)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subSeq++
	n := s.subSeq
	s.subs[n] = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, n)
	}
}

// Wait returns the purchase as soon as ok says yes to it, or the context's error.
func (s *Sim) Wait(ctx context.Context, id string, ok func(Purchase) bool) (Purchase, error) {
	for {
		s.mu.Lock()
		p, found := s.byID[id]
		if !found {
			s.mu.Unlock()
			return Purchase{}, fmt.Errorf("wait for purchase %s: %w", id, ErrNoPurchase)
		}
		now, changed := p.now.clone(), p.nextChangeLocked()
		s.mu.Unlock()
		if ok(now) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, fmt.Errorf("wait for purchase %s: %w", id, ctx.Err())
		case <-changed:
		}
	}
}

// Purchase returns the truth about one purchase, and whether it exists.
func (s *Sim) Purchase(id string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.byID[id]
	if !ok {
		return Record{}, false
	}
	return p.recordLocked(), true
}

// Purchases returns the truth about all purchases, in the order they were made.
func (s *Sim) Purchases() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Record, len(s.order))
	for i, p := range s.order {
		out[i] = p.recordLocked()
	}
	return out
}

func (p *purchase) recordLocked() Record {
	e := p.ledger
	e.Changes = append([]LedgerChange(nil), e.Changes...)
	return Record{Purchase: p.now.clone(), History: append([]Reading(nil), p.history...), Ledger: e}
}
