package envoy

import (
	"bytes"
	"encoding/json"
	"time"
)

// envelope is the part of a reply that every tool shares. Purchase and data are
// not decoded yet; whoever wants them does that.
type envelope struct {
	meta       Meta
	ok         bool
	tool       string
	purchase   int // none when null
	data       int // none when null
	next       Next
	userAction *UserAction
	origin     string
	failure    *failure
}

// failure is the error member.
type failure struct {
	code      Code
	fields    []string
	retryable bool
	after     *int64
}

// envelope decodes all but purchase and data. Each member that the contract
// requires has to be there with its type, also those that are not kept.
func (d *decoder) envelope() *envelope {
	o := d.object("", root)
	e := &envelope{ok: o.flag("ok")}
	o.need("contract", kindString) // never branched on
	e.tool = o.word("tool")
	e.meta.RequestID = d.support(o.text("request_id"))
	e.meta.TraceID = d.support(o.text("trace_id"))
	e.meta.ServerTime = o.moment("server_time")
	o.need("replayed", kindBool)
	e.purchase = o.nullable("purchase", kindObject)
	e.data = o.nullable("data", kindObject)
	e.next = o.next("next")
	e.userAction = o.userAction("user_action")
	if v := o.optional("origin", kindString); v != none {
		e.origin = d.unquote(v)
	}
	o.optional("follow_ups", kindArray) // not ours to follow, not decoded
	e.failure = o.failure("error")
	switch {
	case e.ok && e.failure != nil:
		d.fail("error", "is set although ok is true")
	case !e.ok && e.failure == nil:
		d.fail("error", "is null although ok is false")
	}
	o.close()
	return e
}

// support keeps an id for support if it is one. It is printed in errors, so it
// may hold nothing that a log would trip over.
func (d *decoder) support(id string) string {
	if len(id) > 128 {
		d.unknown++
		return ""
	}
	for i := range len(id) {
		if c := id[i]; !wordByte(c) && c != '-' && c != '.' && c != ':' {
			d.unknown++
			return ""
		}
	}
	return id
}

func (o object) next(name string) Next {
	c := o.child(name)
	n := Next{Action: c.word("action"), Tool: c.wordOrNull("tool")}
	args := c.nullable("args", kindObject)
	c.need("instruction", kindString)
	n.AfterSeconds = c.countOrNull("after_seconds")
	n.By = c.momentOrNull("by")
	c.close()
	// Arguments of the agent's own tools can carry what the user said; nobody
	// here could use them.
	if n.Tool == nil || *n.Tool != string(ToolStatus) || args == none {
		return n
	}
	if raw := o.d.raw(args); len(raw) <= maxArgBytes {
		n.Args = json.RawMessage(bytes.Clone(raw))
	}
	return n
}

func (o object) userAction(name string) *UserAction {
	if o.nullable(name, kindObject) == none {
		return nil
	}
	c := o.child(name)
	u := &UserAction{Task: c.word("task")}
	c.nullable("url", kindString)
	u.By = c.momentOrNull("by")
	u.Message = c.text("message")
	c.close()
	return u
}

func (o object) failure(name string) *failure {
	if o.nullable(name, kindObject) == none {
		return nil
	}
	c := o.child(name)
	f := &failure{code: Code(c.word("code"))}
	c.need("message", kindString) // text of the far side, which may repeat ours
	o.d.elements(c.need("fields", kindArray), func(v int) {
		p := o.d.object("fields", v)
		path := p.text("path")
		p.need("problem", kindString)
		p.nullable("expected", kindString)
		p.close()
		if pointer(path) && len(f.fields) < 10 {
			f.fields = append(f.fields, path)
		}
	})
	c.nullable("reason_code", kindString)
	f.retryable = c.flag("retryable")
	f.after = c.countOrNull("retry_after_seconds")
	c.close()
	return f
}

// pointer tells whether a field's path is a plain JSON pointer, and so cannot
// carry a value.
func pointer(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !wordByte(c) && c != '/' && c != '.' && c != '-' && c != '[' && c != ']' {
			return false
		}
	}
	return true
}

// refusal turns a reply with ok false into an *Error.
func (e *envelope) refusal(tool Tool) *Error {
	var after time.Duration
	switch {
	case e.next.AfterSeconds != nil:
		after = seconds(*e.next.AfterSeconds)
	case e.failure.after != nil:
		after = seconds(*e.failure.after)
	}
	return &Error{
		Tool: tool, Code: e.failure.code, Retryable: e.failure.retryable, After: after,
		Fields: e.failure.fields, Meta: e.meta,
	}
}
