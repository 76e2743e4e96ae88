package watch

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
)

// group is the purchases of one connection that stand in one situation.
type group struct {
	count  int
	oldest time.Time // when the situation of the longest one began
}

// join counts a purchase in.
func (g group) join(since time.Time) group {
	if g.count == 0 || since.Before(g.oldest) {
		g.oldest = since
	}
	g.count++
	return g
}

// situation is the one that was said last, and when it began; not known before anything was said.
func (p *purchase) situation() (s events.Situation, since time.Time, known bool) {
	return p.cursor.Last.Situation, p.cursor.SituationSince, p.known && !p.cursor.SituationSince.IsZero()
}

// crowd is how many purchases stand in each situation, and for how long the oldest of them: the connections' groups
// are put together when somebody asks. An age must grow while nothing happens, which a gauge that is set does not.
type crowd struct {
	purchases, oldest *prometheus.Desc

	mu     sync.Mutex
	byConn map[string]map[events.Situation]group
}

func newCrowd() *crowd {
	return &crowd{
		purchases: prometheus.NewDesc("herald_watch_purchases", "Purchases that are followed, by situation.", []string{"situation"}, nil),
		oldest: prometheus.NewDesc("herald_watch_oldest_seconds",
			"How long the purchase that has stood longest in a situation has stood there; 0 without one.", []string{"situation"}, nil),
		byConn: map[string]map[events.Situation]group{},
	}
}

// set takes the groups of a connection; nil: it is not watched here any more.
func (c *crowd) set(connection string, groups map[events.Situation]group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if groups == nil {
		delete(c.byConn, connection)
		return
	}
	c.byConn[connection] = groups
}

// Describe names both metrics.
func (c *crowd) Describe(out chan<- *prometheus.Desc) {
	out <- c.purchases
	out <- c.oldest
}

// Collect gives every situation, also those in which no purchase stands.
func (c *crowd) Collect(out chan<- prometheus.Metric) {
	now, sums := time.Now(), map[events.Situation]group{}
	c.mu.Lock()
	for _, groups := range c.byConn {
		for s, g := range groups {
			all := sums[s].join(g.oldest)
			all.count += g.count - 1
			sums[s] = all
		}
	}
	c.mu.Unlock()
	for _, s := range crowdSituations() {
		g, age := sums[s], 0.0
		if g.count > 0 {
			age = max(0, now.Sub(g.oldest).Seconds())
		}
		out <- prometheus.MustNewConstMetric(c.purchases, prometheus.GaugeValue, float64(g.count), string(s))
		out <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age, string(s))
	}
}

// crowdSituations are the values of the label.
func crowdSituations() []events.Situation {
	return []events.Situation{
		events.SituationNeedsDetails, events.SituationNeedsAnswer, events.SituationWaitingForUser, events.SituationWorking,
		events.SituationReady, events.SituationConfirming, events.SituationDone, events.SituationStopped,
		events.SituationNeedsSupport, events.SituationUnknown,
	}
}
