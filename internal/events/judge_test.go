package events

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The words that Envoy may say, and one of tomorrow for each list.
var (
	states   = []State{StateNeedsDetails, StateNeedsAnswer, StateWaitingForUser, StateProcessing, StateReady, StateVerifying, StateCompleted, StateFailed, StateCancelled, StateSuperseded, "of_tomorrow"}
	statuses = []string{"not_started", "unknown", "debited", "refund_pending", "refunded", "merchant_collects", "of_tomorrow"}
	rails    = []string{"", "otu_card", "operated_checkout", "elixir_marketplace", "gift_card", "of_tomorrow"}
	entries  = []string{"", "held", "returning", "unknown", "of_tomorrow"}
)

// publishedTable is the contract's table of situation and money, written down a
// second time. Nil: any value.
var publishedTable = map[Situation][]Money{
	SituationNeedsDetails:   {MoneyNotCharged},
	SituationNeedsAnswer:    nil,
	SituationWaitingForUser: {MoneyNotCharged},
	SituationWorking:        {MoneyNotCharged, MoneySetAside},
	SituationReady:          {MoneySetAside},
	SituationConfirming:     {MoneyUnknown, MoneySetAside, MoneyRefunding},
	SituationDone:           {MoneyCharged, MoneyNotCharged},
	SituationStopped:        {MoneyNotCharged, MoneyRefunded},
	SituationNeedsSupport:   nil,
	SituationUnknown:        {MoneyUnknown},
}

func ended(s State) bool {
	return slices.Contains([]State{StateCompleted, StateFailed, StateCancelled, StateSuperseded}, s)
}

// world is a combination of what Judge looks at.
type world struct {
	state    State
	status   string
	held     string // state of the entry; empty: none
	rail     string
	approval string
	passed   bool
	seen     string // what the look answered: "none", "partial", "unsure", "full"
	stopped  bool
	flipped  bool // terminal contradicts the state
}

func (w world) args() (Snapshot, Facts) {
	yes, no := true, false
	s := Snapshot{PurchaseID: purchaseA, Revision: 3, State: w.state, Terminal: ended(w.state) != w.flipped, Rail: w.rail,
		Money: MoneyStatus{Status: w.status}, Approval: Approval{State: w.approval}}
	f := Facts{Source: SourceStatus, Stopped: w.stopped, PassedApproval: w.passed}
	switch w.seen {
	case "partial":
		f.Held = HeldAnswer{Available: true, Truncated: &yes}
	case "unsure":
		f.Held = HeldAnswer{Available: true}
	case "full":
		f.Held = HeldAnswer{Available: true, Truncated: &no}
	}
	if w.held != "" {
		f.Held.Entry = &Held{State: w.held}
	}
	return s, f
}

// everyWorld goes through all combinations.
func everyWorld(yield func(world)) {
	for _, state := range states {
		for _, status := range statuses {
			for _, held := range entries {
				for _, rail := range rails {
					for _, approval := range []string{"", "pending", "approved", "denied", "expired"} {
						for _, seen := range []string{"none", "partial", "unsure", "full"} {
							for bits := range 8 {
								yield(world{state, status, held, rail, approval, bits&1 > 0, seen, bits&2 > 0, bits&4 > 0})
							}
						}
					}
				}
			}
		}
	}
}

// TestJudgeKeepsToThePublishedTable goes through every combination.
func TestJudgeKeepsToThePublishedTable(t *testing.T) {
	everyWorld(func(w world) {
		j := Judge(w.args())
		allowed, listed := publishedTable[j.Situation]
		if !listed {
			t.Fatalf("%+v: situation %q", w, j.Situation)
		}
		if j.Money != MoneyUnknown && allowed != nil && !slices.Contains(allowed, j.Money) {
			t.Errorf("%+v: %s with %s", w, j.Situation, j.Money)
		}
		if !slices.Contains(SituationBases(), j.SituationBasis) || !slices.Contains(MoneyBases(), j.MoneyBasis) {
			t.Errorf("%+v: bases %q, %q are not of the closed sets", w, j.SituationBasis, j.MoneyBasis)
		}
	})
}

