package watch

import (
	"fmt"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

var t0 = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// The table of reading, written out again: every state with every route, rail, closing and policy.
func TestPlanIsTheTable(t *testing.T) {
	states := []events.State{
		events.StateNeedsDetails, events.StateNeedsAnswer, events.StateWaitingForUser, events.StateProcessing,
		events.StateReady, events.StateVerifying, "word_of_tomorrow",
	}
	routes := []string{"agent", "envoy", "", "nobody"}
	rails := []string{"otu_card", "operated_checkout", "elixir_marketplace", "gift_card", "", "rail_of_tomorrow"}
	yes, no := true, false
	closed := map[string]*bool{"closed": &yes, "not closed": &no, "closing unknown": nil}
	for _, state := range states {
		for _, route := range routes {
			for _, rail := range rails {
				for word, shut := range closed {
					for _, through := range []bool{false, true} {
						name := fmt.Sprintf("%s/%s/%s/%s/%v", state, route, rail, word, through)
						s := events.Snapshot{State: state, CheckoutBy: route, Rail: rail}
						s.PaymentReady.Closed = shut
						want := tableSays(state, route, rail, shut == &yes, through)
						asked := t0.Add(-readEvery) // all that is due is due, and a look has just shown it
						v := view{id: "p", state: state, column: columnOf(s), since: t0, asked: asked, replied: asked, shown: t0}
						l := sight{asked: t0, came: t0, tried: t0, answer: envoy.ActiveShown, purchase: "p"}
						got := plan(v, l, roll{asked: t0}, Policy{HoldThroughReady: through}.withDefaults(), t0.Add(time.Second))
						if got.Do != want {
							t.Errorf("%s: %s, want %s", name, got.Do, want)
						}
					}
				}
			}
		}
	}
}

// tableSays is the table as the specification has it, on its own.
func tableSays(state events.State, route, rail string, closed, through bool) act {
	first := closed || route == "envoy" && (rail == "operated_checkout" || rail == "elixir_marketplace")
	second := !first && route == "agent" && rail == "otu_card"
	rows := map[events.State][3]act{
		events.StateWaitingForUser: {actHold, actHold, actLook},
		events.StateProcessing:     {actHold, actLook, actLook},
		events.StateReady:          {actLook, actLook, actLook},
		events.StateVerifying:      {actHold, actLook, actLook},
		events.StateNeedsDetails:   {actRead, actLook, actLook},
		events.StateNeedsAnswer:    {actRead, actLook, actLook},
		"word_of_tomorrow":         {actLook, actLook, actLook},
	}
	if through && second && (state == events.StateProcessing || state == events.StateVerifying) {
		return actHold
	}
	switch {
	case first:
		return rows[state][0]
	case second:
		return rows[state][1]
	default:
		return rows[state][2]
	}
}

func TestPlanOfEndedPurchases(t *testing.T) {
	base := view{id: "p", state: events.StateFailed, terminal: true, since: t0, age: t0, asked: t0, shown: t0, replied: t0}
	looked := sight{asked: t0, came: t0, tried: t0.Add(time.Second), answer: envoy.ActiveNone}
	for _, c := range []struct {
		name string
		edit func(*view, *sight)
		now  time.Duration
		want act
		at   time.Duration
	}{
		{"settled stops", func(v *view, _ *sight) { v.settled = true }, 0, actStop, -1},
		{"unsettled is looked at once at first", func(_ *view, l *sight) { l.tried = t0.Add(-time.Second) }, time.Second, actLook, time.Second},
		{"then a look after a minute", nil, 2 * time.Second, actLook, time.Minute},
		{"and the read right after it", func(_ *view, l *sight) { l.tried = t0.Add(61 * time.Second) }, 62 * time.Second, actRead, time.Minute},
		{"twenty minutes later: twenty minutes", func(v *view, _ *sight) { v.shown = t0.Add(20 * time.Minute) }, 20 * time.Minute, actLook, 40 * time.Minute},
		{"five hours later: half an hour", func(v *view, _ *sight) { v.shown = t0.Add(5 * time.Hour) }, 5 * time.Hour, actLook, 5*time.Hour + 30*time.Minute},
		{"two days later: six hours", func(v *view, _ *sight) { v.shown = t0.Add(48 * time.Hour) }, 48 * time.Hour, actLook, 54 * time.Hour},
		{"not found: six hours", func(v *view, _ *sight) { v.slowest = true }, time.Minute, actLook, 6 * time.Hour},
		{"looks that are refused do not stop reads", func(_ *view, l *sight) { l.closed = t0.Add(time.Hour) }, 70 * time.Second, actRead, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, l := base, looked
			if c.edit != nil {
				c.edit(&v, &l)
			}
			got := plan(v, l, roll{}, Policy{}.withDefaults(), t0.Add(c.now))
			if got.Do != c.want || c.at >= 0 && !got.At.Equal(t0.Add(c.at)) {
				t.Errorf("%s at %s, want %s at %s", got.Do, got.At.Sub(t0), c.want, c.at)
			}
		})
	}
}

