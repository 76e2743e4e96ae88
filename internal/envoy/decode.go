package envoy

import (
	"bytes"
	"encoding/json"
	"time"
)

// envelope is the part of a reply that every tool shares. Purchase and data are
// still bytes of the buffer; whoever wants them decodes them.
type envelope struct {
	meta       Meta
	ok         bool
	tool       string
	purchase   []byte // nil when null
	data       []byte // nil when null
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
func (d *decoder) envelope(raw []byte) *envelope {
	o := d.object("", raw)
	e := &envelope{ok: o.flag("ok")}
	o.need("contract", kindString) // never branched on
	e.tool = o.word("tool")
	e.meta.RequestID = d.support(o.text("request_id"))
	e.meta.TraceID = d.support(o.text("trace_id"))
	e.meta.ServerTime = o.moment("server_time")
	o.need("replayed", kindBool)
	e.purchase = o.nullable("purchase", kindObject)
	e.data = o.nullable("data", kindObject)
	e.next = d.next(o.need("next", kindObject))
	e.userAction = d.userAction(o.nullable("user_action", kindObject))
	if v := o.optional("origin", kindString); v != nil {
		e.origin = unquote(v)
	}
	o.optional("follow_ups", kindArray) // not ours to follow, not decoded
	e.failure = d.failure(o.nullable("error", kindObject))
	o.close()
	switch {
	case e.ok && e.failure != nil:
		d.fail("error", "is set although ok is true")
	case !e.ok && e.failure == nil:
		d.fail("error", "is null although ok is false")
	}
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

func (d *decoder) next(raw []byte) Next {
	if raw == nil {
		return Next{}
	}
	o := d.object("next", raw)
	n := Next{Action: o.word("action"), Tool: o.wordOrNull("tool")}
	args := o.nullable("args", kindObject)
	o.need("instruction", kindString)
	n.AfterSeconds = o.countOrNull("after_seconds")
	n.By = o.momentOrNull("by")
	o.close()
	// Arguments of the agent's own tools can carry what the user said; nobody
	// here could use them.
	if n.Tool != nil && *n.Tool == string(ToolStatus) && args != nil && len(args) <= maxArgBytes {
		n.Args = json.RawMessage(bytes.Clone(args))
	}
	return n
}

func (d *decoder) userAction(raw []byte) *UserAction {
	if raw == nil {
		return nil
	}
	o := d.object("user_action", raw)
	u := &UserAction{Task: o.word("task")}
	o.nullable("url", kindString)
	u.By = o.momentOrNull("by")
	u.Message = o.text("message")
	o.close()
	return u
}

func (d *decoder) failure(raw []byte) *failure {
	if raw == nil {
		return nil
	}
	o := d.object("error", raw)
	f := &failure{code: Code(o.word("code"))}
	o.need("message", kindString) // text of the far side, which may repeat ours
	fields := o.need("fields", kindArray)
	elements(fields, func(v []byte) {
		p := d.object("error.fields", v)
		path := p.text("path")
		p.need("problem", kindString)
		p.nullable("expected", kindString)
		p.close()
		if pointer(path) && len(f.fields) < 10 {
			f.fields = append(f.fields, path)
		}
	})
	o.nullable("reason_code", kindString)
	f.retryable = o.flag("retryable")
	f.after = o.countOrNull("retry_after_seconds")
	o.close()
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
