package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a configuration file. Line and Column count from 1; 0 means not known.
type Pos struct {
	File   string
	Line   int
	Column int
}

// IsZero reports whether no place is known.
func (p Pos) IsZero() bool { return p == Pos{} }

// String writes FILE:LINE:COLUMN, without the parts that are not known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one mistake in a configuration. No part of it repeats a secret.
type Error struct {
	File    string
	Line    int    // from 1; 0: not known
	Column  int    // from 1; 0: not known
	Path    string // of the value, as in sinks[1].retry; empty for the whole file
	Problem string // what is wrong
	Hint    string // what to do; may be empty
}

// Error writes the mistake in one line.
func (e Error) Error() string {
	var b strings.Builder
	if at := e.At().String(); at != "" {
		b.WriteString(at + ": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// At is the place of the mistake.
func (e Error) At() Pos { return Pos{File: e.File, Line: e.Line, Column: e.Column} }

// Errors are all mistakes of a configuration, in the order of the file.
type Errors []Error

// Error writes one line per mistake.
func (e Errors) Error() string {
	lines := make([]string, 0, len(e))
	for _, mistake := range e {
		lines = append(lines, mistake.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the mistakes to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, 0, len(e))
	for _, mistake := range e {
		all = append(all, mistake)
	}
	return all
}

// orNil sorts the mistakes and gives them as an error, or nil when there are none.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}
