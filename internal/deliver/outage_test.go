package deliver

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// counting is a receiver that keeps no more than it must, for many events.
type counting struct {
	mu       sync.Mutex
	down     bool
	refused  []time.Time
	newest   map[string]int64 // revision by purchase
	accepted int
	inverted int
	slowest  time.Duration // from storage to acceptance
}

func (c *counting) Send(_ context.Context, n sinks.Notification) (sinks.Receipt, error) {
	<-time.After(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		c.refused = append(c.refused, time.Now())
		return sinks.Receipt{}, &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonDial}
	}
	revision := n.Event.Purchase.Reading.Revision
	if revision != c.newest[n.Event.Subject]+1 {
		c.inverted++
	}
	c.newest[n.Event.Subject] = revision
	c.accepted++
	c.slowest = max(c.slowest, time.Since(n.Event.Time))
	return sinks.Receipt{}, nil
}

func (c *counting) set(down bool) (accepted int, refused []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
	return c.accepted, c.refused
}

// The race detector makes a simulated hour of 200 events a second last for minutes.
var outageRate = flag.Int("rate", 20, "events a second while the receiver is down")

// A receiver is down for 20 minutes under so many events a second. It gets the probes
// and nothing else, what is in hand stays bounded, the other sink notices nothing,
// and once it is back everything is delivered in order.
func TestReceiverDownForTwentyMinutes(t *testing.T) {
	const purchases = 400
	synctest.Test(t, func(t *testing.T) {
		fill := func(env *events.Envelope) {
			i := int(env.Sequence - 1)
			env.Event = event(fmt.Sprint("pur_", i%purchases), int64(1+i/purchases), events.SituationWorking)
			env.Event.Time, env.Subject = env.Stored, "envoy.purchase.host-a."+env.Event.Subject
		}
		var loops [2]*Loop
		var worlds [2]*world
		var receivers [2]*counting
		for i := range loops {
			w, c := newWorld(t), &counting{newest: map[string]int64{}}
			w.stream.fill, w.o.Sink, w.o.Concurrency, w.o.Audit = fill, c, 16, nil
			l, stop := w.run()
			defer stop()
			loops[i], worlds[i], receivers[i] = l, w, c
		}
		broken, well := receivers[0], receivers[1]
		most, published := 0, 0
		publish := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); published += 10 {
				for _, w := range worlds {
					for range 10 {
						w.stream.add(events.Envelope{})
					}
				}
				<-time.After(10 * time.Second / time.Duration(*outageRate))
				most = max(most, loops[0].Status().InHand)
			}
		}
		publish(10 * time.Second)
		before, _ := broken.set(true)
		went := time.Now()
		publish(20 * time.Minute)
		during, tries := broken.set(false)
		publish(10 * time.Second)
		pass(3 * time.Minute) // the next probe may be half a minute away

		if during != before || most > InHand*worlds[0].o.Concurrency || worlds[0].stream.most > InHand*worlds[0].o.Concurrency {
			t.Errorf("%d accepted while it is down, at most %d in hand", during-before, most)
		}
		var late []time.Time
		for _, at := range tries {
			if at.Sub(went) > 500*time.Millisecond {
				late = append(late, at)
			}
		}
		// After 1, 2 and 4 s, each 5 s for a minute, each 30 s.
		if n, least, top := len(late), 3+10+37, 3+12+39; n < least || n > top {
			t.Errorf("%d probes in 20 minutes, want %d to %d", n, least, top)
		}
		for i, c := range receivers {
			if c.accepted != published || c.inverted != 0 {
				t.Errorf("sink %d: %d of %d accepted, %d out of order", i, c.accepted, published, c.inverted)
			}
		}
		if well.slowest > 50*time.Millisecond {
			t.Errorf("the other sink took up to %s", well.slowest)
		}
	})
}

// After 20 s away under 200 events a second the backlog is gone within 10 s.
func TestBacklogIsDrainedSoonAfterAShortOutage(t *testing.T) {
	const purchases, perSecond = 400, 200
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), &counting{newest: map[string]int64{}}
		w.o.Sink, w.o.Concurrency, w.o.Audit = c, 16, nil
		w.stream.fill = func(env *events.Envelope) {
			i := int(env.Sequence - 1)
			env.Event = event(fmt.Sprint("pur_", i%purchases), int64(1+i/purchases), events.SituationWorking)
			env.Event.Time, env.Subject = env.Stored, "envoy.purchase.host-a."+env.Event.Subject
		}
		_, stop := w.run()
		published := 0
		publish := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); published++ {
				w.stream.add(events.Envelope{})
				<-time.After(time.Second / perSecond)
			}
		}
		publish(5 * time.Second)
		c.set(true)
		publish(20 * time.Second)
		c.set(false)
		publish(10 * time.Second)
		synctest.Wait()
		if accepted, _ := c.set(false); published-accepted > perSecond/10 { // a tenth of a second's worth may be under way
			t.Errorf("%d of %d accepted ten seconds after its return", accepted, published)
		}
		pass(time.Second)
		stop()
		if c.accepted != published || c.inverted != 0 {
			t.Errorf("%d of %d accepted, %d out of order", c.accepted, published, c.inverted)
		}
	})
}
