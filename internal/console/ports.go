package console

import (
	"context"
	"iter"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Archive is the stored events.
type Archive interface {
	// Newest walks over the newest event of every purchase.
	Newest(ctx context.Context) iter.Seq2[events.Envelope, error]
	// History walks over everything stored about a purchase, oldest first.
	History(ctx context.Context, purchaseID string) iter.Seq2[events.Envelope, error]
	// Stored walks over every event stored since a time, oldest first.
	Stored(ctx context.Context, since time.Time) iter.Seq2[events.Envelope, error]
}

// DeliveryFilter selects records of deliveries; zero fields select all.
type DeliveryFilter struct {
	Sink       string
	PurchaseID string
	Since      time.Time
}

// Audit is the records of deliveries, oldest first.
type Audit interface {
	Deliveries(ctx context.Context, f DeliveryFilter) iter.Seq2[events.Delivery, error]
}

// Graveyard is the dead letters.
type Graveyard interface {
	// Dead walks over the letters of a sink, or of all when it is empty, oldest first.
	Dead(ctx context.Context, sink string) iter.Seq2[events.DeadLetter, error]
	// DeadOne gives the letters of one event: one for each sink that buried it.
	DeadOne(ctx context.Context, eventID string) ([]events.DeadLetter, error)
	// Unbury removes a letter. One that is not there is done.
	Unbury(ctx context.Context, sink, eventID string) error
}

// Silences is the silences in force.
type Silences interface {
	Silences(ctx context.Context) ([]events.Silence, error)
	PutSilence(ctx context.Context, s events.Silence) error
	DeleteSilence(ctx context.Context, id string) error
}

// Standings is what sinks remember of purchases.
type Standings interface {
	Standings(ctx context.Context, sink string, keys []string) (map[string]events.Standing, error)
}

// Owners carries wishes to whoever owns a sink.
type Owners interface {
	// Ask gives ErrNoOwner when nobody answers for the sink.
	Ask(ctx context.Context, sink string, w Wish) (WishResult, error)
}

// Parts is how the sinks and connections of all processes that can be reached
// are doing.
type Parts interface {
	Sinks(ctx context.Context) ([]Sink, error)
	Connections(ctx context.Context) ([]Connection, error)
}

// Sink is how one sink is doing.
type Sink struct {
	Name        string    `json:"name"`
	Kind        string    `json:"kind,omitempty"`        // slack, email, webhook
	State       string    `json:"state"`                 // waiting, running, down, paused, gone, stopped; unknown when no owner answers
	Since       time.Time `json:"since,omitzero"`        // when the state began
	Failure     string    `json:"failure,omitempty"`     // the newest failure, masked
	NextProbe   time.Time `json:"next_probe,omitzero"`   // while down
	LastSuccess time.Time `json:"last_success,omitzero"` // when a receiver last accepted something
	Backlog     uint64    `json:"backlog"`               // events that the sink has yet to be done with
	InHand      int       `json:"in_hand"`               // of them, with the owner
	Sending     int       `json:"sending"`               // tries under way
	Waiting     int       `json:"waiting"`               // alarms with a moment to come
	Rate        float64   `json:"rate"`                  // notifications accepted a minute, over the last one
	Owner       string    `json:"owner,omitempty"`       // the process that delivers; empty: none answers
	StoreError  string    `json:"store_error,omitempty"` // the state store cannot be read or written
	Configured  bool      `json:"configured"`            // named in the configuration of a process that answers
	Floor       uint64    `json:"floor"`                 // stream sequence up to which it is done with everything
}

// Connection is how one connection is doing.
type Connection struct {
	Name         string    `json:"name"`
	Owner        string    `json:"owner,omitempty"`       // the process that watches it; empty: none answers
	Parked       string    `json:"parked,omitempty"`      // why no calls are made: token, not_allowed, service, client_update
	ParkedSince  time.Time `json:"parked_since,omitzero"` //
	Blind        bool      `json:"blind"`                 // nothing has been seen for too long
	BlindWhy     string    `json:"blind_why,omitempty"`   //
	Calls        int       `json:"calls"`                 // of the token, in the last minute
	Share        int       `json:"share"`                 // calls a minute that are allowed now
	ClosedUntil  time.Time `json:"closed_until,omitzero"` // Envoy asked to wait so long
	Open         int       `json:"open"`                  // purchases that are followed
	Unsettled    int       `json:"unsettled"`             // of them, with money that hangs
	Holds        int       `json:"holds"`                 // held reads that are open
	Registered   int       `json:"registered"`            // references that hosts registered
	Unpublished  int       `json:"unpublished"`           // events that are not stored yet
	LastReply    time.Time `json:"last_reply,omitzero"`   // newest valid reply
	LastPublish  time.Time `json:"last_publish,omitzero"` // newest event stored
	StoreTrouble bool      `json:"store_trouble,omitempty"`
}

// Subscription is a subscription as a request gives it. Durations are written
// as 90s, 2m or 1h.
type Subscription struct {
	Name    string   `json:"name"`
	Match   string   `json:"match"`
	Urgent  string   `json:"urgent,omitempty"`
	For     Duration `json:"for,omitempty"`
	Repeat  Duration `json:"repeat,omitempty"`
	Resolve bool     `json:"resolve,omitempty"`
	Sinks   []string `json:"sinks"`
}

// RouteFunc compiles subscriptions and silences into decisions; nil
// subscriptions stand for those of the running configuration. An error about an
// expression names the subscription and the place.
type RouteFunc func(subs []Subscription, silences []events.Silence) (Router, error)

// Router decides what a sink is told.
type Router interface {
	Sinks() []string
	Decide(q Question) Verdict
}

// Question is what a decision depends on.
type Question struct {
	Event    events.Event
	Stored   time.Time
	Standing events.Standing
	Sink     string
	Now      time.Time
	Again    bool // decided before, and only time has passed
}

// Verdict is a decision.
type Verdict struct {
	Action       string // pass, open, update, remind, resolve, skip, wait
	Told         bool   // the action sends something
	Subscription string
	Urgent       bool
	Since, Until time.Time
	Reason       string // of skip and wait
	Standing     events.Standing
	Err          error // an expression could not be worked out: the event is buried
}

// Vault is everything that is stored, for a search.
type Vault interface {
	Records(ctx context.Context) iter.Seq2[Record, error]
	// Secrets gives the secrets that this process knows, and the references
	// that it could not read.
	Secrets(ctx context.Context) (known []Secret, unread []string)
}

// Record is one stored thing, as text.
type Record struct {
	Store    string // stream or store
	Place    string // subject or key
	Sequence uint64 // 0 where there is none
	Text     string
}

// Secret is a secret that must be found nowhere.
type Secret struct {
	Name string                 // the reference, never the value
	In   func(text string) bool // whether the text holds it, in any spelling
}
