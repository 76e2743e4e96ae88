package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// Connection is one agent host's access to Envoy.
type Connection struct {
	// Name is a subject token: letters, digits, - and _, 64 at the most.
	Name string
	// Token gives the bearer. The watcher itself never calls it; it is what TokenChanged speaks about.
	Token func(context.Context) (secret.Value, error)
	// TokenChanged reads the source again and tells whether the token is another one than before. Nil: never.
	TokenChanged func(context.Context) bool
	// Reader makes the calls.
	Reader envoy.Reader
	// BudgetKey is the same for connections with the same token: they share one budget. Empty: the name.
	BudgetKey string
}

func (c Connection) budgetKey() string {
	if c.BudgetKey == "" {
		return "name:" + c.Name
	}
	return c.BudgetKey
}

// same tells whether nothing that the watcher uses has changed. Functions cannot be compared, so a changed token source
// has to come with a new Reader.
func (c Connection) same(other Connection) bool {
	return c.Name == other.Name && c.Reader == other.Reader && c.BudgetKey == other.BudgetKey
}

// Policy is how the watcher behaves. The zero value of each field means its default.
type Policy struct {
	RequestsPerMinute int           // share of the calls that a token has; default 40
	LookEvery         time.Duration // fastest pace of looks; default 5 s
	DiscoverEvery     time.Duration // pace of looks when nothing is open; default 60 s
	HoldThroughReady  bool          // hold one-time cards in processing and verifying too: a reply may carry a card
	Others            bool          // publish purchases of the user's other agent hosts too
	GiveUp            time.Duration // an ended purchase stays unsettled for so long at the most; default 720 h
	Retention         time.Duration // of the stream of events; default 168 h
	Personal          bool          // personal fields go into events
}

func (p Policy) withDefaults() Policy {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	if p.RequestsPerMinute <= 0 {
		p.RequestsPerMinute = 40
	}
	set(&p.LookEvery, 5*time.Second)
	set(&p.DiscoverEvery, time.Minute)
	set(&p.GiveUp, 720*time.Hour)
	set(&p.Retention, 168*time.Hour)
	return p
}

// Options wires a Watcher. Publisher, Cursors, Sets and Leases are required.
type Options struct {
	Connections []Connection
	Policy      Policy
	Publisher   Publisher
	Cursors     Cursors
	Sets        Sets
	Leases      Leases
	Desk        Desk                  // nil: only this process's own connections can be registered on
	Tracer      trace.Tracer          // nil: nothing is traced
	Log         *slog.Logger          // nil: nothing is logged
	Metrics     prometheus.Registerer // nil: metrics are kept and shown to nobody
}

func (o Options) check() error {
	var errs []error
	for name, missing := range map[string]bool{
		"Publisher": o.Publisher == nil, "Cursors": o.Cursors == nil, "Sets": o.Sets == nil, "Leases": o.Leases == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("build watcher: %s is missing", name))
		}
	}
	return errors.Join(append(errs, checkConnections(o.Connections))...)
}

func checkConnections(conns []Connection) error {
	var errs []error
	names := map[string]bool{}
	for _, c := range conns {
		switch {
		case !events.ValidConnection(c.Name):
			errs = append(errs, fmt.Errorf("build watcher: connection name %q: use letters, digits, - and _, 64 at the most", c.Name))
		case names[c.Name]:
			errs = append(errs, fmt.Errorf("build watcher: connection name %q is used twice", c.Name))
		case c.Reader == nil:
			errs = append(errs, fmt.Errorf("build watcher: connection %s has no reader", c.Name))
		}
		names[c.Name] = true
	}
	return errors.Join(errs...)
}
