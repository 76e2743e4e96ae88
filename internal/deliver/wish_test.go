package deliver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// purA is a purchase whose events decode.
const purA = "pur_0123456789abcdef0123456789abcdef"

// letter is the dead letter of a message of the stream.
func (w *world) letter(seq uint64) events.DeadLetter {
	m := w.stream.msgs[seq-1]
	return events.DeadLetter{
		Sink: "ops", EventID: m.Event.ID, Subject: m.Subject, Sequence: seq, Reason: string(CauseRejected), Attempts: 1, Event: m.Raw,
	}
}

// wish has the loop fulfil a wish, and gives up after a while.
func wish(t *testing.T, l *Loop, w Wish) WishResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := l.Do(ctx, w)
	if err != nil {
		t.Fatalf("%s: %v", w.Kind, err)
	}
	return res
}

// rejecting buries the first revision of pur_a.
func rejecting(t *testing.T, newestOnly bool) *world {
	w := newWorld(t)
	w.o.NewestOnly, w.o.Latest = newestOnly, w.stream.latest
	w.sink.answers(func(n sinks.Notification) error {
		if n.Event.Purchase.Reading.Revision == 1 && !n.Replay {
			return &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender}
		}
		return nil
	})
	w.stream.publish(event(purA, 1, events.SituationWorking))
	return w
}

func TestReplayGoesOutInItsLaneWithItsOwnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, false)
		l, stop := w.run()
		pass(time.Second)
		w.stream.publish(event(purA, 2, events.SituationWorking))
		pass(time.Second)
		w.sink.takes = 3 * time.Second
		w.stream.publish(event(purA, 3, events.SituationWorking))
		pass(time.Second) // under way: the replay waits for it
		res := wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(1), By: "asha"})
		pass(time.Second)
		stop()
		if res.Status != WishDone || res.Problem != "" {
			t.Errorf("result %+v", res)
		}
		if got, want := w.sink.got(), []string{purA + "-0-2-0", purA + "-0-3-0", purA + "-0-1-0"}; !slices.Equal(got, want) {
			t.Errorf("accepted %v, want %v", got, want)
		}
		if t.Failed() {
			return
		}
		last := w.sink.accepted[2].n
		if !last.Replay || last.Kind != sinks.KindEvent || last.Attempt != 2 || last.Subscription != "all" || w.sink.most != 1 {
			t.Errorf("replayed as %+v, %d at once", last, w.sink.most)
		}
		if st := w.store.get(purA); st.Settled != 3 || st.LastID != purA+"-0-3-0" {
			t.Errorf("the replay moved the standing: %+v", st)
		}
		if d := w.audits[len(w.audits)-1]; d.Outcome != OutcomeSent || d.Reason != "replay" || !strings.Contains(d.Detail, "asha") {
			t.Errorf("audit %+v", d)
		}
		if left := w.stream.unsettled(); len(left) != 0 {
			t.Errorf("not acknowledged: %v", left)
		}
	})
}

// A replay joins the conversation of its purchase, and what it adds to the thread is kept.
func TestReplayStaysInItsConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.Purchase.Reading.Revision == 2 && !n.Replay {
				return &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender}
			}
			return nil
		})
		l, stop := w.run()
		w.stream.publish(event(purA, 1, events.SituationWorking))
		dead := w.stream.publish(event(purA, 2, events.SituationWorking))
		pass(time.Second)
		wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(dead)})
		w.stream.publish(event(purA, 3, events.SituationWorking))
		pass(time.Second)
		stop()
		var threads []string
		for _, a := range w.sink.accepted {
			threads = append(threads, a.n.Thread["ts"])
		}
		if want := []string{"", purA + "-0-1-0", purA + "-0-2-0"}; !slices.Equal(threads, want) {
			t.Errorf("in threads %q, want %q", threads, want)
		}
	})
}

// A replay that was under way when the sink paused, and is accepted, proves nothing about
// the secret that was refused since. A test does.
func TestReplayUnderWayEndsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, false)
		l, stop := w.run()
		pass(time.Second)
		w.sink.answers(func(n sinks.Notification) error {
			switch {
			case n.Replay:
				<-time.After(5 * time.Second)
				return nil
			case n.Kind == sinks.KindTest:
				return nil
			}
			return &sinks.Failure{Verdict: sinks.Paused, Reason: sinks.ReasonAuth, Status: 401}
		})
		time.AfterFunc(time.Second, func() { w.stream.publish(event("pur_b", 1, events.SituationWorking)) })
		res := wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(1)})
		pass(time.Second)
		w.mu.Lock()
		told := slices.Clone(w.notices)
		w.mu.Unlock()
		if state := l.Status().State; res.Status != WishDone || state != StatePaused || len(told) != 1 {
			t.Errorf("the replay is %s, the sink %s, told %+v", res.Status, state, told)
		}
		if res = wish(t, l, Wish{Kind: WishTest}); res.Status != WishDone {
			t.Errorf("the test is %+v", res)
		}
		pass(10 * time.Millisecond)
		stop()
		if len(w.notices) < 2 || w.notices[1].Kind != events.NoticeSinkResumed {
			t.Errorf("told %+v", w.notices)
		}
	})
}

