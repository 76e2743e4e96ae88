package envoysim

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

// Scenario is a play for one user: purchases one after the other, each with its steps.
type Scenario struct {
	Name      string             `yaml:"name"`
	About     string             `yaml:"about"`
	Purchases []ScenarioPurchase `yaml:"purchases"`
}

// ScenarioPurchase is one purchase of a scenario.
type ScenarioPurchase struct {
	// Name is what a step's superseded_by calls it. A purchase named so starts with that step, not in its turn.
	Name        string        `yaml:"name"`
	Start       time.Duration `yaml:"start"` // after the one before has ended
	Rail        Rail          `yaml:"rail"`
	Route       Route         `yaml:"route"`
	Merchant    string        `yaml:"merchant"`
	MerchantURL string        `yaml:"merchant_url"`
	Amount      string        `yaml:"amount"` // rupees, such as "2499.00"
	Description string        `yaml:"description"`
	State       State         `yaml:"state"`
	UserTask    UserTask      `yaml:"user_task"`
	Steps       []Step        `yaml:"steps"`
}

type scripted struct {
	spec  Spec
	token *token
	named map[string]*scripted
}

// Scenarios lists the names of the scenarios that come with the package.
func Scenarios() []string {
	files, err := fs.Glob(scenarioFiles, "scenarios/*.yaml")
	if err != nil {
		return nil // the pattern is constant and good
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(f, "scenarios/"), ".yaml")
	}
	return files
}

// LoadScenario returns one of the scenarios that come with the package.
func LoadScenario(name string) (Scenario, error) {
	raw, err := scenarioFiles.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return Scenario{}, fmt.Errorf("find scenario %q (there are %s): %w", name, strings.Join(Scenarios(), ", "), err)
	}
	return ParseScenario(raw)
}

// ParseScenario reads a scenario strictly: an unknown key or word is an error with its place.
func ParseScenario(raw []byte) (Scenario, error) {
	var sc Scenario
	if err := yaml.UnmarshalWithOptions(raw, &sc, yaml.Strict()); err != nil {
		return Scenario{}, fmt.Errorf("decode scenario: %w", err)
	}
	return sc, sc.validate()
}

func (sc *Scenario) validate() error {
	if len(sc.Purchases) == 0 {
		return errors.New("check scenario: it has no purchases")
	}
	names, called := map[string]bool{}, map[string]bool{}
	for _, p := range sc.Purchases {
		names[p.Name] = true
		for _, st := range p.Steps {
			called[st.SupersededBy] = true
		}
	}
	var errs []error
	for i, p := range sc.Purchases {
		if err := p.validate(names); err != nil {
			errs = append(errs, fmt.Errorf("check purchases[%d]: %w", i, err))
		}
		if i < len(sc.Purchases)-1 && !p.ends() {
			errs = append(errs, fmt.Errorf("check purchases[%d]: it never ends, so the next one cannot start", i))
		}
	}
	return errors.Join(errs...)
}

func (p *ScenarioPurchase) ends() bool {
	for _, st := range p.Steps {
		if st.State.Terminal() {
			return true
		}
	}
	return false
}

func (p *ScenarioPurchase) validate(names map[string]bool) error {
	var errs []error
	if _, ok := paise(p.Amount); p.Amount != "" && !ok {
		errs = append(errs, fmt.Errorf("amount %q is no number of rupees with two decimals at the most", p.Amount))
	}
	errs = append(errs, known(p.State), knownRail(p.Rail), knownRoute(p.Route), knownTask(p.UserTask))
	for i, st := range p.Steps {
		for _, err := range []error{known(st.State), knownRail(st.Rail), knownRoute(st.Route), knownTask(st.UserTask), knownMoney(st)} {
			if err != nil {
				errs = append(errs, fmt.Errorf("steps[%d]: %w", i, err))
			}
		}
		if st.After < 0 || st.Deadline < 0 {
			errs = append(errs, fmt.Errorf("steps[%d]: a time is negative", i))
		}
		if st.SupersededBy != "" && !names[st.SupersededBy] {
			errs = append(errs, fmt.Errorf("steps[%d]: superseded_by names no purchase: %q", i, st.SupersededBy))
		}
	}
	return errors.Join(errs...)
}

func known(st State) error {
	switch st {
	case "", NeedsDetails, NeedsAnswer, WaitingForUser, Processing, Ready, Verifying, Completed, Failed, Cancelled, Superseded:
		return nil
	default:
		return fmt.Errorf("state %q is none of the contract", st)
	}
}

func knownRail(r Rail) error {
	switch r {
	case "", OTUCard, OperatedCheckout, ElixirMarketplace, GiftCard:
		return nil
	default:
		return fmt.Errorf("rail %q is none of the contract", r)
	}
}

func knownRoute(r Route) error {
	switch r {
	case "", ByAgent, ByEnvoy:
		return nil
	default:
		return fmt.Errorf("route %q is none of the contract", r)
	}
}

func knownTask(t UserTask) error {
	switch t {
	case "", Approve, EnterOTP, AddMoney, PayLink:
		return nil
	default:
		return fmt.Errorf("user_task %q is none of the contract", t)
	}
}

func knownMoney(st Step) error {
	switch st.Money {
	case "", NotStarted, MoneyUnknown, MoneyDebited, RefundPending, MoneyRefunded, MerchantCollects:
	default:
		return fmt.Errorf("money %q is none of the contract", st.Money)
	}
	switch st.Ledger {
	case "", LedgerNone, LedgerAuthorised, LedgerSetAside, LedgerDebited, LedgerRefunding, LedgerRefunded:
		return nil
	default:
		return fmt.Errorf("ledger %q is no place for money", st.Ledger)
	}
}