// TestJudgeNeedsProof states the rule of proof a second time, and asks for it
// wherever an ended purchase is called stopped or its money not charged.
func TestJudgeNeedsProof(t *testing.T) {
	everyWorld(func(w world) {
		j := Judge(w.args())
		if !ended(w.state) || w.state == StateCompleted {
			if j.Situation == SituationStopped {
				t.Errorf("%+v: stopped before it ended", w)
			}
			return
		}
		if j.Situation != SituationStopped && j.Money != MoneyNotCharged {
			return
		}
		proof := false
		switch w.status {
		case "refunded", "merchant_collects":
			proof = w.held == ""
		case "not_started":
			neverAgreed := !w.passed && w.approval != "approved"
			card := slices.Contains([]string{"", "otu_card", "operated_checkout", "elixir_marketplace"}, w.rail)
			proof = w.held == "" && (neverAgreed || card && w.seen == "full")
		}
		if !proof || w.flipped {
			t.Errorf("%+v: %s, %s by %s without proof", w, j.Situation, j.Money, j.MoneyBasis)
		}
	})
}

// TestJudgeUnsettled states what is unsettled, and that a contradiction shows.
func TestJudgeUnsettled(t *testing.T) {
	everyWorld(func(w world) {
		j := Judge(w.args())
		want := j.Situation == SituationConfirming || j.Situation == SituationNeedsSupport ||
			j.Money == MoneyUnknown || j.Money == MoneyRefunding || j.Terminal && w.held != ""
		if j.Unsettled != want {
			t.Errorf("%+v: unsettled %v", w, j.Unsettled)
		}
		if w.state == "of_tomorrow" {
			return
		}
		if j.Terminal != ended(w.state) {
			t.Errorf("%+v: the state was not trusted", w)
		}
		if w.flipped && (!j.Inconsistent || j.Money != MoneyUnknown) {
			t.Errorf("%+v: contradiction gives %+v", w, j)
		}
		if j.Settled() != (j.WaitingOn == WaitingOnNobody) {
			t.Errorf("%+v: waiting on %s", w, j.WaitingOn)
		}
	})
}

func TestJudgeSituation(t *testing.T) {
	for _, c := range []struct {
		w         world
		situation Situation
		basis     string
		certain   bool
	}{
		{world{state: StateNeedsDetails, status: "not_started"}, SituationNeedsDetails, "state", true},
		{world{state: StateNeedsAnswer, status: "not_started"}, SituationNeedsAnswer, "state", true},
		{world{state: StateWaitingForUser, status: "not_started"}, SituationWaitingForUser, "state", true},
		{world{state: StateProcessing, status: "not_started"}, SituationWorking, "state", true},
		{world{state: StateReady, status: "not_started"}, SituationReady, "state", true},
		{world{state: StateSuperseded, status: "not_started"}, SituationWorking, "state", true},
		{world{state: StateVerifying, status: "not_started"}, SituationConfirming, "state", true},
		{world{state: StateVerifying, status: "not_started", stopped: true}, SituationNeedsSupport, "verifying_stop", false},
		{world{state: StateProcessing, status: "not_started", stopped: true}, SituationWorking, "state", true},
		{world{state: StateCompleted, status: "debited"}, SituationDone, "state", true},
		{world{state: StateFailed, status: "not_started"}, SituationStopped, "money_proven", true},
		{world{state: StateCancelled, status: "not_started", approval: "denied"}, SituationStopped, "money_proven", true},
		{world{state: StateCancelled, status: "refunded", passed: true}, SituationStopped, "money_proven", true},
		{world{state: StateFailed, status: "not_started", passed: true}, SituationNeedsSupport, "money_not_proven", false},
		{world{state: StateFailed, status: "not_started", approval: "approved"}, SituationNeedsSupport, "money_not_proven", false},
		{world{state: StateFailed, status: "not_started", passed: true, seen: "full"}, SituationStopped, "money_proven", true},
		{world{state: StateFailed, status: "not_started", passed: true, seen: "full", rail: "gift_card"}, SituationNeedsSupport, "money_not_proven", false},
		{world{state: StateFailed, status: "not_started", passed: true, seen: "unsure"}, SituationNeedsSupport, "money_not_proven", false},
		{world{state: StateFailed, status: "not_started", passed: true, seen: "partial"}, SituationNeedsSupport, "money_not_proven", false},
		{world{state: StateFailed, status: "not_started", seen: "full", held: "held"}, SituationNeedsSupport, "money_open", true},
		{world{state: StateFailed, status: "debited"}, SituationNeedsSupport, "money_open", true},
		{world{state: StateCancelled, status: "refund_pending"}, SituationNeedsSupport, "money_open", true},
		{world{state: StateFailed, status: "merchant_collects", passed: true}, SituationStopped, "money_proven", true},
		{world{state: StateFailed, status: "unknown"}, SituationNeedsSupport, "money_open", true},
		{world{state: StateFailed, status: "not_started", flipped: true}, SituationNeedsSupport, "inconsistent", false},
		{world{state: "of_tomorrow", status: "not_started"}, SituationUnknown, "unknown_state", false},
	} {
		j := Judge(c.w.args())
		if j.Situation != c.situation || j.SituationBasis != c.basis || j.Certain != c.certain {
			t.Errorf("%+v: %s by %s, certain %v; want %s by %s, certain %v", c.w,
				j.Situation, j.SituationBasis, j.Certain, c.situation, c.basis, c.certain)
		}
	}
}

