package config

import "strings"

// checker gathers mistakes about values whose places are known.
type checker struct {
	cfg  *Config
	errs Errors
}

func (c *Config) checker() *checker { return &checker{cfg: c} }

// add records a mistake, unless the value could not even be read: one mistake needs one line.
func (k *checker) add(path, problem, hint string) {
	if k.cfg.unread(path) {
		return
	}
	at := k.cfg.At(path)
	k.errs = append(k.errs, Error{
		File: at.File, Line: at.Line, Column: at.Column, Path: path, Problem: problem, Hint: hint,
	})
}

// unread reports whether the value at the path, or one that holds it, was refused by the decoder.
func (c *Config) unread(path string) bool {
	for p := path; p != ""; p = parent(p) {
		if c.failed[p] {
			return true
		}
	}
	return false
}

// At gives the place of a value by its path, such as subscriptions[0].match. A value that the file leaves out has the
// place of what would hold it; without any the result names only the file.
func (c *Config) At(path string) Pos {
	for p := path; p != ""; p = parent(p) {
		if at, ok := c.places[p]; ok {
			return at
		}
	}
	return Pos{File: c.file}
}

// parent cuts the last step off a path: sinks[1].retry, sinks[1], sinks, "".
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}
