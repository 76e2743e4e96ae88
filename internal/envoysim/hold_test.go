package envoysim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func heldBody(id string, after, wait int) string {
	return fmt.Sprintf(`{"purchase":%q,"after_revision":%d,"wait_seconds":%d}`, id, after, wait)
}

func TestHold(t *testing.T) {
	t.Run("EndsWithItsTime", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{})
			begun := time.Now()
			a := w.call(toolStatus, heldBody(id, 0, 45))
			if d := time.Since(begun); d != 45*time.Second || a.status != 200 {
				t.Errorf("answered %d after %v", a.status, d)
			}
		})
	})
	t.Run("EndsWithAChange", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{})
			timer := time.AfterFunc(7*time.Second, func() { w.move(id, Processing) })
			defer timer.Stop()
			begun := time.Now()
			a := w.call(toolStatus, heldBody(id, 0, 45))
			if d := time.Since(begun); d != 7*time.Second || a.at("purchase.revision") != json.Number("1") {
				t.Errorf("answered %s after %v", a.body, d)
			}
		})
	})
	t.Run("LastsUntilTheRevisionExceeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{})
			for i := range 4 {
				defer time.AfterFunc(time.Duration(i+1)*5*time.Second, func() { w.move(id, Processing) }).Stop()
			}
			begun := time.Now()
			w.call(toolStatus, heldBody(id, 2, 45))
			if d := time.Since(begun); d != 15*time.Second {
				t.Errorf("answered after %v, want the third change", d)
			}
		})
	})
	t.Run("NotInOtherStates", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{RequestsPerMinute: -1})
			for _, st := range allStates() {
				id, err := w.Put("asha", Purchase{State: st, Rail: OTUCard})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				w.call(toolStatus, heldBody(id, 0, 45))
				held := time.Since(begun) > 0
				want := st == WaitingForUser || st == Processing || st == Verifying
				if held != want {
					t.Errorf("%s: held is %v, want %v", st, held, want)
				}
			}
		})
	})
	t.Run("NotWithoutBothParameters", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{})
			begun := time.Now()
			w.call(toolStatus, fmt.Sprintf(`{"purchase":%q,"wait_seconds":45}`, id))
			w.call(toolStatus, fmt.Sprintf(`{"purchase":%q,"after_revision":0}`, id))
			w.call(toolStatus, heldBody(id, 0, 0))
			if d := time.Since(begun); d != 0 {
				t.Errorf("held for %v", d)
			}
		})
	})
	t.Run("ASilentChangeWakesNobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{State: Verifying, Rail: OperatedCheckout})
			defer time.AfterFunc(5*time.Second, func() {
				if err := w.Amend(id, func(p *Purchase) { p.Stop = true }); err != nil {
					t.Error(err)
				}
			}).Stop()
			begun := time.Now()
			a := w.call(toolStatus, heldBody(id, 0, 20))
			if d := time.Since(begun); d != 20*time.Second || a.at("next.action") != "stop" || a.at("next.tool") != nil {
				t.Errorf("answered next %v after %v", a.at("next"), d)
			}
		})
	})
	t.Run("EndsWithItsCaller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			begun := time.Now()
			w.callCtx(ctx, w.token, toolStatus, heldBody(id, 0, 45))
			if d := time.Since(begun); d != 3*time.Second || w.Holds() != 0 {
				t.Errorf("ended after %v with %d holds open", d, w.Holds())
			}
		})
	})
	t.Run("OfARevokedTokenIsRefusedAtItsEnd", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{})
			defer time.AfterFunc(time.Second, func() { w.Revoke(w.token) }).Stop()
			if a := w.call(toolStatus, heldBody(id, 0, 9)); a.code() != string(Unauthenticated) {
				t.Errorf("answered %s", a.body)
			}
		})
	})
}

// Holds are counted by purchase and token; one that follows another is not beside it.
func TestMostHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id, other := w.start(Spec{}), w.AddToken("asha", "origin:https://other.example.test")
		unheld, err := w.Put("asha", Purchase{State: Completed, Rail: OTUCard})
		if err != nil {
			t.Fatal(err)
		}
		together := func(tokens ...string) {
			var all sync.WaitGroup
			for _, token := range tokens {
				all.Go(func() { w.callCtx(t.Context(), token, toolStatus, heldBody(id, 0, 9)) })
			}
			all.Wait()
		}
		together(w.token, other)
		together(w.token)
		if m := w.MostHolds(); m[id] != 1 || m[unheld] != 0 {
			t.Errorf("one after the other: %v", m)
		}
		together(w.token, other, w.token, w.token)
		together(w.token)
		if m := w.MostHolds(); m[id] != 3 || len(m) != 1 {
			t.Errorf("three together: %v", m)
		}
		if w.Holds() != 0 {
			t.Errorf("%d holds are open", w.Holds())
		}
	})
}

func TestManyHoldsWakeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{RequestsPerMinute: -1})
		id := w.start(Spec{})
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { w.call(toolStatus, heldBody(id, 0, 45)) })
		}
		synctest.Wait()
		if n := w.Holds(); n != 200 {
			t.Errorf("%d holds open, want 200", n)
		}
		if n := w.Requests()[w.token].Holds; n != 200 {
			t.Errorf("%d holds of the token, want 200", n)
		}
		w.move(id, Processing)
		all.Wait()
		if n := w.Holds(); n != 0 {
			t.Errorf("%d holds open, want none", n)
		}
	})
}

func TestAHoldBehindALaggingToolEndsWhenItCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id := w.start(Spec{State: Processing, Rail: OperatedCheckout})
		w.move(id, Verifying)
		w.mu.Lock()
		w.byID[id].skew = skew{tool: toolStatus, until: w.now().Add(2 * time.Second)}
		w.mu.Unlock()
		look := w.call(toolAccount, `{"include":"active_purchase"}`)
		if look.at("data.account.active_purchase.revision") != json.Number("1") {
			t.Errorf("look shows %s", look.body)
		}
		begun := time.Now()
		a := w.call(toolStatus, heldBody(id, 0, 45))
		if d := time.Since(begun); d != 2*time.Second || a.at("purchase.revision") != json.Number("1") {
			t.Errorf("answered revision %v after %v", a.at("purchase.revision"), d)
		}
	})
}
