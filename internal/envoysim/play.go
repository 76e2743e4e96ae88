package envoysim

import (
	"fmt"
	"time"
)

// Play puts a scenario on the agenda for the token's user. It needs Run, Step or Advance to happen.
func (s *Sim) Play(token string, sc Scenario) error {
	if err := sc.validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[token]
	if !ok || t.revoked {
		return fmt.Errorf("play scenario %s: %w", sc.Name, ErrNoToken)
	}
	named, turns := map[string]*scripted{}, []turn{}
	successors := map[string]bool{}
	for _, p := range sc.Purchases {
		for _, st := range p.Steps {
			successors[st.SupersededBy] = true
		}
	}
	for _, p := range sc.Purchases {
		item := &scripted{spec: p.spec(), token: t, named: named}
		if p.Name != "" {
			named[p.Name] = item
		}
		if p.Name == "" || !successors[p.Name] {
			turns = append(turns, turn{start: p.Start, item: item})
		}
	}
	s.takeTurnLocked(turns, true)
	return nil
}

type turn struct {
	start time.Duration
	item  *scripted
}

// takeTurnLocked starts the first of the turns once the user has nothing open, and then the rest.
func (s *Sim) takeTurnLocked(turns []turn, fresh bool) {
	if len(turns) == 0 {
		return
	}
	after := time.Second
	if fresh {
		after = turns[0].start
	}
	s.laterLocked(after, nil, func() {
		if turns[0].item.token.user.activeLocked() != nil {
			s.takeTurnLocked(turns, false)
			return
		}
		s.startScriptedLocked(turns[0].item, "")
		s.takeTurnLocked(turns[1:], true)
	})
}

func (s *Sim) startScriptedLocked(item *scripted, retryOf string) *purchase {
	spec := item.spec
	spec.RetryOf, spec.Life, spec.Steps = "", LifeManual, nil // linked and set going below
	p := s.startLocked(item.token, spec)
	p.named = item.named
	if retryOf != "" {
		p.now.Supersedes = retryOf
	}
	p.life, p.steps = LifeScripted, item.spec.Steps
	s.liveLocked(p)
	return p
}

// succeedLocked starts a purchase's named successor and ends it in its favour.
func (s *Sim) succeedLocked(old *purchase, item *scripted) {
	next := s.startScriptedLocked(item, old.now.ID)
	s.supersedeLocked(old, next.now.ID)
}

func (p *ScenarioPurchase) spec() Spec {
	amount, _ := paise(p.Amount) // checked by validate; 0 takes the default
	return Spec{
		Rail: p.Rail, Route: p.Route, State: p.State, UserTask: p.UserTask, MerchantName: p.Merchant,
		MerchantURL: p.MerchantURL, Amount: amount, Description: p.Description, Life: LifeScripted, Steps: p.Steps,
	}
}

// liveLocked puts the next move of a purchase's life on the agenda.
func (s *Sim) liveLocked(p *purchase) {
	var st Step
	switch p.life {
	case LifeScripted:
		if len(p.steps) == 0 {
			return
		}
		st = p.steps[0]
	case LifeHosted, LifeRandom:
		var ok bool
		if st, ok = s.nextStep(p); !ok {
			return
		}
	case LifeManual:
		return
	}
	s.laterLocked(st.After, p, func() {
		if p.life == LifeScripted {
			p.steps = p.steps[1:]
		}
		s.playLocked(p, st)
		s.liveLocked(p)
	})
}
