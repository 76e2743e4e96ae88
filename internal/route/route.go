// Package route decides what a sink is told about an event: nothing, the event
// itself, or a step in the life of an alarm. It is pure: event, standing,
// subscriptions, silences and the present moment go in, a Decision comes out, so
// the same function serves the delivery loop, dry runs over stored history and
// explanations.
//
// Conditions are written in CEL. They see type, id, source, subject,
// connection, time, now, situation, state, money, unsettled, terminal, rail,
// checkout_by, reason_code, waiting_on, revision, cause, and the objects
// question (id, kind), merchant (name, url), amount (minor, currency, display),
// previous (id, revision, state, situation) and notice (kind, code, purchase_id,
// sink, count). Every one is always defined, and empty where the event lacks it.
package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spec is a subscription as configured.
type Spec struct {
	Name   string
	Match  string        // CEL, bool
	Urgent string        // CEL, bool; empty: never
	For    time.Duration // how long the match must hold before the alarm opens
	Repeat time.Duration // remind so often while it lasts; zero: never
	// Resolve: tell when it ends, to those who were told that it began.
	Resolve bool
	Sinks   []string
}

// CompileError is a subscription, or an expression, that is refused.
type CompileError struct {
	Subscription string // empty for an expression that stands alone
	Field        string // match, urgent, name, for, repeat, sinks
	Line         int    // in the text of the expression, from 1
	Column       int    // in characters, from 1
	Problem      string
}

// Error gives the place and the problem in one line.
func (e *CompileError) Error() string {
	var b strings.Builder
	if e.Subscription != "" {
		fmt.Fprintf(&b, "subscription %q: ", e.Subscription)
	}
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.Field, e.Line, e.Column, strings.ReplaceAll(e.Problem, "\n", " "))
	return b.String()
}

// Set is a compiled list of subscriptions. It does not change and is safe for
// concurrent use.
type Set struct {
	bySink map[string][]*subscription
}

// subscription is a Spec with its conditions compiled.
type subscription struct {
	Spec
	match  *Program
	urgent *Program // nil: never
}

// alarm reports whether the subscription keeps alarms rather than pass events on.
func (s *subscription) alarm() bool { return s.For > 0 || s.Repeat > 0 || s.Resolve }

// Compile compiles subscriptions, kept in their order. All mistakes are
// gathered: the error joins one *CompileError each.
func Compile(specs []Spec) (*Set, error) {
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	set := &Set{bySink: map[string][]*subscription{}}
	seen := map[string]bool{}
	var all []error
	for _, spec := range specs {
		all = append(all, check(spec, seen)...)
		s := &subscription{Spec: spec}
		if s.match, err = c.compile(spec.Name, "match", spec.Match); err != nil {
			all = append(all, err)
		}
		if spec.Urgent != "" {
			if s.urgent, err = c.compile(spec.Name, "urgent", spec.Urgent); err != nil {
				all = append(all, err)
			}
		}
		for i, sink := range spec.Sinks {
			if !slices.Contains(spec.Sinks[:i], sink) {
				set.bySink[sink] = append(set.bySink[sink], s)
			}
		}
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return set, nil
}

// check finds the mistakes of a subscription that are not in its expressions.
func check(spec Spec, seen map[string]bool) []error {
	var all []error
	refuse := func(field, problem string) {
		all = append(all, &CompileError{Subscription: spec.Name, Field: field, Line: 1, Column: 1, Problem: problem})
	}
	if spec.Name == "" {
		refuse("name", "the subscription has no name")
	}
	if spec.Name != "" && seen[spec.Name] {
		refuse("name", "another subscription has this name")
	}
	seen[spec.Name] = true
	if spec.For < 0 {
		refuse("for", "the time is negative")
	}
	if spec.Repeat < 0 {
		refuse("repeat", "the time is negative")
	}
	if len(spec.Sinks) == 0 {
		refuse("sinks", "the subscription has no sink")
	}
	return all
}

// Alarms reports whether any subscription of the sink keeps alarms.
func (s *Set) Alarms(sink string) bool {
	return s != nil && slices.ContainsFunc(s.bySink[sink], (*subscription).alarm)
}

// Sinks names the sinks that have a subscription, sorted.
func (s *Set) Sinks() []string {
	names := make([]string, 0, len(s.bySink))
	for name := range s.bySink {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CompileErrors gives every *CompileError that an error of this package joins.
func CompileErrors(err error) []*CompileError {
	if one, ok := err.(*CompileError); ok { //nolint:errorlint // the tree is walked by hand to find all of them
		return []*CompileError{one}
	}
	var all []*CompileError
	switch e := err.(type) { //nolint:errorlint // the same
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, CompileErrors(one)...)
		}
	case interface{ Unwrap() error }:
		all = CompileErrors(e.Unwrap())
	}
	return all
}