// TestJudgeMoney is the money table, cell by cell: without an entry among the
// held purchases, with one held, with one returning.
func TestJudgeMoney(t *testing.T) {
	const n, a, c, g, r, u = MoneyNotCharged, MoneySetAside, MoneyCharged, MoneyRefunding, MoneyRefunded, MoneyUnknown
	for _, row := range []struct {
		state  State
		status string
		want   [3]Money
	}{
		{StateNeedsDetails, "not_started", [3]Money{n, u, u}},
		{StateWaitingForUser, "not_started", [3]Money{n, u, u}},
		{StateWaitingForUser, "debited", [3]Money{u, u, u}},
		{StateNeedsAnswer, "not_started", [3]Money{n, a, g}},
		{StateNeedsAnswer, "debited", [3]Money{c, a, g}},
		{StateProcessing, "not_started", [3]Money{n, a, u}},
		{StateProcessing, "unknown", [3]Money{u, a, u}},
		{StateProcessing, "refunded", [3]Money{u, a, u}},
		{StateReady, "not_started", [3]Money{a, a, a}},
		{StateReady, "unknown", [3]Money{a, a, a}},
		{StateVerifying, "not_started", [3]Money{u, a, g}},
		{StateVerifying, "debited", [3]Money{u, a, g}},
		{StateVerifying, "unknown", [3]Money{u, a, g}},
		{StateVerifying, "merchant_collects", [3]Money{u, a, g}},
		{StateVerifying, "refund_pending", [3]Money{g, g, g}},
		{StateVerifying, "refunded", [3]Money{g, g, g}},
		{StateCompleted, "debited", [3]Money{c, c, c}},
		{StateCompleted, "merchant_collects", [3]Money{n, n, n}},
		{StateCompleted, "not_started", [3]Money{n, n, n}},
		{StateCompleted, "refund_pending", [3]Money{u, u, u}},
		{StateCompleted, "refunded", [3]Money{u, u, u}},
		{StateCompleted, "unknown", [3]Money{u, u, u}},
		{StateFailed, "refunded", [3]Money{r, a, g}},
		{StateFailed, "debited", [3]Money{c, c, c}},
		{StateCancelled, "refund_pending", [3]Money{g, g, g}},
		{StateCancelled, "merchant_collects", [3]Money{n, a, g}},
		{StateFailed, "not_started", [3]Money{n, a, g}},
		{StateFailed, "unknown", [3]Money{u, a, g}},
		{StateFailed, "of_tomorrow", [3]Money{u, a, g}},
		{StateSuperseded, "not_started", [3]Money{n, a, u}},
		{StateSuperseded, "debited", [3]Money{u, u, u}},
		{"of_tomorrow", "debited", [3]Money{u, u, u}},
	} {
		for i, held := range []string{"", "held", "returning"} {
			j := Judge(world{state: row.state, status: row.status, held: held}.args())
			if j.Money != row.want[i] {
				t.Errorf("%s, %s, entry %q: %s by %s, want %s", row.state, row.status, held, j.Money, j.MoneyBasis, row.want[i])
			}
		}
	}
}

func TestJudgeShowsWhatTheTableForbids(t *testing.T) {
	for _, w := range []world{
		{state: StateCompleted, status: "refunded"},
		{state: StateWaitingForUser, status: "debited"},
		{state: StateWaitingForUser, status: "not_started", held: "held"},
		{state: StateProcessing, status: "not_started", held: "returning"},
	} {
		j := Judge(w.args())
		if !j.Inconsistent || j.Money != MoneyUnknown || j.MoneyBasis != BasisOutsideTable || !j.Unsettled {
			t.Errorf("%+v: %+v", w, j)
		}
	}
	if j := Judge(world{state: StateCompleted, status: "unknown"}.args()); j.Inconsistent {
		t.Errorf("Envoy may not know, which is no contradiction: %+v", j)
	}
}

