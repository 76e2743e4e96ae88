package envoysim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// user is one account holder: a profile, purchases, and money.
type user struct {
	id    string
	name  string
	phone string
	email string
	house string

	balance int64
	all     []*purchase
	open    []*purchase // in the order they were made; ended ones are cut off at the end
	byKey   map[string]*purchase
	held    []*purchase // those with open card money, the oldest first
	heldSum int64
	books   []transaction
	answers map[string]string // idempotency key of an answer to the answer
	rng     *rand.Rand        // chance of replies that are about no one purchase
}

// token is one connection: a user seen through one agent host.
type token struct {
	value   string
	user    *user
	agent   AgentIdentity
	revoked bool
	proof   func(method, url string, body []byte, proof string) bool

	admitted window // requests that the limit let through
	counts   Counters
	recent   window // all requests
	lastLook time.Time
	lastShow string // the purchase that the last look showed; empty: none
}

// AddUser makes sure that the user exists. Profile and addresses are made up, and canaries.
func (s *Sim) AddUser(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.userLocked(id)
}

func (s *Sim) userLocked(id string) *user {
	if u, ok := s.users[id]; ok {
		return u
	}
	h := fnv.New64a()
	h.Write([]byte(id)) // a hash never fails to write
	n, r := s.mint.next()
	u := &user{
		id: id, balance: 25_000_000,
		name:  s.mint.keep(fmt.Sprintf("Canary Asha Rao %04d", n)),
		phone: s.mint.keep(fmt.Sprintf("+9199%08d", n*7919%100_000_000)),
		email: s.mint.keep(fmt.Sprintf("canary.asha.%04d@example.test", n)),
		house: s.mint.keep(fmt.Sprintf("Flat %04d-%04x, Canary House", n, uint16(r))),
		byKey: map[string]*purchase{}, answers: map[string]string{},
		rng: rand.New(rand.NewPCG(s.opts.Seed, h.Sum64())),
	}
	s.users[id] = u
	return u
}

// AddToken makes a bearer token for a user seen through an agent host, and the user if need be.
func (s *Sim) AddToken(userID, agentID string) string {
	value := s.mint.token()
	s.SetToken(userID, agentID, value)
	return value
}

// SetToken is AddToken with the caller's own token value. A token that existed is replaced.
func (s *Sim) SetToken(userID, agentID, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.tokens[value]; !known {
		s.mint.keep(value)
	}
	s.tokens[value] = &token{
		value: value, user: s.userLocked(userID), counts: Counters{ByTool: map[string]int{}, Errors: map[ErrorCode]int{}},
		agent: AgentIdentity{ID: agentID, DisplayName: "Simulated host", Verification: "origin"},
	}
}

// Revoke makes a token fail authentication from now on. A hold that it has open ends when its time is over.
func (s *Sim) Revoke(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[value]; ok {
		t.revoked = true
	}
}

// Rotate revokes a token and returns a new one for the same user and host; empty if there was no such token.
func (s *Sim) Rotate(value string) string {
	s.mu.Lock()
	t, ok := s.tokens[value]
	s.mu.Unlock()
	if !ok {
		return ""
	}
	s.Revoke(value)
	fresh := s.AddToken(t.user.id, t.agent.ID)
	s.BindKey(fresh, t.proof)
	return fresh
}

// BindKey makes a token key-bound: each request must carry an Envoy-Installation-Proof header that check accepts. A
// nil check unbinds it. The body is the exact bytes of the request.
func (s *Sim) BindKey(value string, check func(method, url string, body []byte, proof string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[value]; ok {
		t.proof = check
	}
}

// Tokens lists the valid tokens of a user in no order.
func (s *Sim) Tokens(userID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for v, t := range s.tokens {
		if t.user.id == userID && !t.revoked {
			out = append(out, v)
		}
	}
	return out
}

// activeLocked is the user's newest open purchase, nil if none.
func (u *user) activeLocked() *purchase {
	for len(u.open) > 0 {
		last := u.open[len(u.open)-1]
		if !last.now.State.Terminal() {
			return last
		}
		u.open = u.open[:len(u.open)-1]
	}
	return nil
}

// find looks a purchase up by id or idempotency key, among the user's own.
func (s *Sim) findLocked(u *user, ref string) (*purchase, bool) {
	if p, ok := s.byID[ref]; ok {
		return p, p.owner == u
	}
	p, ok := u.byKey[ref]
	return p, ok
}
