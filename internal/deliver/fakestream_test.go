package deliver

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// fakeStream is a stream with one consumer, as a server has it: an ack wait,
// delays, redeliveries in the order of their expiry, a beginning at the floor.
type fakeStream struct {
	mu      sync.Mutex
	created time.Time
	msgs    []events.Envelope
	state   map[uint64]*fakeDelivery
	queue   []uint64 // to be handed out, in order
	cursor  int      // of msgs that were queued
	serial  uint64   // a beginning makes older handles void
	wake    chan struct{}
	fail    error // of the next Next
	begins  []Start
	handed  int // in hand now
	most    int // most in hand
	naks    []uint64
	fill    func(*events.Envelope) // makes what is handed out of what is kept; nil: it is whole
	first   int                    // of msgs: those before have aged out
	silent  chan struct{}          // until it is closed nothing is handed out; nil: no such time
}

type fakeDelivery struct {
	acked bool
	out   bool // with the loop
	timer *time.Timer
	count int
}

func newFakeStream() *fakeStream {
	return &fakeStream{created: time.Now(), state: map[uint64]*fakeDelivery{}, wake: make(chan struct{})}
}

func (f *fakeStream) publish(e events.Event) uint64 {
	raw, err := events.Encode(e)
	if err != nil {
		panic(err)
	}
	subject := "envoy.purchase.host-a." + e.Subject
	if e.Notice != nil {
		subject = "envoy.notice.host-a"
	}
	_, document, _ := events.Read(raw) // short made-up ids are no events: these have none
	return f.add(events.Envelope{Event: e, Raw: raw, Document: document, Subject: subject})
}

func (f *fakeStream) add(env events.Envelope) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	env.Sequence, env.Stored = uint64(len(f.msgs)+1), time.Now()
	f.msgs = append(f.msgs, env)
	f.signal()
	return env.Sequence
}

func (f *fakeStream) signal() { close(f.wake); f.wake = make(chan struct{}) }

// Exists tells whether the consumer was ever made.
func (f *fakeStream) Exists(context.Context) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.begins) > 0, nil
}

func (f *fakeStream) Begin(_ context.Context, start Start) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begins = append(f.begins, start)
	f.serial++
	for _, d := range f.state {
		if d.timer != nil {
			d.timer.Stop()
		}
		d.out = false
	}
	f.queue, f.cursor, f.handed = nil, 0, 0
	floor := 0
	for floor < len(f.msgs) && f.state[uint64(floor+1)] != nil && f.state[uint64(floor+1)].acked {
		floor++
	}
	f.cursor = floor
	for i := floor; i < len(f.msgs); i++ { // as a new consumer has it: the acks above the floor are forgotten
		delete(f.state, uint64(i+1))
	}
	if start == StartNewest {
		newest := map[string]uint64{}
		for _, m := range f.msgs {
			newest[m.Subject] = m.Sequence
		}
		f.queue, f.cursor = slices.Sorted(maps.Values(newest)), len(f.msgs)
	}
	return nil
}

func (f *fakeStream) Next(ctx context.Context) (Message, error) {
	if f.silent != nil {
		select {
		case <-ctx.Done():
			return Message{}, ctx.Err()
		case <-f.silent:
		}
	}
	for {
		f.mu.Lock()
		if f.fail != nil {
			err := f.fail
			f.fail = nil
			f.mu.Unlock()
			return Message{}, err
		}
		f.queue = slices.DeleteFunc(f.queue, func(seq uint64) bool { return int(seq) <= f.first })
		f.cursor = max(f.cursor, f.first)
		if len(f.queue) == 0 && f.cursor < len(f.msgs) {
			f.cursor++
			f.queue = append(f.queue, uint64(f.cursor))
		}
		if len(f.queue) > 0 {
			seq := f.queue[0]
			f.queue = f.queue[1:]
			m := f.hand(seq)
			f.mu.Unlock()
			return m, nil
		}
		wake := f.wake
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return Message{}, ctx.Err()
		case <-wake:
		}
	}
}

