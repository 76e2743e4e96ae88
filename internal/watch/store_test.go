package watch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("the store is away")

// store is the bus and the state in memory, with the rules that the real ones keep and the troubles that they can have.
type store struct {
	mu       sync.Mutex
	stored   []events.Event // in stream order; the sequence is the index plus one
	when     []time.Time
	last     map[string]int // subject -> index
	cursors  map[string]events.Cursor
	sets     map[string]events.WatchSet
	owners   map[string]string // of sets
	tries    int               // publishes, failed ones too
	loseAck  int               // the next so many publishes are stored and answered with an error
	noBus    bool
	noState  bool
	sleeping chan struct{} // publishes wait for it, when set
	notified func(events.Event)
	onLast   func(ctx context.Context, id string) error // reads of the newest event fail with what it gives
	// onAdvance is what comes before cursors are written.
	onAdvance func(ctx context.Context) error
	// onSet is what comes before a set is taken or, written, put.
	onSet func(written bool)
}

func newStore() *store {
	return &store{last: map[string]int{}, cursors: map[string]events.Cursor{}, sets: map[string]events.WatchSet{}, owners: map[string]string{}}
}

func (s *store) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *store) Publish(ctx context.Context, e events.Event, after uint64) (uint64, error) {
	s.mu.Lock()
	gate := s.sleeping
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.noBus {
		return 0, errAway
	}
	raw, err := events.Encode(e)
	if err != nil {
		return 0, err
	}
	if e, err = events.Decode(raw); err != nil { // as any reader gets it
		return 0, err
	}
	if e.Type != events.TypeNotice {
		newest, there := s.last[e.Source+e.Subject]
		switch {
		case there && s.stored[newest].ID == e.ID:
			return uint64(newest) + 1, nil
		case there && uint64(newest)+1 != after || !there && after != 0:
			if there && events.Compare(s.stored[newest].Position(), e.Position()) < 0 {
				break // older than we think: it may follow
			}
			return 0, events.ErrNewer
		}
		s.last[e.Source+e.Subject] = len(s.stored)
	}
	s.stored, s.when = append(s.stored, e), append(s.when, time.Now())
	if s.notified != nil {
		s.notified(e)
	}
	if s.loseAck > 0 {
		s.loseAck--
		return 0, errAway
	}
	return uint64(len(s.stored)), nil
}

func (s *store) Last(ctx context.Context, name, id string) (*events.Event, uint64, error) {
	s.mu.Lock()
	fault := s.onLast
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, id); err != nil {
			return nil, 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noBus {
		return nil, 0, errAway
	}
	i, ok := s.last["/connections/"+name+id]
	if !ok {
		return nil, 0, nil
	}
	e := s.stored[i]
	return &e, uint64(i) + 1, nil
}

func (s *store) Followed(_ context.Context, name string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noBus {
		return nil, errAway
	}
	var out []string
	for _, i := range s.last {
		if e := s.stored[i]; e.Source == "/connections/"+name && (!e.Purchase.Terminal || e.Purchase.Unsettled) {
			out = append(out, e.Subject)
		}
	}
	return out, nil
}

func (s *store) Cursor(_ context.Context, id string) (events.Cursor, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noState {
		return events.Cursor{}, false, errAway
	}
	c, ok := s.cursors[id]
	return c, ok, nil
}

func (s *store) Advance(ctx context.Context, cursors map[string]events.Cursor) error {
	s.mu.Lock()
	fault := s.onAdvance
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noState {
		return errAway
	}
	for id, c := range cursors {
		s.advance(id, c)
	}
	return nil
}

func (s *store) advance(id string, c events.Cursor) {
	if c.Sequence == 0 || c.Sequence > uint64(len(s.stored)) || events.Compare(s.stored[c.Sequence-1].Position(), c.Position) < 0 {
		panic("a cursor ran ahead of what is stored")
	}
	if old, ok := s.cursors[id]; !ok || events.Compare(old.Position, c.Position) <= 0 {
		s.cursors[id] = c
	}
}

func (s *store) beforeSet(written bool) {
	s.mu.Lock()
	f := s.onSet
	s.mu.Unlock()
	if f != nil {
		f(written)
	}
}

func (s *store) TakeWatchSet(_ context.Context, name, owner string) (events.WatchSet, bool, error) {
	s.beforeSet(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noState {
		return events.WatchSet{}, false, errAway
	}
	set, ok := s.sets[name]
	s.owners[name] = owner
	return set, ok, nil
}

func (s *store) PutWatchSet(_ context.Context, name, owner string, set events.WatchSet) error {
	s.beforeSet(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noState {
		return errAway
	}
	if o := s.owners[name]; o != "" && o != owner {
		return events.ErrTaken
	}
	s.sets[name], s.owners[name] = set, owner
	return nil
}

// purchases are the stored events of one purchase, or of all, without notices.
func (s *store) purchases(id string) []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []events.Event
	for _, e := range s.stored {
		if e.Purchase != nil && (id == "" || e.Subject == id) {
			out = append(out, e)
		}
	}
	return out
}

// noticed are the stored notices of one kind.
func (s *store) noticed(kind events.NoticeKind) []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []events.Event
	for _, e := range s.stored {
		if e.Notice != nil && e.Notice.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// forgetState empties what Redis would hold.
func (s *store) forgetState() {
	s.with(func() {
		clear(s.cursors)
		clear(s.sets)
		clear(s.owners)
	})
}

func (s *store) cursor(id string) events.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursors[id]
}

func (s *store) set(name string) events.WatchSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[name]
}

// leases are leases in memory: one owner at a time, and a way to take them away.
type leases struct {
	mu    sync.Mutex
	held  map[string]*holder
	freed chan struct{}
}

type holder struct{ cancel context.CancelFunc }

func newLeases() *leases {
	return &leases{held: map[string]*holder{}, freed: make(chan struct{})}
}

func (l *leases) Acquire(ctx context.Context, name string, _ func()) (context.Context, func(), error) {
	for {
		l.mu.Lock()
		if l.held[name] == nil {
			owned, cancel := context.WithCancel(context.WithoutCancel(ctx))
			h := &holder{cancel}
			l.held[name] = h
			l.mu.Unlock()
			return owned, func() { l.release(name, h) }, nil
		}
		freed := l.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (l *leases) release(name string, h *holder) {
	h.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] == h {
		delete(l.held, name)
		close(l.freed)
		l.freed = make(chan struct{})
	}
}

// steal gives a lease to somebody else, who gives it back by calling what is returned.
func (l *leases) steal(name string) (giveBack func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name].cancel()
	h := &holder{func() {}}
	l.held[name] = h
	return func() { l.release(name, h) }
}
