package deliver

import (
	"slices"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
)

// item is one message of a lane that is not settled.
type item struct {
	msg   Message
	timer bool      // not a message: an event decided again because its moment came
	out   bool      // handed back to the stream; it will come again
	due   time.Time // of one that is out: when it should be back
	bury  *events.DeadLetter
	plan  route.Decision // of the try under way, or to come
	ask   *ask           // a wish rather than a message; nil: none

	planned time.Time // when plan was made
}

// ours reports whether the item is not a message of the stream in hand.
func (it *item) ours() bool { return it.timer || it.ask != nil }

// subject is what the item is about, for telling newer from older.
func (it *item) subject() string { return it.msg.Subject }

// eventID is the event's id, or a made-up one for what does not decode.
func (it *item) eventID() string {
	if it.msg.Bad != nil {
		return badID(it.msg.Envelope)
	}
	return it.msg.Event.ID
}

// lane is one conversation: its messages go one at a time, oldest first.
type lane struct {
	key    string
	rec    *record
	items  []*item // by stream sequence
	busy   bool    // a try, a burial or a write is under way
	queued bool    // it waits for a free place to send

	heard time.Time // when a message of it came last
}

// find gives the item of a message that came again.
func (ln *lane) find(seq uint64) *item {
	for _, it := range ln.items {
		if it.msg.Sequence == seq && !it.ours() {
			return it
		}
	}
	return nil
}

// add puts an item in its place.
func (ln *lane) add(it *item) {
	at, _ := slices.BinarySearchFunc(ln.items, it.msg.Sequence+1, func(o *item, seq uint64) int {
		if o.msg.Sequence < seq {
			return -1
		}
		return 1
	})
	ln.items = slices.Insert(ln.items, at, it)
}

// drop takes an item out.
func (ln *lane) drop(it *item) {
	if i := slices.Index(ln.items, it); i >= 0 {
		ln.items = slices.Delete(ln.items, i, i+1)
	}
}

// waited reports whether another event of the stream waits for this one.
func (ln *lane) waited(it *item) bool {
	return slices.ContainsFunc(ln.items, func(o *item) bool { return o != it && o.ask == nil })
}

// newer reports whether the lane holds a newer event of the same purchase, which
// makes this one needless where only the newest is told. Notices are never newer
// than each other: each says a thing of its own.
func (ln *lane) newer(it *item) bool {
	if it.msg.Event.Purchase == nil {
		return false
	}
	return slices.ContainsFunc(ln.items, func(o *item) bool {
		return o.msg.Sequence > it.msg.Sequence && o.subject() == it.subject() && o.msg.Bad == nil && replaces(o.msg.Event)
	})
}

// replaces reports whether an event is told in place of older ones. One that is
// told to nobody replaces nothing, or the news before it would be lost.
func replaces(e events.Event) bool {
	if e.Purchase == nil {
		return false
	}
	switch e.Purchase.Reading.Cause {
	case events.CauseRevision, events.CauseReading, events.CauseReset:
		return true
	case events.CauseBaseline, events.CauseStill:
	}
	return false
}

// sinkKey is the key under which the loop keeps where the sink began.
const sinkKey = "_sink"

// laneKey names the conversation of an event. It depends on the event alone, so
// that a message that comes again finds the same lane.
func laneKey(e events.Envelope) string {
	switch {
	case e.Bad != nil:
		return badID(e)
	case e.Event.Purchase != nil && e.Event.Purchase.ChainRoot != "":
		return e.Event.Purchase.ChainRoot
	case e.Event.Purchase != nil:
		return e.Event.Subject
	case e.Event.Notice != nil:
		return "connection-" + e.Event.Notice.Connection
	}
	return "source-" + strings.Trim(e.Event.Source, "/")
}