// hand gives a message out; the ack wait brings it back.
func (f *fakeStream) hand(seq uint64) Message {
	d := f.state[seq]
	if d == nil {
		d = &fakeDelivery{}
		f.state[seq] = d
	}
	d.out = true
	d.count++
	f.handed++
	f.most = max(f.most, f.handed)
	f.again(d, seq, 30*time.Second)
	env := f.msgs[seq-1]
	env.Delivered = d.count
	if f.fill != nil {
		f.fill(&env)
	}
	return Message{Envelope: env, Handle: &fakeHandle{f: f, d: d, seq: seq, serial: f.serial}}
}

// again brings a message back after a while.
func (f *fakeStream) again(d *fakeDelivery, seq uint64, after time.Duration) {
	if d.timer != nil {
		d.timer.Stop()
	}
	serial := f.serial
	d.timer = time.AfterFunc(after, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.serial != serial || d.acked {
			return
		}
		if d.out {
			d.out = false
			f.handed--
		}
		f.queue = append(f.queue, seq)
		f.signal()
	})
}

func (f *fakeStream) Newest(context.Context) iter.Seq2[events.Envelope, error] {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := map[string]events.Envelope{}
	for _, m := range f.msgs {
		if m.Event.Purchase != nil {
			newest[m.Subject] = m
		}
	}
	list := slices.SortedFunc(maps.Values(newest), func(a, b events.Envelope) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return func(yield func(events.Envelope, error) bool) {
		for _, m := range list {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (f *fakeStream) latest(_ context.Context, _, purchase string) (*events.Event, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.msgs) - 1; i >= 0; i-- {
		if f.msgs[i].Event.Subject == purchase {
			return &f.msgs[i].Event, f.msgs[i].Sequence, nil
		}
	}
	return nil, 0, nil
}

// breakOff makes the next Next fail.
func (f *fakeStream) breakOff(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
	f.signal()
}

// age lets everything up to a sequence leave the stream.
func (f *fakeStream) age(upTo uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first = int(upTo)
}

// lose forgets everything after a sequence, as a machine does that stopped before
// it was written: the sequences will be given again.
func (f *fakeStream) lose(after uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.msgs = f.msgs[:after]
	for seq, d := range f.state {
		if seq > after {
			d.timer.Stop()
			delete(f.state, seq)
		}
	}
	f.fail = ErrBeginAgain
	f.signal()
}

// anew is the stream deleted and made again.
func (f *fakeStream) anew() {
	f.forget()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created, f.msgs, f.fail = time.Now(), nil, ErrBeginAgain
	f.signal()
}

// forget loses what is known of acknowledgements.
func (f *fakeStream) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.state {
		d.timer.Stop()
	}
	clear(f.state)
	f.queue, f.cursor = nil, 0
	f.serial++
}

// Gap is what left the stream after the floor.
func (f *fakeStream) Gap(context.Context) (Gap, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	floor := 0
	for floor < len(f.msgs) && f.state[uint64(floor+1)] != nil && f.state[uint64(floor+1)].acked {
		floor++
	}
	return Gap{Count: uint64(max(f.first-floor, 0))}, nil
}

func (f *fakeStream) acked(seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.state[seq]
	return d != nil && d.acked
}

func (f *fakeStream) unsettled() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []uint64
	for _, m := range f.msgs {
		if d := f.state[m.Sequence]; d == nil || !d.acked {
			out = append(out, m.Sequence)
		}
	}
	return out
}

type fakeHandle struct {
	f      *fakeStream
	d      *fakeDelivery
	seq    uint64
	serial uint64
	used   bool
}

func (h *fakeHandle) settle(do func()) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.used {
		return errors.New("settled twice")
	}
	if h.serial != h.f.serial {
		return nil // of an older beginning: nobody hears it
	}
	h.used = true
	if h.d.out {
		h.d.out = false
		h.f.handed--
	}
	do()
	return nil
}

func (h *fakeHandle) Ack() error {
	return h.settle(func() {
		h.d.acked = true
		h.d.timer.Stop()
	})
}

func (h *fakeHandle) NakWithDelay(d time.Duration) error {
	return h.settle(func() {
		h.f.naks = append(h.f.naks, h.seq)
		h.f.again(h.d, h.seq, d)
	})
}

func (h *fakeHandle) InProgress() error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.used {
		return errors.New("settled already")
	}
	if h.serial == h.f.serial {
		h.f.again(h.d, h.seq, 30*time.Second)
	}
	return nil
}
