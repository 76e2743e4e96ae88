package events

import "strings"

// Who a purchase is waiting on: the closed set of Judgement.WaitingOn.
const (
	WaitingOnUser   = "user"
	WaitingOnAgent  = "agent"
	WaitingOnEnvoy  = "envoy"
	WaitingOnNobody = "nobody"
)

// What the agent reported of its checkout: the closed set of
// Judgement.AgentReport. Empty where there was nothing to report.
const (
	AgentReportPaid   = "paid"
	AgentReportFailed = "failed"
)

// Who a reason code points at: the closed set of Judgement.ReasonClass. Empty
// without a reason code.
const (
	ReasonClassUser    = "user"
	ReasonClassPolicy  = "policy"
	ReasonClassOrder   = "order"
	ReasonClassUnknown = "unknown"
)

// The rules that can decide a situation: the closed set of
// Judgement.SituationBasis. BasisMoneyNotProven, BasisInconsistent,
// BasisUnknownState and BasisGiven can decide the money too.
const (
	BasisState          = "state"            // the state alone says it
	BasisVerifyingStop  = "verifying_stop"   // verifying, and Envoy told the agent to stop checking
	BasisMoneyProven    = "money_proven"     // ended, and the money is known to be with the user
	BasisMoneyNotProven = "money_not_proven" // ended; nobody can see whether money is still set aside
	BasisMoneyOpen      = "money_open"       // ended, and the money is not back
	BasisInconsistent   = "inconsistent"     // terminal contradicts the state
	BasisUnknownState   = "unknown_state"    // a state that the contract does not name
	BasisGiven          = "given"            // over MCP Envoy gives the word itself
)

// SituationBases lists the closed set of Judgement.SituationBasis.
func SituationBases() []string {
	return []string{BasisState, BasisVerifyingStop, BasisMoneyProven, BasisMoneyNotProven,
		BasisMoneyOpen, BasisInconsistent, BasisUnknownState, BasisGiven}
}

// Judge works out what a snapshot and the facts beside it mean. It is pure and
// total: any word in any field gives an answer, and an answer never claims more
// than the two prove. Where a snapshot contradicts itself the state is trusted,
// the money is unknown and the judgement is marked inconsistent.
func Judge(s Snapshot, f Facts) Judgement {
	if f.Source == SourceMCP && f.GivenSituation != "" {
		return judgeGiven(s, f)
	}
	terminal, named := s.State.terminal()
	if !named {
		terminal = s.Terminal
	}
	j := Judgement{Certain: true, Terminal: terminal, Inconsistent: terminal != s.Terminal}
	j.Money, j.MoneyBasis = moneyOf(s, f)
	if j.Inconsistent {
		j.Money, j.MoneyBasis = MoneyUnknown, BasisInconsistent
	}
	j.situate(s, f)
	j.keepToTable()
	j.finish(s, f)
	return j
}

// judgeGiven takes the words of an MCP reply as they stand. A situation that
// the contract does not name is unknown, as any other.
func judgeGiven(s Snapshot, f Facts) Judgement {
	j := Judgement{Certain: true, Situation: f.GivenSituation, SituationBasis: BasisGiven,
		Money: f.GivenMoney, MoneyBasis: BasisGiven, Terminal: s.Terminal}
	if !j.Situation.named() {
		j.Situation, j.SituationBasis, j.Certain = SituationUnknown, BasisUnknownState, false
	}
	if j.Situation == SituationDone || j.Situation == SituationStopped {
		j.Terminal = true
	}
	j.keepToTable()
	j.finish(s, f)
	return j
}

// situate sets the situation from the state, the newest status reply and the
// money worked out before.
func (j *Judgement) situate(s Snapshot, f Facts) {
	j.SituationBasis = BasisState
	switch s.State {
	case StateNeedsDetails, StateNeedsAnswer, StateWaitingForUser, StateReady:
		j.Situation = Situation(s.State)
	case StateProcessing, StateSuperseded:
		j.Situation = SituationWorking
	case StateVerifying:
		j.Situation = SituationConfirming
		if f.Stopped {
			// The contract gives no criterion by which this is support's case, so it is not certain.
			j.Situation, j.SituationBasis, j.Certain = SituationNeedsSupport, BasisVerifyingStop, false
		}
	case StateCompleted:
		j.Situation = SituationDone
	case StateFailed, StateCancelled:
		j.situateEnded()
	default:
		j.Situation, j.SituationBasis, j.Certain = SituationUnknown, BasisUnknownState, false
	}
}

