package envoysim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Cast says who is there and what they do, for programs that serve a Sim.
type Cast struct {
	// Tokens are the bearer tokens to accept, each with a user of its own; empty means three made-up ones.
	Tokens []string
	// Scenario is the name of a scenario that comes along, or of a file. Empty means random agents.
	Scenario string
	// Purchases ends each random agent after so many; 0 means never.
	Purchases int
}

// Populate makes the cast's users and tokens, gives each its scenario or agent, and returns the tokens.
func (s *Sim) Populate(c Cast) ([]string, error) {
	tokens := slices.Clone(c.Tokens)
	for len(c.Tokens) == 0 && len(tokens) < 3 {
		tokens = append(tokens, s.mint.token())
	}
	var sc Scenario
	if c.Scenario != "" {
		var err error
		if sc, err = readScenario(c.Scenario); err != nil {
			return nil, err
		}
	}
	for i, token := range tokens {
		host := "origin:https://host-" + strconv.Itoa(i+1) + ".example.test"
		s.SetToken("user-"+strconv.Itoa(i+1), host, token)
		var err error
		if c.Scenario != "" {
			err = s.Play(token, sc)
		} else {
			err = s.AddAgent(Agent{Token: token, Purchases: c.Purchases})
		}
		if err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

func readScenario(name string) (Scenario, error) {
	if slices.Contains(Scenarios(), name) {
		return LoadScenario(name)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return ParseScenario(raw)
}
