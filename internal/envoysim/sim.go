package envoysim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Options configure a Sim. The zero value works: seed 0, real time, no quirks, the contract's limits.
type Options struct {
	// Seed decides everything random.
	Seed uint64
	// Speed divides the delays of simulated people and Envoy's own work; 0 means 1.
	Speed float64
	// Clock is the time of holds and rate windows; nil means the time package.
	Clock Clock
	// Quirks are the unannounced ways; the zero value has none. See DefaultQuirks.
	Quirks Quirks
	// Base is a path before /tools, without a slash at its end; empty means none.
	Base string
	// RequestsPerMinute is the limit per token; 0 means the contract's 120, below 0 none.
	RequestsPerMinute int
	// AuthFailuresPerMinute is the limit per client address; 0 means 30, below 0 none.
	AuthFailuresPerMinute int
	// MaxHold caps a hold, whatever wait_seconds says; 0 means 45 s, the contract's own limit.
	MaxHold time.Duration
}

// Sim is one simulated Envoy. All methods are safe for concurrent use.
type Sim struct {
	opts   Options
	clock  Clock
	mint   *mint
	inputs map[string]*inputSchema

	mu        sync.Mutex
	offset    time.Duration // what Step and Advance have jumped over
	rng       *rand.Rand    // the world's own chance; purchases and users have theirs
	users     map[string]*user
	tokens    map[string]*token
	byID      map[string]*purchase
	order     []*purchase
	agents    []*agentLife
	agenda    agenda
	moment    time.Time // when the entry at work was due; zero between entries
	seq       uint64
	wake      chan struct{} // tells Run that something nearer came up
	holds     int
	faults    []*fault
	badAuth   map[string]*window
	subs      map[int]func(Change)
	observers map[int]func(Request)
	subSeq    int
	requests  uint64
}

// New makes a Sim. It fails if an option is out of range or an embedded schema does not compile.
func New(o Options) (*Sim, error) {
	if o.Speed < 0 {
		return nil, fmt.Errorf("read options: speed %v is negative", o.Speed)
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.RequestsPerMinute == 0 {
		o.RequestsPerMinute = 120
	}
	if o.AuthFailuresPerMinute == 0 {
		o.AuthFailuresPerMinute = 30
	}
	if o.MaxHold == 0 {
		o.MaxHold = 45 * time.Second
	}
	inputs, err := loadInputs()
	if err != nil {
		return nil, fmt.Errorf("load schemas: %w", err)
	}
	return &Sim{
		opts: o, clock: o.Clock, mint: &mint{seed: mix(o.Seed)}, inputs: inputs,
		rng:   rand.New(rand.NewPCG(o.Seed, 1)),
		users: map[string]*user{}, tokens: map[string]*token{}, byID: map[string]*purchase{},
		badAuth: map[string]*window{}, subs: map[int]func(Change){}, observers: map[int]func(Request){},
		wake: make(chan struct{}, 1),
	}, nil
}

// now is the simulation's time: the clock's, plus what was jumped over by hand.
func (s *Sim) now() time.Time { return s.clock.Now().Add(s.offset) }

// scaled turns a delay of simulated people into the Sim's own time.
func (s *Sim) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.opts.Speed)
}