// A newer event in hand makes an old letter needless, even where the stream cannot be
// asked.
func TestReplayToPeopleWhileNewerIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, true)
		w.o.Latest, w.o.MaxRate = nil, 0.1
		l, stop := w.run()
		pass(time.Second)
		w.stream.publish(event(purA, 2, events.SituationWorking)) // waits for its turn
		pass(time.Second)
		if res := wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(1)}); res.Status != WishRefused || res.Problem != notNewest {
			t.Errorf("result %+v", res)
		}
		pass(time.Minute)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{purA + "-0-2-0"}) {
			t.Errorf("accepted %v", got)
		}
	})
}

// People are told the newest only, so an old letter is of no use to them.
func TestReplayToPeopleOnlyWhileItIsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, true)
		l, stop := w.run()
		pass(time.Second)
		letter := w.letter(1)
		if res := wish(t, l, Wish{Kind: WishReplay, Letter: letter}); res.Status != WishDone {
			t.Errorf("the newest: %+v", res)
		}
		w.stream.publish(event(purA, 2, events.SituationWorking))
		pass(time.Second)
		if res := wish(t, l, Wish{Kind: WishReplay, Letter: letter}); res.Status != WishRefused || res.Problem != notNewest {
			t.Errorf("an older one: %+v", res)
		}
		l.o.Latest = func(context.Context, string, string) (*events.Event, uint64, error) {
			return nil, 0, errors.New("away")
		}
		if res := wish(t, l, Wish{Kind: WishReplay, Letter: letter}); res.Status != WishRefused {
			t.Errorf("not known: %+v", res)
		}
		stop()
		if got := w.sink.got(); len(got) != 2 {
			t.Errorf("accepted %v", got)
		}
	})
}

func TestReplayThatFailsIsToldAndTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, false)
		l, stop := w.run()
		pass(time.Second)
		w.sink.answers(func(sinks.Notification) error { return errServer })
		res := wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(1)})
		pass(time.Hour)
		stop()
		if res.Status != WishFailed || !strings.Contains(res.Problem, "server_error") {
			t.Errorf("result %+v", res)
		}
		if n := len(w.sink.tried()); n != 2 {
			t.Errorf("%d tries", n)
		}
		if len(w.graves.all()) != 1 || len(w.store.get(purA).Tries) != 0 {
			t.Errorf("letters %v, standing %+v", w.graves.all(), w.store.get(purA))
		}
	})
}

func TestWishesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, false)
		l, stop := w.run()
		pass(time.Second)
		bad := w.letter(1)
		bad.Event = []byte("{}")
		for name, one := range map[string]Wish{
			"no event": {Kind: WishReplay, Letter: bad}, "no such wish": {Kind: "sing"},
		} {
			if res := wish(t, l, one); res.Status != WishRefused || res.Problem == "" {
				t.Errorf("%s: %+v", name, res)
			}
		}
		w.sink.answers(func(sinks.Notification) error { return errDial })
		w.stream.publish(event("pur_b", 1, events.SituationWorking))
		pass(time.Second)
		if res := wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(1)}); res.Status != WishRefused || !strings.Contains(res.Problem, "down") {
			t.Errorf("down: %+v", res)
		}
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Do(ctx, Wish{Kind: WishTest}); !errors.Is(err, ErrNotOwner) {
			t.Errorf("stopped: %v", err)
		}
	})
}

// What waits when the loop stops is answered, and stays a letter.
func TestStopAnswersReplaysThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, false)
		l, stop := w.run()
		pass(time.Second)
		w.sink.takes = 10 * time.Second
		w.stream.publish(event(purA, 2, events.SituationWorking))
		pass(time.Second)
		results := make(chan WishResult, 1)
		go func() { results <- wish(t, l, Wish{Kind: WishReplay, Letter: w.letter(1)}) }()
		pass(time.Second)
		stop()
		if res := <-results; res.Status != WishRefused {
			t.Errorf("result %+v", res)
		}
		if got := w.sink.got(); !slices.Equal(got, []string{purA + "-0-2-0"}) {
			t.Errorf("accepted %v", got)
		}
	})
}

// A test goes through the real sink whatever its state, and one that is accepted
// ends a pause.
func TestOperatorsTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(sinks.Notification) error {
			return &sinks.Failure{Verdict: sinks.Paused, Reason: sinks.ReasonAuth, Status: 401}
		})
		w.stream.publish(event(purA, 1, events.SituationWorking))
		l, stop := w.run()
		pass(time.Second)
		if res := wish(t, l, Wish{Kind: WishTest}); res.Status != WishFailed || l.Status().State != StatePaused {
			t.Errorf("wrong secret: %+v, %s", res, l.Status().State)
		}
		w.sink.answers(nil)
		pass(time.Second)
		if res := wish(t, l, Wish{Kind: WishTest}); res.Status != WishDone {
			t.Errorf("right secret: %+v", res)
		}
		pass(time.Second)
		stop()
		if kinds := w.sink.kinds(); !slices.Equal(kinds, []sinks.Kind{sinks.KindTest, sinks.KindEvent}) {
			t.Errorf("accepted %v", kinds)
		}
		if n := len(w.notices); n != 2 || w.notices[1].Kind != events.NoticeSinkResumed {
			t.Errorf("notices %+v", w.notices)
		}
		first := w.sink.accepted[0].n
		if !events.ValidEventID(first.Event.ID) || first.Event.ID == w.sink.tried()[1].n.Event.ID {
			t.Errorf("ids of two tests: %s", first.Event.ID)
		}
	})
}
