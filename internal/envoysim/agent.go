package envoysim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Agent is a simulated agent host: it starts purchases with its token, answers, pays, reports, cancels and retries. The
// user behind it is simulated along with it.
type Agent struct {
	Token string
	// Every is the mean pause between two purchases; 0 means 10 s.
	Every time.Duration
	// Purchases ends it after so many; 0 means never.
	Purchases int
	// Rails are those it uses; empty means all four.
	Rails []Rail
}

type agentLife struct {
	Agent
	token *token
	made  int
	last  *purchase
	rng   *rand.Rand
}

// AddAgent lets a simulated agent work with a token. It needs Run, Step or Advance to happen.
func (s *Sim) AddAgent(a Agent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[a.Token]
	if !ok || t.revoked {
		return fmt.Errorf("add agent: %w", ErrNoToken)
	}
	if a.Every < 0 || a.Purchases < 0 {
		return errors.New("add agent: a number is negative")
	}
	if a.Every == 0 {
		a.Every = 10 * time.Second
	}
	if len(a.Rails) == 0 {
		a.Rails = []Rail{OTUCard, OTUCard, OperatedCheckout, OperatedCheckout, GiftCard, ElixirMarketplace}
	}
	g := &agentLife{Agent: a, token: t, rng: rand.New(rand.NewPCG(s.opts.Seed, mix(uint64(len(s.tokens)))))}
	s.agents = append(s.agents, g)
	s.goOnLocked(g)
	return nil
}

// Finished reports whether every agent has made all its purchases and each has ended. It looks at all of them.
func (s *Sim) Finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.agents {
		if g.Purchases == 0 || g.made < g.Purchases {
			return false
		}
	}
	for _, p := range s.order {
		if !p.now.State.Terminal() {
			return false
		}
	}
	return true
}

// goOnLocked puts the agent's next purchase on the agenda.
func (s *Sim) goOnLocked(g *agentLife) {
	if g.Purchases > 0 && g.made >= g.Purchases {
		return
	}
	s.laterLocked(between(g.rng, g.Every/2, g.Every/2+g.Every+1), nil, func() {
		// A user has one purchase at a time; the agent comes back later.
		if !g.token.revoked && g.token.user.activeLocked() == nil {
			g.made++
			g.last = s.startLocked(g.token, g.wish())
		}
		s.goOnLocked(g)
	})
}

// wish makes up the next purchase: a retry of the last one if that failed at the shop, else something new.
func (g *agentLife) wish() Spec {
	r := g.rng
	shop := shopAt(r.IntN(5))
	spec := Spec{
		MerchantName: shop.Name, MerchantURL: shop.URL, Amount: 10_000 + r.Int64N(4_000_000), Life: LifeRandom,
		Rail: g.Rails[r.IntN(len(g.Rails))], Description: thingAt(r.IntN(5)),
	}
	if g.last != nil && g.last.now.State == Failed && g.last.now.ReasonCode == "ORDER_CARD_NOT_ACCEPTED" {
		spec.RetryOf, spec.Rail = g.last.now.ID, OperatedCheckout
		spec.MerchantName, spec.MerchantURL = g.last.now.MerchantName, g.last.now.MerchantURL
		spec.Amount, spec.Description = g.last.now.Amount, g.last.now.Description
		return spec
	}
	switch spec.Rail {
	case GiftCard:
		spec.UserTask = PayLink
		if r.IntN(3) == 0 {
			spec.UserTask = Approve
		}
		if r.IntN(5) == 0 {
			spec.Route = ByEnvoy
		}
	case OperatedCheckout, ElixirMarketplace:
		if r.IntN(3) == 0 {
			spec.UserTask = EnterOTP
		}
	case OTUCard:
	}
	switch r.IntN(10) {
	case 0:
		spec.State = NeedsDetails
	case 1:
		spec.State, spec.Rail, spec.Route = Processing, "", ""
	case 2:
		spec.UserTask = AddMoney
		if spec.Rail == GiftCard {
			spec.UserTask = PayLink
		}
	}
	return spec
}

func shopAt(i int) wireMerchant {
	switch i {
	case 0:
		return wireMerchant{"Example Store", "https://shop.example.test"}
	case 1:
		return wireMerchant{"Spice & Sons <Retail>", "https://spice.example.test/cart?session=1"}
	case 2:
		return wireMerchant{"राम ट्रेडर्स", "https://ram.example.test"}
	case 3:
		return wireMerchant{"Books *and* _more_", "https://books.example.test/"}
	default:
		return wireMerchant{"Example Pharmacy", "https://pharmacy.example.test"}
	}
}

func thingAt(i int) string {
	switch i {
	case 0:
		return "Headphones"
	case 1:
		return "Whey protein, 1 kg"
	case 2:
		return "Two train tickets"
	case 3:
		return "A <b>very</b> good book"
	default:
		return ""
	}
}