// Outside the first column nothing is read unless a look less than 5 s old says that it is not active, or a list that it
// has ended.
func TestPlanPermitsReadsByLooksAndListsAlone(t *testing.T) {
	const mine, another = "p", "q"
	for _, c := range []struct {
		name  string
		state events.State
		edit  func(*view, *sight)
		now   time.Duration
		want  act
	}{
		{"none permits", events.StateProcessing, func(_ *view, l *sight) { l.answer = envoy.ActiveNone }, 4 * time.Second, actRead},
		{"another permits", events.StateProcessing, func(_ *view, l *sight) { l.answer, l.purchase = envoy.ActiveShown, another }, 4 * time.Second, actRead},
		{"after five seconds no more", events.StateProcessing, func(_ *view, l *sight) { l.answer = envoy.ActiveNone }, 5 * time.Second, actLook},
		{"not known never permits", events.StateProcessing, func(_ *view, l *sight) { l.answer = envoy.ActiveNotKnown }, time.Second, actLook},
		{"no answer yet never permits", "", func(_ *view, l *sight) { *l = sight{} }, time.Second, actLook},
		{"shown never permits", events.StateProcessing, nil, time.Second, actLook},
		{"one look, one read", events.StateProcessing, func(v *view, l *sight) { l.answer, v.asked = envoy.ActiveNone, t0.Add(time.Second) }, 2 * time.Second, actLook},
		{"ready is not read", events.StateReady, func(_ *view, l *sight) { l.answer = envoy.ActiveNone }, time.Second, actList},
		{"ready is not read, in the first column either", events.StateReady, func(v *view, l *sight) { l.answer, v.column = envoy.ActiveNone, columnEnvoy }, time.Second, actList},
		{"ready is read when a list shows its end", events.StateReady, func(v *view, l *sight) { l.answer, v.listed = envoy.ActiveNone, t0 }, time.Second, actRead},
		{"a list permits without a look", events.StateProcessing, func(v *view, l *sight) { l.answer, v.listed = envoy.ActiveNotKnown, t0 }, time.Hour, actRead},
		{"a list that a later look denies permits nothing", events.StateReady, func(v *view, _ *sight) { v.listed = t0.Add(-time.Second) }, time.Second, actLook},
		{"nor does one before a look could deny it", events.StateReady, func(v *view, _ *sight) { v.listed = t0.Add(time.Minute) }, time.Hour, actLook},
		{"where no look can be made, the list has to do", events.StateReady, func(v *view, l *sight) { v.listed, l.closed = t0.Add(time.Minute), t0.Add(2*time.Hour) }, time.Hour, actRead},
		{"once ready, only a list permits", events.StateProcessing, func(v *view, l *sight) { l.answer, v.onlyLook = envoy.ActiveNone, true }, time.Second, actList},
		{"once ready, no hold", events.StateWaitingForUser, func(v *view, _ *sight) { v.onlyLook, v.column = true, columnCard }, time.Second, actLook},
		{"a reference never seen needs a look", "", func(v *view, l *sight) { l.asked = time.Time{}; l.answer = "" }, time.Second, actLook},
		{"a reference never seen is read after none", "", func(v *view, l *sight) { l.answer = envoy.ActiveNone }, time.Second, actRead},
		{"a reference that a list calls ready is not read", events.StateReady, func(v *view, l *sight) { l.answer = envoy.ActiveNone }, time.Second, actList},
		{"a hash cannot be read", "", func(v *view, l *sight) { l.answer, v.mute = envoy.ActiveNone, true }, time.Second, actLook},
		{"an error closes the read, not the looks", events.StateProcessing, func(v *view, l *sight) { l.answer, v.closed = envoy.ActiveNone, t0.Add(time.Hour) }, time.Second, actLook},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view{id: mine, state: c.state, column: columnOther, since: t0.Add(-time.Hour)}
			l := sight{asked: t0, came: t0, tried: t0, answer: envoy.ActiveShown, purchase: mine}
			if c.edit != nil {
				c.edit(&v, &l)
			}
			got := plan(v, l, roll{}, Policy{}.withDefaults(), t0.Add(c.now))
			if got.Do != c.want {
				t.Errorf("%s, want %s", got.Do, c.want)
			}
		})
	}
}

