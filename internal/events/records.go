package events

import (
	"errors"
	"time"
)

// ErrTaken is the answer to a write of a record that another owner has taken.
var ErrTaken = errors.New("another owner has taken this record")

// ErrNewer is the answer of a publish whose subject already holds a newer
// reading: another worker owns the purchase, so this one must stop.
var ErrNewer = errors.New("a newer reading of this purchase is already published")

// Cursor is the position up to which a purchase has been published. It is
// written after the publish ack and never goes back.
type Cursor struct {
	Position
	Last           Reading   `json:"last"`
	Sequence       uint64    `json:"sequence"` // stream sequence of the subject's newest event
	EventID        string    `json:"event_id"`
	State          State     `json:"state"`
	SituationSince time.Time `json:"situation_since"`
	Published      time.Time `json:"published"`       // when the last event was acknowledged
	PassedApproval bool      `json:"passed_approval"` // see Facts
	ChainRoot      string    `json:"chain_root,omitempty"`
	OverdueFor     string    `json:"overdue_for,omitempty"` // event id whose overdue notice was published
}

// WatchRef is a purchase that somebody asked to have watched, or that was open
// when last seen. Exactly one of PurchaseID and KeyHash is set at first; a
// matched key gains its PurchaseID.
type WatchRef struct {
	PurchaseID string    `json:"purchase_id,omitempty"`
	KeyHash    string    `json:"key_hash,omitempty"` // HashKey of the idempotency key
	Registered bool      `json:"registered"`         // by a host, as opposed to discovered
	Seen       bool      `json:"seen"`               // Envoy has shown it at least once
	Since      time.Time `json:"since"`
	OnlyLook   bool      `json:"only_look,omitempty"` // a reply about it was ready once
	Baseline   bool      `json:"baseline,omitempty"`  // first contact found it, and it is not told yet
	Probe      bool      `json:"probe,omitempty"`     // and it had ended: it is told only if its money hangs
}

// WatchSet is what a connection watches, kept over restarts. Baselined tells
// that first contact has been made.
type WatchSet struct {
	Baselined bool       `json:"baselined"`
	Agent     string     `json:"agent,omitempty"`     // agent_id of the connection's own host, as last seen
	ReadyTold time.Time  `json:"ready_told,omitzero"` // day of the newest notice about a ready reply, UTC
	Refs      []WatchRef `json:"refs"`
}

// Standing is the record of one sink and one purchase: what was said, what is
// owed. One writer: the sink's owner.
type Standing struct {
	Settled uint64 `json:"settled"` // stream sequence up to which everything is decided
	// SettledAt is the latest moment at which the stream stored what is decided: a
	// stream that lost its end gives its sequences again, to later events.
	SettledAt time.Time         `json:"settled_at,omitzero"`
	Stream    time.Time         `json:"stream"`             // creation time of the stream that Settled counts in
	Tries     map[string]Try    `json:"tries,omitempty"`    // event id -> open tries
	Alarms    map[string]Alarm  `json:"alarms,omitempty"`   // subscription -> alarm
	Thread    map[string]string `json:"thread,omitempty"`   // the sink's own receipt, given back with the next notification
	LastID    string            `json:"last_id,omitempty"`  // event id sent last
	LastTime  time.Time         `json:"last_time,omitzero"` // when
}

// Try is what is known of an event that is not delivered yet.
type Try struct {
	Count int       `json:"count"`
	First time.Time `json:"first"`
	Due   time.Time `json:"due"`
	Last  string    `json:"last"` // the failure, in words without secrets
}

// Alarm is the state of one alarm of one subscription about one purchase.
type Alarm struct {
	Since    time.Time `json:"since"`             // the match has held since
	Opened   time.Time `json:"opened,omitzero"`   // when it was first told; zero: dwelling
	Told     time.Time `json:"told,omitzero"`     // when it was last told or reminded
	Event    string    `json:"event,omitempty"`   // event id told last
	Reminded int       `json:"reminded,omitzero"` // number of reminders so far
	Urgent   bool      `json:"urgent,omitempty"`
}

// Silence postpones alarms that match until an end. It never holds a plain
// webhook back.
type Silence struct {
	ID    string    `json:"id"`
	Match string    `json:"match"` // CEL over the event
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
	By    string    `json:"by,omitempty"`
}

// Delivery is the audit record of one outcome at one sink.
type Delivery struct {
	Sink       string    `json:"sink"`
	EventID    string    `json:"event_id"`
	PurchaseID string    `json:"purchase_id,omitempty"`
	Type       Type      `json:"type"`
	Revision   int64     `json:"revision,omitempty"`
	Outcome    string    `json:"outcome"` // sent, retried, buried, skipped, superseded, waiting
	Reason     string    `json:"reason,omitempty"`
	Attempt    int       `json:"attempt"`
	At         time.Time `json:"at"`
	Millis     int64     `json:"millis"` // duration of the try
	Detail     string    `json:"detail,omitempty"`
}

// DeadLetter is an event that a sink will not get by itself any more, with the
// reason. It can be replayed.
type DeadLetter struct {
	Sink     string    `json:"sink"`
	EventID  string    `json:"event_id"`
	Subject  string    `json:"subject"`  // NATS subject the event was published on
	Sequence uint64    `json:"sequence"` // its stream sequence
	Reason   string    `json:"reason"`   // closed set, see deliver
	Detail   string    `json:"detail"`   // the last failure, masked
	Attempts int       `json:"attempts"`
	First    time.Time `json:"first"`
	Buried   time.Time `json:"buried"`
	Event    []byte    `json:"event"` // the CloudEvents document as published
}

// Envelope is an event as it lies in the stream.
type Envelope struct {
	Event            Event
	Raw              []byte   // the CloudEvents document as stored
	Document         Document // the same, where it may be sent on
	Subject          string
	Sequence         uint64    // in the stream
	ConsumerSequence uint64    // in the consumer; 0 when read without one
	Delivered        int       // how often this consumer has handed it out
	Stored           time.Time // when the stream took it
	Bad              error     // why Raw does not decode; Event is zero then
}
