package envoysim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
)

// ErrActive says that the user has an open purchase already.
var ErrActive = errors.New("another purchase is active")

// ErrNoToken says that there is no such token, or that it was revoked.
var ErrNoToken = errors.New("no such token")

// Life says what moves a purchase by itself.
type Life string

// The four lives.
const (
	LifeManual   Life = ""         // nothing
	LifeScripted Life = "scripted" // its steps, one after the other
	LifeHosted   Life = "hosted"   // the user and Envoy at random; the agent is whoever calls the tools
	LifeRandom   Life = "random"   // user, Envoy and agent at random
)

// Spec describes a purchase to start. The zero value is a one-time-card purchase waiting for approval.
type Spec struct {
	Key          string // idempotency key; made up if empty
	Rail         Rail   // OTUCard if empty
	Route        Route  // the rail's own if empty
	State        State  // WaitingForUser if empty
	UserTask     UserTask
	MerchantName string
	MerchantURL  string
	Amount       int64 // paise; 249900 if 0
	Description  string
	RetryOf      string // id of the purchase that this one takes the place of
	Life         Life
	Steps        []Step // for LifeScripted
}

// Start begins a purchase for the token's user, as its agent would, and returns the id. It fails with ErrActive while
// the user has another one open.
func (s *Sim) Start(token string, spec Spec) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[token]
	if !ok || t.revoked {
		return "", fmt.Errorf("start purchase: %w", ErrNoToken)
	}
	if a := t.user.activeLocked(); a != nil && a.now.ID != spec.RetryOf {
		return "", fmt.Errorf("start purchase: %w", ErrActive)
	}
	if spec.Key != "" && t.user.byKey[spec.Key] != nil {
		return "", errors.New("start purchase: idempotency key exists")
	}
	return s.startLocked(t, spec).now.ID, nil
}

func (s *Sim) startLocked(t *token, spec Spec) *purchase {
	p := Purchase{
		Key: spec.Key, Agent: t.agent, Rail: spec.Rail, CheckoutBy: spec.Route, State: spec.State, UserTask: spec.UserTask,
		MerchantName: spec.MerchantName, MerchantURL: spec.MerchantURL, Amount: spec.Amount, Description: spec.Description,
	}
	if p.Rail == "" && p.State != Processing && p.State != NeedsDetails {
		p.Rail = OTUCard
	}
	if p.Amount == 0 {
		p.Amount = 249_900
	}
	old := s.byID[spec.RetryOf]
	if old != nil && old.owner == t.user {
		p.Supersedes = old.now.ID
	} else {
		old = nil
	}
	c := s.addLocked(t.user, p, spec.Life)
	c.steps = append([]Step(nil), spec.Steps...)
	if old != nil {
		s.supersedeLocked(old, c.now.ID)
		s.liveLocked(old)
	}
	s.liveLocked(c)
	return c
}

// supersedeLocked ends a purchase in favour of another, which it may fail to name. Its own money may stay open.
func (s *Sim) supersedeLocked(old *purchase, by string) {
	lost := chance(old.rng, s.opts.Quirks.LostSuccessor)
	s.changeLocked(old, func(n *Purchase) {
		n.State, n.SupersededBy = Superseded, by
		if lost {
			n.SupersededBy = ""
		}
	})
}

// maxTotal is the largest total, in paise, that any rail takes.
const maxTotal = 50_000_000