// A gap of more than 5 s between a reply and the next request asks for a look first, outside the first column.
func TestPlanLooksFirstAfterAGap(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*view, *sight)
		now  time.Duration
		want act
		at   time.Duration
	}{
		{"at once after a hold that ended", nil, 0, actHold, 0},
		{"within five seconds", nil, 5 * time.Second, actHold, 0},
		{"a gap", nil, 6 * time.Second, actLook, 0},
		{"a gap by a pause", func(v *view, _ *sight) { v.pause = 8 * time.Second }, time.Second, actLook, 8 * time.Second},
		{"a gap by a wait that Envoy asks for", func(v *view, _ *sight) { v.next = &follow{delay: 20 * time.Second} }, time.Second, actLook, 20 * time.Second},
		{"a gap by an error", func(v *view, _ *sight) { v.closed = t0.Add(9 * time.Second) }, time.Second, actLook, 9 * time.Second},
		{"shown by that look", func(v *view, _ *sight) { v.shown = t0.Add(29 * time.Second) }, 30 * time.Second, actHold, 0},
		{"that look does not know", func(_ *view, l *sight) {
			*l = sight{asked: t0.Add(6 * time.Second), came: t0.Add(6 * time.Second), answer: envoy.ActiveNotKnown}
		}, 7 * time.Second, actLook, 11 * time.Second},
		{"that look shows another", func(_ *view, l *sight) {
			*l = sight{asked: t0.Add(6 * time.Second), came: t0.Add(6 * time.Second), answer: envoy.ActiveShown, purchase: "q"}
		}, 7 * time.Second, actRead, 0},
		{"the first column too", func(v *view, _ *sight) { v.column = columnEnvoy }, 6 * time.Second, actLook, 0},
		{"but there another permits the hold", func(v *view, l *sight) {
			v.column = columnEnvoy
			*l = sight{asked: t0.Add(6 * time.Second), came: t0.Add(6 * time.Second), answer: envoy.ActiveShown, purchase: "q"}
		}, 7 * time.Second, actHold, 0},
		{"and a look that does not know is not waited for forever", func(v *view, l *sight) {
			v.column = columnEnvoy
			*l = sight{asked: t0.Add(lookPatience - time.Second), came: t0.Add(lookPatience - time.Second), answer: envoy.ActiveNotKnown}
		}, lookPatience + time.Second, actHold, lookPatience},
		{"nor one that cannot be made", func(v *view, l *sight) {
			v.column, l.closed = columnEnvoy, t0.Add(time.Hour)
		}, 6 * time.Second, actHold, lookPatience},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view{id: "p", state: events.StateWaitingForUser, column: columnCard, since: t0, asked: t0.Add(-45 * time.Second), replied: t0, shown: t0}
			l := sight{asked: t0.Add(-time.Minute), came: t0.Add(-time.Minute), answer: envoy.ActiveShown, purchase: "p"}
			if c.edit != nil {
				c.edit(&v, &l)
			}
			got := plan(v, l, roll{}, Policy{}.withDefaults(), t0.Add(c.now))
			if got.Do != c.want || !got.At.Equal(t0.Add(c.at)) {
				t.Errorf("%s at %s, want %s at %s", got.Do, got.At.Sub(t0), c.want, c.at)
			}
		})
	}
}

