package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	specVersion = "1.0"
	contentType = "application/json"
)

// ErrBadEvent is wrapped by every refusal of a document that is no event of ours.
var ErrBadEvent = errors.New("not an event")

var errNoObject = errors.New("data is no object")

// document is an event as CloudEvents 1.0 writes it in structured mode.
type document struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            Type      `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time,omitzero"`
	DataContentType string    `json:"datacontenttype"`
	TraceParent     string    `json:"traceparent,omitempty"`
	Data            any       `json:"data"`
}

// Encode writes e as a CloudEvents 1.0 document in structured mode. It refuses
// an event whose data does not go with its type.
func Encode(e Event) ([]byte, error) {
	d := document{SpecVersion: specVersion, ID: e.ID, Source: e.Source, Type: e.Type, Subject: e.Subject,
		Time: e.Time, DataContentType: contentType, TraceParent: e.TraceParent}
	switch {
	case e.Type == TypeNotice && e.Notice != nil && e.Purchase == nil:
		d.Data = e.Notice
	case (e.Type == TypeChanged || e.Type == TypeOverdue) && e.Purchase != nil && e.Notice == nil:
		d.Data = e.Purchase
	default:
		return nil, fmt.Errorf("encode %q: data does not go with type %q: %w", e.ID, e.Type, ErrBadEvent)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // readers of a subject see the text as it is; sinks escape for their own format
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encode %q: %w", e.ID, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// MarshalJSON writes e as Encode does.
func (e Event) MarshalJSON() ([]byte, error) { return Encode(e) }

// Document is the bytes of a document that hold nothing but what its Event
// holds: each member is one that this version knows, and is there once. So it may
// be sent on as it is. Only Read makes one; the zero value has no bytes.
type Document struct{ bytes []byte }

// Bytes are the document's, not to be changed; nil: there are none, and what is
// sent is written from the Event.
func (d Document) Bytes() []byte { return d.bytes }

// Decode reads a document as Encode writes it. It is strict about the envelope
// and passes over members that it does not know, since newer writers may add some.
func Decode(data []byte) (Event, error) {
	e, _, err := Read(data)
	return e, err
}

// Read is Decode, and gives the document back where it holds no more than the
// event. The document shares data.
func Read(data []byte) (Event, Document, error) {
	e, whole, err := read(data, json2.RejectUnknownMembers(true))
	if errors.Is(err, json2.ErrUnknownName) {
		e, _, err = read(data)
		whole = false
	}
	if err != nil || !whole {
		return e, Document{}, err
	}
	return e, Document{data}, nil
}

// read also tells whether the event has all that was read.
func read(data []byte, opts ...json2.Options) (e Event, whole bool, err error) {
	var d document
	into := payload{of: &d.Type}
	d.Data = &into
	if err := json2.Unmarshal(data, &d, opts...); err != nil {
		return Event{}, false, fmt.Errorf("decode document: %w: %w", ErrBadEvent, err)
	}
	if err := d.check(); err != nil {
		return Event{}, false, fmt.Errorf("decode envelope: %w: %w", ErrBadEvent, err)
	}
	if err := into.late(opts); err != nil {
		return Event{}, false, fmt.Errorf("decode data: %w: %w", ErrBadEvent, err)
	}
	e = Event{ID: d.ID, Source: d.Source, Type: d.Type, Subject: d.Subject, Time: d.Time.UTC(),
		TraceParent: traceParent(d.TraceParent), Purchase: into.purchase, Notice: into.notice}
	if d.Time.IsZero() {
		e.Time = time.Time{}
	}
	return e, e.TraceParent == d.TraceParent, nil
}

// payload is the data of a document that is being read. Which kind it is depends
// on the type, which our writers put before it: then it is decoded where it
// stands, and the document is read once. Otherwise it is kept until the end.
type payload struct {
	of       *Type
	kept     jsontext.Value
	purchase *Purchase
	notice   *Notice
}

// UnmarshalJSONFrom reads data at its place in the document.
func (p *payload) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return errNoObject
	}
	if *p.of == "" {
		value, err := dec.ReadValue()
		p.kept = value.Clone()
		return err
	}
	return json2.UnmarshalDecode(dec, p.target())
}

// late decodes what was kept.
func (p *payload) late(opts []json2.Options) error {
	switch {
	case p.kept != nil:
		return json2.Unmarshal(p.kept, p.target(), opts...)
	case p.purchase == nil && p.notice == nil:
		return errNoObject
	}
	return nil
}

func (p *payload) target() any {
	if *p.of == TypeNotice {
		p.notice = new(Notice)
		return p.notice
	}
	p.purchase = new(Purchase)
	return p.purchase
}

// UnmarshalJSON reads a document as Decode does.
func (e *Event) UnmarshalJSON(data []byte) error {
	d, err := Decode(data)
	if err != nil {
		return err
	}
	*e = d
	return nil
}

// check tells what is wrong with the envelope, apart from its data.
func (d document) check() error {
	connection, ours := strings.CutPrefix(d.Source, sourcePrefix)
	switch {
	case d.SpecVersion != specVersion:
		return fmt.Errorf("specversion %.16q", d.SpecVersion)
	case !ValidEventID(d.ID):
		return fmt.Errorf("id %.64q", d.ID)
	case !ours || !ValidConnection(connection):
		return fmt.Errorf("source %.80q", d.Source)
	case d.DataContentType != contentType:
		return fmt.Errorf("datacontenttype %.32q", d.DataContentType)
	}
	switch d.Type {
	case TypeChanged, TypeOverdue:
		if !ValidPurchaseID(d.Subject) {
			return fmt.Errorf("subject %.64q", d.Subject)
		}
	case TypeNotice:
		if d.Subject != "" {
			return fmt.Errorf("subject %.64q on a notice", d.Subject)
		}
	default:
		return fmt.Errorf("type %.64q", d.Type)
	}
	return nil
}