func (s *Sim) startPurchase(_ context.Context, c *call) *reply {
	spec, wrong := specOf(c)
	if len(wrong) > 0 {
		return s.invalid(c, wrong...)
	}
	canonical, err := json.Marshal(c.input)
	if err != nil {
		return s.invalid(c, wireField{Problem: "is not valid JSON"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := c.tok.user.byKey[spec.Key]; ok {
		if p.request != string(canonical) {
			return s.refuseLocked(c.tool, IdempotencyConflict, false, -1)
		}
		r := s.blankLocked(c.tool).show(&p.now)
		r.Replayed = true
		return r
	}
	if refused := s.mayStartLocked(c, &spec); refused != nil {
		return refused
	}
	if chance(s.rng, s.opts.Quirks.AsksDetails) {
		spec.State = NeedsDetails
	}
	p := s.startLocked(c.tok, spec)
	p.request = string(canonical)
	p.lastSeen[c.tok] = p.now.State
	return s.blankLocked(c.tool).show(&p.now)
}

// mayStartLocked refuses a purchase that no rail takes, that is not the user's to retry, or that would be a second one.
func (s *Sim) mayStartLocked(c *call, spec *Spec) *reply {
	if ref := spec.RetryOf; ref != "" {
		old, ok := s.findLocked(c.tok.user, ref)
		if !ok {
			return s.refuseLocked(c.tool, NotFound, false, -1)
		}
		st := old.now.State
		if st != Failed && (st != Verifying || old.now.ReasonCode == "") {
			return s.refuseLocked(c.tool, StateConflict, false, -1)
		}
		spec.RetryOf, spec.Rail = old.now.ID, OperatedCheckout
	}
	if a := c.tok.user.activeLocked(); a != nil && a.now.ID != spec.RetryOf {
		r := s.refuseLocked(c.tool, ActivePurchaseExists, false, -1)
		r.Error.ReasonCode = "POLICY_ACTIVE_PURCHASE_EXISTS"
		r.UserAction = &wireAction{Task: "resolve_active_purchase", Message: "Another purchase is in progress. See the Envoy app."}
		return r
	}
	if spec.Amount > maxTotal {
		r := s.refuseLocked(c.tool, NoRail, false, -1)
		r.Error.ReasonCode = "RAIL_AMOUNT_OUTSIDE_CARD_LIMITS"
		return r
	}
	return nil
}

// otuLimit is the largest total, in paise, for a one-time card.
const otuLimit = 5_000_000

func specOf(c *call) (Spec, []wireField) {
	total, ok := paise(c.str("total"))
	if !ok {
		return Spec{}, []wireField{{Path: "/total", Problem: "is out of range"}}
	}
	if limit, given := paise(c.str("max_total")); c.str("max_total") != "" && (!given || limit < total) {
		return Spec{}, []wireField{{Path: "/max_total", Problem: "is below the total"}}
	}
	u, err := merchantURL(c.str("merchant_url"))
	if err != nil {
		return Spec{}, []wireField{{Path: "/merchant_url", Problem: "is no address of a shop"}}
	}
	spec := Spec{
		Key: c.str("idempotency_key"), Rail: Rail(c.str("rail")), MerchantName: u.Hostname(), MerchantURL: u.String(),
		Amount: max(total, 1), Description: c.str("order_title"), RetryOf: c.str("retry_of"), Life: LifeHosted,
	}
	if items, ok := c.input["items"].([]any); ok && spec.Description == "" && len(items) > 0 {
		if item, ok := items[0].(map[string]any); ok {
			spec.Description, _ = item["name"].(string)
		}
	}
	switch {
	case spec.Rail == GiftCard:
		spec.UserTask = PayLink
	case spec.Rail != "":
	case strings.HasPrefix(spec.MerchantURL, elixirStore):
		spec.Rail = ElixirMarketplace
	case spec.Amount > otuLimit:
		spec.Rail = OperatedCheckout
	default:
		spec.Rail = OTUCard
	}
	return spec, nil
}

func merchantURL(raw string) (*url.URL, error) {
	lower := strings.ToLower(raw)
	switch {
	case strings.HasPrefix(lower, "https://"):
		raw = raw[len("https://"):]
	case strings.HasPrefix(lower, "http://"):
		raw = raw[len("http://"):]
	}
	return url.Parse("https://" + raw)
}

// paise reads a decimal amount of rupees exactly.
func paise(amount string) (int64, bool) {
	r, ok := new(big.Rat).SetString(amount)
	if !ok {
		return 0, false
	}
	r.Mul(r, big.NewRat(100, 1))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}
