// Package envoysim acts out the Envoy HTTP API, contract envoy@2026-10, for tests, demos and benchmarks.
//
// It is faithful to the contract and not friendly. No page publishes which state follows which, so the simulator
// takes every liberty that the pages leave open: see Quirks. It shares no type with Herald's own client, so that one
// misreading of the contract cannot hide in both.
//
// # The pieces
//
// A Sim has users. A user has tokens, one for each agent host, and purchases, of which one at a time may be active.
// A purchase has a truth (Purchase), a history of what was visible when (Reading), and a ledger entry (Entry) that says
// where its money really is. Replies are drawn from the truth but may lag behind it; tests judge by the truth.
//
// Three things move a purchase: the tools an agent calls over HTTP, a life (a scenario's steps, or random ones), and
// a test's own hand through Transition, Amend, Put and SetLedger.
//
// # Time
//
// The delays of simulated people are divided by Options.Speed and kept in one agenda. Run works the agenda off by
// timers; Step and Advance do it by hand, jumping over the time between. Without either nothing moves by itself. Holds
// and rate windows run in the Clock's time and are not sped up. Nothing is started in the background, so a Sim needs no
// closing and works inside a testing/synctest bubble.
//
// # Randomness
//
// All chance comes from Options.Seed. Each purchase has a stream of its own for its life and another for its replies,
// so the lives do not depend on when and how often somebody asks, unless the asking itself changes the world.
//
// # Reading is not harmless
//
// A get_purchase_status reply about a ready purchase releases payment details: a new checkout attempt with a new card
// each time, and for a gift card it begins the gift-card checkout. GuiltyReads tells of each, with what the caller
// could have known before. Every secret given out is a canary: Canaries lists them for a search elsewhere.
//
// # Faults
//
// Inject makes replies fail on demand: by token, purchase and tool, so many times or with a probability.
//
// A test in short:
//
//	sim, err := envoysim.New(envoysim.Options{Seed: 1})
//	token := sim.AddToken("asha", "origin:https://host.example.test")
//	server := httptest.NewServer(sim.Handler())
//	id, err := sim.Start(token, envoysim.Spec{Rail: envoysim.OperatedCheckout})
//	sim.Transition(id, func(p *envoysim.Purchase) { p.State = envoysim.Processing })
package envoysim
