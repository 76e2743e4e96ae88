package envoysim_test

import (
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// A scenario worked off by hand, without a server and without waiting.
func Example() {
	sim, err := envoysim.New(envoysim.Options{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	token := sim.AddToken("asha", "origin:https://host.example.test")
	scenario, err := envoysim.LoadScenario("needs-support")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := sim.Play(token, scenario); err != nil {
		fmt.Println(err)
		return
	}
	sim.Advance(20 * time.Second)
	for _, r := range sim.Purchases() {
		fmt.Println(r.Purchase.State, r.Purchase.Money.Status, r.Ledger.Status)
	}
	// Output: failed not_started set_aside
}
