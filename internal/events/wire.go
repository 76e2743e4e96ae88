package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	specVersion = "1.0"
	contentType = "application/json"
)

// ErrBadEvent is wrapped by every refusal of a document that is no event of ours.
var ErrBadEvent = errors.New("not an event")

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

// Decode reads a document as Encode writes it. It is strict about the envelope
// and passes over members that it does not know, since newer writers may add some.
func Decode(data []byte) (Event, error) {
	var raw json.RawMessage
	d := document{Data: &raw}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&d); err != nil {
		return Event{}, fmt.Errorf("decode envelope: %w: %w", ErrBadEvent, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Event{}, fmt.Errorf("decode envelope: %w: more than one document", ErrBadEvent)
	}
	if err := d.check(); err != nil {
		return Event{}, fmt.Errorf("decode envelope: %w: %w", ErrBadEvent, err)
	}
	e := Event{ID: d.ID, Source: d.Source, Type: d.Type, Subject: d.Subject, Time: d.Time.UTC(),
		TraceParent: traceParent(d.TraceParent)}
	if d.Time.IsZero() {
		e.Time = time.Time{}
	}
	if len(raw) == 0 || raw[0] != '{' {
		return Event{}, fmt.Errorf("decode data: %w: no object", ErrBadEvent)
	}
	var into any
	if d.Type == TypeNotice {
		e.Notice = new(Notice)
		into = e.Notice
	} else {
		e.Purchase = new(Purchase)
		into = e.Purchase
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return Event{}, fmt.Errorf("decode data: %w: %w", ErrBadEvent, err)
	}
	return e, nil
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