// situateEnded tells stopped from needs_support: only proof that the money is
// with the user makes an ended purchase a stopped one.
func (j *Judgement) situateEnded() {
	switch j.Money {
	case MoneyNotCharged, MoneyRefunded:
		j.Situation, j.SituationBasis = SituationStopped, BasisMoneyProven
		return
	case MoneySetAside, MoneyCharged, MoneyRefunding, MoneyUnknown:
	}
	j.Situation = SituationNeedsSupport
	switch j.MoneyBasis {
	case BasisMoneyNotProven, BasisInconsistent:
		j.SituationBasis, j.Certain = j.MoneyBasis, false
	default:
		j.SituationBasis = BasisMoneyOpen
	}
}

// keepToTable makes the money unknown where the contract publishes no such pair
// of situation and money.
func (j *Judgement) keepToTable() {
	if j.Money == MoneyUnknown || published(j.Situation, j.Money) {
		return
	}
	j.Money, j.MoneyBasis, j.Inconsistent = MoneyUnknown, BasisOutsideTable, true
}

// finish sets what follows from situation and money.
func (j *Judgement) finish(s Snapshot, f Facts) {
	j.Unsettled = j.Situation == SituationConfirming || j.Situation == SituationNeedsSupport ||
		j.Money == MoneyUnknown || j.Money == MoneyRefunding ||
		(j.Terminal && f.Held.Entry != nil)
	j.WaitingOn = waitingOn(*j, s, f)
	j.ReasonClass = reasonClass(s.ReasonCode)
	if s.State == StateVerifying && s.CheckoutBy == checkoutByAgent {
		j.AgentReport = AgentReportPaid
		if s.ReasonCode != "" {
			j.AgentReport = AgentReportFailed
		}
	}
}

const checkoutByAgent = "agent"

// terminal tells whether a purchase in state s has ended, and whether the
// contract names the state at all.
func (s State) terminal() (terminal, named bool) {
	switch s {
	case StateNeedsDetails, StateNeedsAnswer, StateWaitingForUser, StateProcessing, StateReady, StateVerifying:
		return false, true
	case StateCompleted, StateFailed, StateCancelled, StateSuperseded:
		return true, true
	default:
		return false, false
	}
}

// named tells whether the contract names the situation.
func (s Situation) named() bool {
	switch s {
	case SituationNeedsDetails, SituationNeedsAnswer, SituationWaitingForUser, SituationWorking, SituationReady,
		SituationConfirming, SituationDone, SituationStopped, SituationNeedsSupport:
		return true
	case SituationUnknown:
		return false
	default:
		return false
	}
}

// waitingOn names whose move it is.
func waitingOn(j Judgement, s Snapshot, f Facts) string {
	switch {
	case j.Settled():
		return WaitingOnNobody
	case j.Terminal:
		return WaitingOnEnvoy
	case s.UserTask != "" || f.UserActionTask != "":
		return WaitingOnUser
	}
	switch j.Situation {
	case SituationNeedsDetails, SituationNeedsAnswer, SituationWaitingForUser:
		return WaitingOnUser
	case SituationReady:
		return WaitingOnAgent
	case SituationWorking, SituationConfirming, SituationDone, SituationStopped, SituationNeedsSupport, SituationUnknown:
		return WaitingOnEnvoy
	default:
		return WaitingOnEnvoy
	}
}

// reasonClass reads the class off the prefix, which tomorrow's codes will have too.
func reasonClass(code string) string {
	switch {
	case code == "":
		return ""
	case strings.HasPrefix(code, "USER_"):
		return ReasonClassUser
	case strings.HasPrefix(code, "POLICY_"):
		return ReasonClassPolicy
	case strings.HasPrefix(code, "ORDER_"):
		return ReasonClassOrder
	default:
		return ReasonClassUnknown
	}
}