// TestJudgeDoesNotBelieveAnEmptyHistory: a snapshot that shows a checkout is
// stronger than a history that saw none.
func TestJudgeDoesNotBelieveAnEmptyHistory(t *testing.T) {
	for name, change := range map[string]func(*Snapshot){
		"outcome unknown":  func(s *Snapshot) { s.ReasonCode = "ORDER_OUTCOME_UNKNOWN" },
		"card declined":    func(s *Snapshot) { s.ReasonCode = "ORDER_CARD_DECLINED" },
		"details released": func(s *Snapshot) { s.PaymentReady.Kind = "card" },
	} {
		s, f := world{state: StateFailed, status: "not_started"}.args()
		change(&s)
		if j := Judge(s, f); j.Situation != SituationNeedsSupport || j.MoneyBasis != BasisMoneyNotProven {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

func TestJudgeGivenWordsStand(t *testing.T) {
	for _, c := range []struct {
		situation Situation
		money     Money
		want      Judgement
	}{
		{"confirming", "unknown", Judgement{Situation: "confirming", Money: "unknown", Unsettled: true, Certain: true}},
		{"stopped", "refunded", Judgement{Situation: "stopped", Money: "refunded", Terminal: true, Certain: true}},
		{"stopped", "set_aside", Judgement{Situation: "stopped", Money: "unknown", Terminal: true, Certain: true, Unsettled: true, Inconsistent: true}},
		{"needs_support", "charged", Judgement{Situation: "needs_support", Money: "charged", Certain: true, Unsettled: true}},
		{"of_tomorrow", "charged", Judgement{Situation: "unknown", Money: "unknown", Unsettled: true, Inconsistent: true}},
	} {
		j := Judge(Snapshot{}, Facts{Source: SourceMCP, GivenSituation: c.situation, GivenMoney: c.money})
		got := Judgement{Situation: j.Situation, Money: j.Money, Terminal: j.Terminal, Certain: j.Certain, Unsettled: j.Unsettled, Inconsistent: j.Inconsistent}
		if got != c.want {
			t.Errorf("%s, %s: %+v, want %+v", c.situation, c.money, got, c.want)
		}
	}
}

func TestJudgeFollowUps(t *testing.T) {
	for _, c := range []struct {
		state               State
		checkout, reason    string
		task                string
		waiting, rep, class string
	}{
		{StateVerifying, "agent", "", "", WaitingOnEnvoy, AgentReportPaid, ""},
		{StateVerifying, "agent", "ORDER_CARD_DECLINED", "", WaitingOnEnvoy, AgentReportFailed, ReasonClassOrder},
		{StateVerifying, "envoy", "", "", WaitingOnEnvoy, "", ""},
		{StateProcessing, "agent", "", "", WaitingOnEnvoy, "", ""},
		{StateProcessing, "envoy", "", "enter_otp", WaitingOnUser, "", ""},
		{StateReady, "agent", "", "", WaitingOnAgent, "", ""},
		{StateWaitingForUser, "", "", "approve", WaitingOnUser, "", ""},
		{StateNeedsAnswer, "", "", "", WaitingOnUser, "", ""},
		{StateCancelled, "", "USER_DECLINED", "", WaitingOnNobody, "", ReasonClassUser},
		{StateFailed, "", "POLICY_DENIED", "approve", WaitingOnNobody, "", ReasonClassPolicy},
		{StateFailed, "", "RULE_OF_TOMORROW", "", WaitingOnNobody, "", ReasonClassUnknown},
		{StateFailed, "", "ORDER_OUTCOME_UNKNOWN", "", WaitingOnEnvoy, "", ReasonClassOrder},
		{"of_tomorrow", "", "", "", WaitingOnEnvoy, "", ""},
	} {
		s, f := world{state: c.state, status: "not_started"}.args()
		s.CheckoutBy, s.ReasonCode, s.UserTask = c.checkout, c.reason, c.task
		j := Judge(s, f)
		if j.WaitingOn != c.waiting || j.AgentReport != c.rep || j.ReasonClass != c.class {
			t.Errorf("%+v: %q, %q, %q", c, j.WaitingOn, j.AgentReport, j.ReasonClass)
		}
	}
}

// TestJudgeIsTotal feeds any words at all.
func TestJudgeIsTotal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, f := drawSnapshot(rt), drawFacts(rt)
		j := Judge(s, f)
		if j != Judge(s, f) {
			rt.Fatal("two answers to one question")
		}
		if allowed := publishedTable[j.Situation]; j.Money != MoneyUnknown && allowed != nil && !slices.Contains(allowed, j.Money) {
			rt.Fatalf("%s with %s", j.Situation, j.Money)
		}
		if j.Situation == SituationStopped && f.Source != SourceMCP && f.Held.Entry != nil {
			rt.Fatalf("stopped while the account shows open money: %s", fmt.Sprint(s, f))
		}
		if j.Settled() && (j.Money == MoneyUnknown || j.Money == MoneyRefunding || f.Held.Entry != nil) {
			rt.Fatalf("settled with open money: %+v", j)
		}
	})
}
