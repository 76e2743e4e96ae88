package envoysim

import "time"

// Step is one move of a purchase's life. Fields left out keep what was.
type Step struct {
	// After is the delay since the step before, in the time of simulated people.
	After time.Duration `yaml:"after"`
	// State is the state to enter; empty keeps it, with a new revision all the same.
	State      State         `yaml:"state"`
	UserTask   UserTask      `yaml:"user_task"`
	Reason     string        `yaml:"reason_code"`
	Rail       Rail          `yaml:"rail"`
	RailReason string        `yaml:"rail_reason"`
	Route      Route         `yaml:"route"`
	Approval   string        `yaml:"approval"`
	Money      MoneyStatus   `yaml:"money"`
	OrderRef   string        `yaml:"order_ref"`
	Ledger     LedgerStatus  `yaml:"ledger"`
	Question   *QuestionSpec `yaml:"question"`
	StatusText string        `yaml:"status_text"`
	// Deadline is next.by, counted from the step.
	Deadline time.Duration `yaml:"deadline"`
	Stop     *bool         `yaml:"stop"`
	Closed   *bool         `yaml:"closed"`
	FollowUp bool          `yaml:"follow_up"`
	// Silent changes replies without a revision and wakes nobody.
	Silent bool `yaml:"silent"`
	// Revision is the revision to jump to; 0: the next one.
	Revision int `yaml:"revision"`
	// SupersededBy names the scenario's purchase that starts now and takes the place of this one.
	SupersededBy string `yaml:"superseded_by"`
}

// QuestionSpec is a question to ask.
type QuestionSpec struct {
	Kind   string `yaml:"kind"`
	Prompt string `yaml:"prompt"`
}

// playLocked does one step.
func (s *Sim) playLocked(p *purchase, st Step) {
	if st.SupersededBy != "" {
		if next, ok := p.named[st.SupersededBy]; ok {
			s.succeedLocked(p, next)
			return
		}
	}
	edit := func(n *Purchase) { s.applyLocked(p, st, n) }
	if !st.Silent {
		s.changeMoneyLocked(p, edit, st.Ledger)
		return
	}
	if st.Ledger != "" {
		s.moveMoneyLocked(p, st.Ledger)
	}
	s.amendLocked(p, edit)
}

func (s *Sim) applyLocked(p *purchase, st Step, n *Purchase) {
	was := n.State
	if st.State != "" && st.State != was {
		n.State, n.ReasonCode = st.State, ""
		consent(was, st, n)
	}
	set(&n.UserTask, st.UserTask)
	set(&n.ReasonCode, st.Reason)
	if st.Rail != "" && st.Rail != n.Rail {
		n.Rail, n.RailReason, n.CheckoutBy = st.Rail, "", ""
	}
	set(&n.RailReason, st.RailReason)
	set(&n.CheckoutBy, st.Route)
	set(&n.Approval.State, st.Approval)
	set(&n.Money.Status, st.Money)
	set(&n.Money.OrderRef, st.OrderRef)
	set(&n.StatusText, st.StatusText)
	set(&n.Revision, st.Revision)
	if st.Question != nil {
		n.Question = &Question{Kind: st.Question.Kind, Prompt: st.Question.Prompt}
		if chance(p.rng, s.opts.Quirks.DirtyText) {
			n.Question.Prompt = cut(n.Question.Prompt, 200) + s.dirt(p)
		}
	}
	if st.Deadline != 0 {
		n.Deadline = s.now().Add(s.scaled(st.Deadline))
	}
	if st.Stop != nil {
		n.Stop = *st.Stop
	}
	if st.Closed != nil {
		n.Handout.Closed = st.Closed
	}
	if st.FollowUp {
		n.FollowUp = &FollowUp{ID: "fup_" + s.mint.hex32(), Prompt: "How did this purchase go?"}
	}
}

// consent keeps the approval block in step with how waiting_for_user was left.
func consent(was State, st Step, n *Purchase) {
	if st.State == WaitingForUser {
		n.Approval = Approval{}
		return
	}
	if was != WaitingForUser {
		return
	}
	switch {
	case st.Reason == "USER_DECLINED":
		n.Approval.State = "denied"
	case st.Reason == "USER_APPROVAL_EXPIRED":
		n.Approval.State = "expired"
	case st.State.Terminal() || st.State.Asks() || n.UserTask == PayLink:
	case n.UserTask == EnterOTP:
		n.Approval.State, n.Approval.Method = "approved", "otp"
	default:
		n.Approval.State, n.Approval.Method = "approved", "passkey"
	}
}

func set[T comparable](to *T, value T) {
	var zero T
	if value != zero {
		*to = value
	}
}
