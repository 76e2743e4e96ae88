package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// guilt is how many status replies were ready, by what explains them.
type guilt struct {
	purchases int
	overtaken int // holds that the table has, and under which the purchase became ready in one step
	late      int // reads that a transition after their look overtook
	released  int // of both, with payment details
	peak      int // most requests of one token in a minute
}

func (g *guilt) add(o guilt) {
	g.purchases += o.purchases
	g.overtaken += o.overtaken
	g.late += o.late
	g.released += o.released
	g.peak = max(g.peak, o.peak)
}

func (g guilt) String() string {
	return fmt.Sprintf("%d purchases; ready replies: %d to holds that a transition overtook, %d to reads that one overtook after their look, %d of these with payment details; at the most %d requests of a token in a minute",
		g.purchases, g.overtaken, g.late, g.released, g.peak)
}

// checkGuilt: the only status replies that were ready are those that no table can avoid, and each was counted.
func (w *world) checkGuilt(counted float64) guilt {
	sum := guilt{purchases: len(w.sim.Purchases())}
	for id, reads := range w.sim.GuiltyReads() {
		rec, _ := w.sim.Purchase(id)
		for _, g := range reads {
			switch {
			case allowedHold(rec, g), w.hurriedHold(rec, g):
				sum.overtaken++
			case lateRead(rec, g):
				sum.late++
			default:
				w.t.Errorf("%s, %s: %+v\nhistory %+v", id, rec.Purchase.Rail, g, rec.History)
			}
			if g.Released {
				sum.released++
			}
		}
	}
	all := float64(sum.overtaken + sum.late)
	if all < counted || all > counted+3 { // some replies were lost
		w.t.Errorf("%v ready replies, %v counted", all, counted)
	}
	return sum
}

// lateRead tells whether the purchase became ready after a look, less than 5 s before the read, that did not show it.
func lateRead(rec envoysim.Record, g envoysim.GuiltyRead) bool {
	if rec.Purchase.Rail == envoysim.GiftCard || g.SinceLook < 0 || g.SinceLook > 5*time.Second || g.LookShowed == rec.Purchase.ID {
		return false
	}
	return slices.ContainsFunc(rec.History, func(h envoysim.Reading) bool {
		return h.Revision == g.Revision && h.State == envoysim.Ready && h.At.After(g.At.Add(-g.SinceLook))
	})
}

// allowedHold tells whether the read was a hold that the table has: of a one-time card that waited for its user, and may
// go to ready in one step; or one under which the checkout turned from Envoy to the agent while the replica lagged.
func allowedHold(rec envoysim.Record, g envoysim.GuiltyRead) bool {
	for _, h := range rec.History {
		if g.Wait == 0 || h.Revision != g.AfterRevision || rec.Purchase.Rail == envoysim.GiftCard {
			continue
		}
		if h.State == envoysim.WaitingForUser || g.Held && h.CheckoutBy == envoysim.ByEnvoy {
			return true
		}
	}
	return false
}

// hurriedHold tells whether the read was a hold that went out less than 5 s after a reply that showed Envoy checking out,
// and the purchase had turned to the agent and become ready before it arrived.
func (w *world) hurriedHold(rec envoysim.Record, g envoysim.GuiltyRead) bool {
	if g.AfterRevision < 0 || rec.Purchase.Rail == envoysim.GiftCard || !slices.ContainsFunc(rec.History, func(h envoysim.Reading) bool {
		return h.Revision == g.AfterRevision && h.CheckoutBy == envoysim.ByEnvoy
	}) {
		return false
	}
	for _, one := range w.witnesses {
		if w.tokens[one.token] == g.Token && slices.ContainsFunc(one.shown, func(s showing) bool {
			return s.id == rec.Purchase.ID && s.revision == int64(g.AfterRevision) && !s.at.After(g.At) && g.At.Sub(s.at) <= freshFor
		}) {
			return true
		}
	}
	return false
}

// checkReadyReplies: each ready reply that reached the watcher was told in a notice of its connection and day, and the
// purchase was only looked at from then on, until it had ended.
func (w *world) checkReadyReplies() {
	told := map[string]bool{}
	for _, e := range w.store.noticed(events.NoticeReadyReply) {
		told[e.Source+e.Time.UTC().Format(time.DateOnly)] = true
	}
	for _, one := range w.witnesses {
		for _, s := range one.ready {
			if w.cutShort(s.at) {
				continue
			}
			if source := "/connections/" + one.name; !told[source+s.at.UTC().Format(time.DateOnly)] {
				w.t.Errorf("%s answered ready to %s at %s, and no notice says so", s.id, one.name, s.at.Format(time.DateTime))
			}
			rec, _ := w.sim.Purchase(s.id)
			for _, at := range w.askedAfter(one.name, s) {
				over := slices.ContainsFunc(rec.History, func(h envoysim.Reading) bool {
					return h.At.After(s.at) && !h.At.After(at) && ended(events.State(h.State))
				})
				if !over {
					w.t.Errorf("%s answered ready to %s at %s, and was read at %s\nhistory %+v", s.id, one.name, s.at.Format(time.DateTime), at.Format(time.DateTime), rec.History)
				}
			}
		}
	}
}

// askedAfter gives when a connection asked for the status of a purchase after it was shown.
func (w *world) askedAfter(name string, s showing) []time.Time {
	var out []time.Time
	for _, one := range w.witnesses {
		for _, a := range one.asked {
			if one.name == name && a.id == s.id && a.at.After(s.at) {
				out = append(out, a.at)
			}
		}
	}
	return out
}
