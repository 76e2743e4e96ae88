package webhook

import (
	"errors"
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