func TestPlanFollowsNextOnlyInAHold(t *testing.T) {
	next := &follow{reference: "p", args: []byte(`{"purchase":"p","after_revision":0,"wait_seconds":45}`), delay: 3 * time.Second}
	v := view{id: "p", state: events.StateProcessing, column: columnEnvoy, since: t0, asked: t0, replied: t0, shown: t0, next: next}
	l := sight{asked: t0, came: t0, tried: t0, answer: envoy.ActiveShown, purchase: "p"}
	p := Policy{}.withDefaults()
	if got := plan(v, l, roll{}, p, t0); got.Do != actHold || string(got.Args) != string(next.args) || !got.At.Equal(t0.Add(3*time.Second)) {
		t.Errorf("%+v", got)
	}
	v.pause = 15 * time.Second
	if got := plan(v, l, roll{}, p, t0); !got.At.Equal(t0.Add(15 * time.Second)) {
		t.Errorf("the table's own pace is longer, but the hold is at %s", got.At.Sub(t0))
	}
	v.column = columnOther
	if got := plan(v, l, roll{}, p, t0); got.Do != actLook || got.Args != nil {
		t.Errorf("%+v", got)
	}
	v.state, v.column = events.StateNeedsAnswer, columnEnvoy
	if got := plan(v, l, roll{}, p, t0); got.Do != actLook || !got.At.Equal(t0.Add(15*time.Second)) {
		t.Errorf("%+v, want a look before the read", got)
	}
	v.shown = t0.Add(15 * time.Second)
	if got := plan(v, l, roll{}, p, v.shown); got.Do != actRead || got.Args != nil || !got.At.Equal(t0.Add(15*time.Second)) {
		t.Errorf("%+v", got)
	}
}

func TestPaces(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		0: 5 * time.Second, 119 * time.Second: 5 * time.Second, 2 * time.Minute: 15 * time.Second,
		15 * time.Minute: time.Minute, 6 * time.Hour: 5 * time.Minute, 100 * time.Hour: 5 * time.Minute,
	} {
		if got := lookPace(in, 5*time.Second); got != want {
			t.Errorf("look after %s in a state: %s, want %s", in, got, want)
		}
	}
	last := time.Duration(0)
	for age := time.Duration(0); age < 60*time.Hour; age += time.Minute {
		got := slowPace(age)
		if got < last || got < time.Minute || got > slowest || age < 24*time.Hour && got > 30*time.Minute {
			t.Fatalf("slow pace at age %s is %s after %s", age, got, last)
		}
		last = got
	}
	for early, want := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
		if got := earlyPause(early); got != want {
			t.Errorf("pause after %d early replies: %s, want %s", early, got, want)
		}
	}
	for _, c := range []struct {
		took, wait time.Duration
		want       bool
	}{{time.Second, 2 * time.Second, true}, {2 * time.Second, 4 * time.Second, false}, {11 * time.Second, 45 * time.Second, true}, {12 * time.Second, 45 * time.Second, false}} {
		if got := earlyReply(c.took, c.wait); got != c.want {
			t.Errorf("reply after %s of %s: early %v", c.took, c.wait, got)
		}
	}
}

func TestLooksAreFastAroundADeadline(t *testing.T) {
	p := Policy{}.withDefaults()
	deadline := t0.Add(3 * time.Minute)
	l := sight{asked: t0, came: t0, tried: t0, answer: envoy.ActiveShown, purchase: "p"}
	v := view{id: "p", state: events.StateReady, column: columnCard, since: t0.Add(-7 * time.Hour), deadline: deadline}
	if got := plan(v, l, roll{}, p, t0); !got.At.Equal(deadline.Add(-15 * time.Second)) {
		t.Errorf("the next look is at %s, want shortly before the deadline", got.At.Sub(t0))
	}
	for _, from := range []time.Duration{-15 * time.Second, 0, 59 * time.Second} {
		l.asked = deadline.Add(from)
		if got := plan(v, l, roll{}, p, l.asked.Add(time.Millisecond)); !got.At.Equal(l.asked.Add(5 * time.Second)) {
			t.Errorf("%s after the deadline the next look comes after %s", from, got.At.Sub(l.asked))
		}
	}
	l.asked = deadline.Add(time.Minute)
	if got := plan(v, l, roll{}, p, l.asked); !got.At.Equal(l.asked.Add(5 * time.Minute)) {
		t.Errorf("long after the deadline the next look comes after %s", got.At.Sub(l.asked))
	}
}
