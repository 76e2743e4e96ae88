package envoysim

import (
	"slices"
	"time"
)

// FaultKind is a way for a reply to go wrong.
type FaultKind string

// The kinds of fault. The first group takes the place of the tool, so nothing in the world changes; the second lets the
// tool work and spoils what is sent.
const (
	FaultError     FaultKind = "error"      // an error envelope: Code, Retryable, Wait
	FaultSlow      FaultKind = "slow"       // the tool works after Delay
	FaultReset     FaultKind = "reset"      // the connection is reset after Delay, as in the middle of a hold
	FaultHTML      FaultKind = "html"       // a proxy's page with Status (502 if 0)
	FaultNoContent FaultKind = "no_content" // Status (204 if 0; 304 is the other useful one) without a body
	FaultImmediate FaultKind = "immediate"  // a hold is answered at once

	FaultCut           FaultKind = "cut"            // half of the JSON, then the connection ends
	FaultForeign       FaultKind = "foreign"        // a snapshot of another purchase
	FaultLowerRevision FaultKind = "lower_revision" // the revision before, or By below
	FaultUnknownWord   FaultKind = "unknown_word"   // Field holds Word (purchase.state, "hibernating" if empty)
	FaultMissingField  FaultKind = "missing_field"  // Field is left out (purchase.revision if empty)
	FaultHuge          FaultKind = "huge"           // a valid envelope blown up to Size bytes (10 MiB if 0)
	FaultRewrite       FaultKind = "rewrite"        // Rewrite edits the decoded reply
)

// Fault says which requests go wrong, how, and how often.
type Fault struct {
	Kind FaultKind

	// Token, Purchase (an id) and Tool narrow it down; empty means any.
	Token    string
	Purchase string
	Tool     string
	// Count ends the fault after so many requests; 0 means never.
	Count int
	// Probability lets some requests pass; 0 means that none does.
	Probability float64

	Code      ErrorCode     // FaultError
	Retryable bool          // FaultError
	Wait      time.Duration // FaultError: what the reply tells the caller to wait; below 0 nothing
	Status    int           // FaultHTML, FaultNoContent
	// Delay passes before the first group strikes. A held read that is answered sooner escapes.
	Delay   time.Duration
	By      int    // FaultLowerRevision; 0 means 1
	Field   string // FaultUnknownWord, FaultMissingField: names joined by dots
	Word    string // FaultUnknownWord
	Size    int    // FaultHuge, in bytes
	Rewrite func(reply map[string]any)
}

type fault struct {
	Fault
	left int
}

// Inject makes requests fail as f says until remove is called. The fault injected first is tried first; one request
// meets one fault at the most. Faults strike after authentication, limit and validation.
func (s *Sim) Inject(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &fault{Fault: f, left: f.Count}
	s.faults = append(s.faults, in)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removeFaultLocked(in)
	}
}

// removeFaultLocked makes a new list, since a request may be reading the old one.
func (s *Sim) removeFaultLocked(in *fault) {
	s.faults = slices.DeleteFunc(slices.Clone(s.faults), func(f *fault) bool { return f == in })
}

func (s *Sim) pickFault(c *call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 {
		return nil
	}
	id := ""
	if p, ok := s.findLocked(c.tok.user, c.str("purchase")); ok {
		id = p.now.ID
	}
	for _, f := range s.faults {
		if !f.meets(c, id) || (f.Probability > 0 && !chance(s.rng, f.Probability)) {
			continue
		}
		if f.Count > 0 {
			if f.left--; f.left == 0 {
				s.removeFaultLocked(f)
			}
		}
		picked := f.Fault
		return &picked
	}
	return nil
}

func (f *fault) meets(c *call, id string) bool {
	return (f.Token == "" || f.Token == c.tok.value) && (f.Tool == "" || f.Tool == c.tool) &&
		(f.Purchase == "" || f.Purchase == id)
}
