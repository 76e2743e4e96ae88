package console

import (
	"errors"
	"fmt"

	"github.com/heraldbridge/herald/internal/events"
)

// ErrNoOwner says that no process answers for a sink.
var ErrNoOwner = errors.New("no process owns this sink now")

// WishKind is what an operator may ask of a sink's owner.
type WishKind string

// The wishes.
const (
	WishReplay WishKind = "replay" // send a dead letter again, in its lane, and remove it once it is accepted
	WishTest   WishKind = "test"   // send a marked test notification
)

// Wish is a request on the subject of WishSubject, as JSON.
type Wish struct {
	Kind  WishKind `json:"kind"`
	Event string   `json:"event,omitempty"` // of replay: the event's id
	By    string   `json:"by,omitempty"`    // who asks, for the audit record
}

// WishStatus is what became of a wish.
type WishStatus string

// What becomes of a wish.
const (
	WishTaken   WishStatus = "taken"   // it is in its lane and will be tried as any other
	WishDone    WishStatus = "done"    // the receiver accepted it
	WishFailed  WishStatus = "failed"  // the receiver did not accept it
	WishRefused WishStatus = "refused" // it is not tried: no such letter, no longer the newest, sink paused
)

// WishResult is the owner's reply, as JSON.
type WishResult struct {
	Status  WishStatus `json:"status"`
	Problem string     `json:"problem,omitempty"` // of failed and refused: masked, in plain words
	Detail  string     `json:"detail,omitempty"`  // what the receiver said, masked
	Millis  int64      `json:"millis,omitempty"`  // of the try
}

// OK reports whether the wish was fulfilled or is on its way.
func (r WishResult) OK() bool {
	switch r.Status {
	case WishTaken, WishDone:
		return true
	case WishFailed, WishRefused:
		return false
	}
	return false
}

// WishSubject is where the owner of a sink listens for wishes.
func WishSubject(sink string) (string, error) {
	if !events.ValidConnection(sink) {
		return "", fmt.Errorf("sink %.64q: %w", sink, events.ErrBadName)
	}
	return "envoy.control.sink." + sink, nil
}
