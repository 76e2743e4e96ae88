package webhook

import (
	"errors"
	"fmt"
	"slices"
	"text/template"
	"text/template/parse"
)

// What one rendering may do. A template of the longest event stays far below; one
// that loops or doubles its text without writing anything would not end by itself.
const (
	maxTemplate = 256 << 10 // bytes of a template's text
	maxSteps    = 10_000    // turns of loops, calls of templates and of functions
	maxText     = 16 << 20  // bytes that functions make, written or not
)

// meter bounds one rendering.
type meter struct {
	steps, text int          // what is left
	stopped     func() error // why to stop at once; nil: go on
}

func newMeter(stopped func() error) *meter {
	return &meter{steps: maxSteps, text: maxText, stopped: stopped}
}

// spend takes one step and some bytes of text.
func (m *meter) spend(bytes int) error {
	m.steps--
	m.text -= bytes
	switch {
	case m.steps < 0:
		return errors.New("the template does not come to an end: too many loops and calls")
	case m.text < 0:
		return errors.New("the template makes too much text")
	}
	return m.stopped()
}

// step is the function that metered templates call where they could go round.
const step = "step"

func (m *meter) step() (string, error) { return "", m.spend(0) }

// metered puts a call of step at the beginning of every loop and template, since
// the execution of a template cannot be stopped from outside.
func metered(t *template.Template) error {
	call, err := template.New(step).Funcs(template.FuncMap{step: func() string { return "" }}).Parse("{{" + step + "}}")
	if err != nil {
		return err
	}
	node := call.Root.Nodes[0]
	for _, one := range t.Templates() {
		if one.Tree != nil && one.Root != nil {
			if err := unmetered(one.Root); err != nil {
				return err
			}
			meterLoops(one.Root, node)
			begin(one.Root, node)
		}
	}
	return nil
}

func begin(l *parse.ListNode, call parse.Node) { l.Nodes = slices.Insert(l.Nodes, 0, call.Copy()) }

func meterLoops(l *parse.ListNode, call parse.Node) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			meterLoops(n.List, call)
			meterLoops(n.ElseList, call)
			begin(n.List, call)
		case *parse.IfNode:
			meterLoops(n.List, call)
			meterLoops(n.ElseList, call)
		case *parse.WithNode:
			meterLoops(n.List, call)
			meterLoops(n.ElseList, call)
		}
	}
}

// unmetered refuses methods of times that make any text of any text: nothing could
// charge for them.
func unmetered(node parse.Node) error {
	var names []string
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		return unmeteredAll(n.Nodes)
	case *parse.ActionNode:
		return unmetered(n.Pipe)
	case *parse.TemplateNode:
		return unmetered(n.Pipe)
	case *parse.RangeNode:
		return unmeteredAll([]parse.Node{n.Pipe, n.List, n.ElseList})
	case *parse.IfNode:
		return unmeteredAll([]parse.Node{n.Pipe, n.List, n.ElseList})
	case *parse.WithNode:
		return unmeteredAll([]parse.Node{n.Pipe, n.List, n.ElseList})
	case *parse.PipeNode:
		if n == nil {
			return nil
		}
		for _, c := range n.Cmds {
			if err := unmeteredAll(c.Args); err != nil {
				return err
			}
		}
	case *parse.ChainNode:
		if err := unmetered(n.Node); err != nil {
			return err
		}
		names = n.Field
	case *parse.FieldNode:
		names = n.Ident
	case *parse.VariableNode:
		names = n.Ident
	}
	for _, name := range names {
		if name == "Format" || name == "AppendFormat" {
			return fmt.Errorf("it calls %s; use the function time, or the values of .Facts", name)
		}
	}
	return nil
}

func unmeteredAll(nodes []parse.Node) error {
	for _, n := range nodes {
		if err := unmetered(n); err != nil {
			return err
		}
	}
	return nil
}
