package watch

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/secret"
)

// cost is how many requests one token makes.
type cost struct {
	mean float64 // a minute
	peak int     // most in any sliding minute
}

// costs are the rows of the table in docs/how-it-reads.md, in its order.
var costs = []struct {
	name    string
	row     string // in the table
	measure func(*testing.T) cost
}{
	{"idle", "nothing open", func(t *testing.T) cost {
		return spend(t, nil, time.Hour)
	}},
	{"idle where the host registers", "nothing open for an hour, on a host that registers its purchases", func(t *testing.T) cost {
		return spend(t, func(w *world) {
			id := w.start(envoysim.Spec{State: envoysim.Processing})
			w.pass(30 * time.Second)
			if err := w.w.Register(w.t.Context(), "host-0", id); err != nil {
				w.t.Fatal(err)
			}
			w.move(id, envoysim.Completed)
			w.pass(3 * time.Hour)
		}, 2*time.Hour)
	}},
	{"waiting", "one purchase waits for its user (one-time card)", func(t *testing.T) cost {
		return spend(t, func(w *world) { w.start(envoysim.Spec{}) }, time.Hour)
	}},
	{"processing, first two minutes", "the agent's `processing` (one-time card), first 2 minutes", func(t *testing.T) cost {
		return spend(t, processing, 2*time.Minute)
	}},
	{"processing, to a quarter of an hour", "the same, up to 15 minutes", func(t *testing.T) cost {
		return spend(t, func(w *world) { processing(w); w.pass(130 * time.Second) }, 12*time.Minute)
	}},
	{"processing, to six hours", "the same, up to 6 hours", func(t *testing.T) cost {
		return spend(t, func(w *world) { processing(w); w.pass(16 * time.Minute) }, 5*time.Hour)
	}},
	{"processing by Envoy", "`processing` while Envoy checks out", func(t *testing.T) cost {
		return spend(t, func(w *world) {
			w.start(envoysim.Spec{Rail: envoysim.OperatedCheckout, State: envoysim.Processing})
			w.pass(time.Minute)
		}, time.Hour)
	}},
	{"a stuck gift card", "a gift card that is stuck for a day", func(t *testing.T) cost {
		return spend(t, func(w *world) { w.start(envoysim.Spec{Rail: envoysim.GiftCard}) }, 24*time.Hour)
	}},
	{"ten ended ones at a restart", "ten ended purchases with unsettled money, hour after a restart", func(t *testing.T) cost {
		return spend(t, func(w *world) {
			for range 10 {
				w.unsettled()
				w.pass(time.Minute)
			}
			w.stop()
			w.again()
		}, time.Hour)
	}},
	{"three connections", "three connections of one token, one purchase in `processing`, first 2 minutes", func(t *testing.T) cost {
		return spend(t, processing, 2*time.Minute, threeOfOneToken)
	}},
}

// processing begins a purchase and registers it, so that it is found at once: by a look, as the last one is too old to
// permit a read.
func processing(w *world) {
	id := w.start(envoysim.Spec{State: envoysim.Processing})
	w.pass(6 * time.Second)
	for _, s := range w.w.Status() {
		if err := w.w.Register(w.t.Context(), s.Name, id); err != nil {
			w.t.Fatal(err)
		}
	}
}

// unsettled has a purchase fail with its money set aside.
func (w *world) unsettled() {
	w.t.Helper()
	_, err := w.sim.Put("asha", envoysim.Purchase{
		State: envoysim.Failed, Rail: envoysim.OTUCard, CheckoutBy: envoysim.ByAgent, MerchantName: "Example Store",
		MerchantURL: "https://shop.example.test", Amount: 249900, Money: envoysim.Money{Status: envoysim.MoneyUnknown},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// threeOfOneToken has three connections use one token, as three entries of a configuration do.
func threeOfOneToken(w *world, o *Options) {
	o.Connections = nil
	for i := range 3 {
		o.Connections = append(o.Connections, Connection{
			Name: fmt.Sprintf("host-%d", i), BudgetKey: "one",
			Reader: envoy.New(envoy.Options{
				BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: direct{w.sim.Handler()}},
				Token: func(context.Context) (secret.Value, error) { return secret.New(w.tokens[0]), nil },
			}),
		})
	}
}

// spend counts the requests of a token over so long, after a first contact of two minutes and then what before does.
func spend(t *testing.T, before func(*world), over time.Duration, edit ...func(*world, *Options)) (c cost) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, envoysim.Options{Seed: 1}, []string{"asha"}, edit...)
		defer w.quit()
		w.pass(2 * time.Minute)
		if before != nil {
			before(w)
		}
		made := w.requests("")
		w.pass(over)
		at := made()
		for i := range at {
			n := 0
			for _, other := range at[i:] {
				if other.Sub(at[i]) < time.Minute {
					n++
				}
			}
			c.peak = max(c.peak, n)
		}
		c.mean = float64(len(at)) / over.Minutes()
	})
	return c
}

// The table of what watching costs says what is measured here.
func TestCostsAreThoseOfTheTable(t *testing.T) {
	raw, err := os.ReadFile("../../docs/how-it-reads.md")
	if err != nil {
		t.Fatal(err)
	}
	said := costTable(t, string(raw))
	if len(said) != len(costs) {
		t.Errorf("the table has %d rows, %d are measured", len(said), len(costs))
	}
	for _, c := range costs {
		t.Run(c.name, func(t *testing.T) {
			got := c.measure(t)
			t.Logf("| %s | %.1f | %d |", c.row, got.mean, got.peak)
			want, ok := said[c.row]
			switch {
			case !ok:
				t.Errorf("the table has no row %q", c.row)
			case math.Abs(got.mean-want.mean) > 0.1+want.mean/10:
				t.Errorf("%.2f requests a minute, the table says %.1f", got.mean, want.mean)
			case got.peak > want.peak:
				t.Errorf("%d requests in one minute, the table says %d at the most", got.peak, want.peak)
			case got.peak > 40:
				t.Errorf("%d requests in one minute, the budget is 40", got.peak)
			}
		})
	}
}

// costTable reads the rows of three cells whose last two are numbers.
func costTable(t *testing.T, page string) map[string]cost {
	t.Helper()
	out := map[string]cost{}
	row := regexp.MustCompile(`(?m)^\| (.+?) \| ([0-9.]+) \| ([0-9]+) \|$`)
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		mean, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		peak, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSpace(m[1])] = cost{mean, peak}
	}
	return out
}
