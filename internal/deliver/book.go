package deliver

import (
	"context"
	"maps"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	storeTimeout = 2 * time.Second // of one read or write of standings
	storePause   = 5 * time.Second // between tries while the store is in trouble: it must not stop the loop
	bookSize     = 10_000          // standings remembered beyond those in use
)

// record is the standing of one lane as the owner knows it.
type record struct {
	standing events.Standing
	unread   bool // the store could not be asked, so there may be more to know
	held     int  // events left out for newer ones since the last notification
	users    int  // lanes that hold it
}

// book is what the owner remembers of standings. The owner is their only
// writer, so what it remembers beats what the store says, and it carries the
// sink through an outage of the store. It lives as long as the ownership.
type book struct {
	sink    string
	store   Standings
	created time.Time // of the stream whose sequence counts
	records map[string]*record
	dirty   map[string]*record // not written yet
	// While the store is in trouble it is left alone until these moments.
	noRead, noWrite time.Time
	onError         func(operation string, err error)
	onFine          func()
}

// load makes a record of every key: one read for all that are not remembered.
// A store in trouble leaves them empty and unread, never "already said".
func (b *book) load(ctx context.Context, keys map[string]bool) {
	var missing []string
	for key := range keys {
		if r := b.records[key]; r == nil || r.unread {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return
	}
	b.trim()
	found, ok := b.read(ctx, missing)
	for _, key := range missing {
		r := b.records[key]
		if r == nil {
			r = &record{unread: true}
			b.records[key] = r
		}
		if ok {
			r.standing, r.unread = b.merge(found[key], r.standing), false
		}
	}
}

// read asks the store, unless it has just failed.
func (b *book) read(ctx context.Context, keys []string) (map[string]events.Standing, bool) {
	if time.Now().Before(b.noRead) {
		b.onError("read", nil)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	found, err := b.store.Standings(ctx, b.sink, keys)
	if err != nil {
		b.noRead = time.Now().Add(storePause)
		b.onError("read", err)
		return nil, false
	}
	b.onFine()
	return found, true
}

// merge lays what is remembered over what is stored.
func (b *book) merge(stored, mine events.Standing) events.Standing {
	if !stored.Stream.Equal(b.created) {
		// Another stream counted from one: its sequences say nothing here.
		stored.Settled, stored.Stream = 0, b.created
	}
	if mine.Stream.Equal(b.created) {
		stored.Settled = max(stored.Settled, mine.Settled)
	}
	stored.Tries = overlay(stored.Tries, mine.Tries)
	stored.Alarms = overlay(stored.Alarms, mine.Alarms)
	if mine.Thread != nil {
		stored.Thread = mine.Thread
	}
	if mine.LastTime.After(stored.LastTime) {
		stored.LastID, stored.LastTime = mine.LastID, mine.LastTime
	}
	return stored
}

func overlay[V any](under, over map[string]V) map[string]V {
	if len(over) == 0 {
		return under
	}
	out := maps.Clone(under)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, over)
	return out
}

// write stores everything that is not written, in one go. A failure is counted
// and the records stay dirty: they are written with the next ones.
func (b *book) write(ctx context.Context) {
	if len(b.dirty) == 0 || time.Now().Before(b.noWrite) {
		return
	}
	unread := map[string]bool{}
	for key, r := range b.dirty {
		if r.unread {
			unread[key] = true
		}
	}
	if b.load(ctx, unread); len(unread) > 0 && time.Now().Before(b.noRead) {
		b.noWrite = b.noRead
		return // writing now would lay a part over the whole
	}
	out := make(map[string]events.Standing, len(b.dirty))
	for key, r := range b.dirty {
		out[key] = r.standing
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := b.store.PutStandings(ctx, b.sink, out); err != nil {
		b.noWrite = time.Now().Add(storePause)
		b.onError("write", err)
		return
	}
	b.onFine()
	clear(b.dirty)
}

// trim forgets records that nobody holds once there are too many.
func (b *book) trim() {
	if len(b.records) <= bookSize {
		return
	}
	for key, r := range b.records {
		if len(b.records) <= bookSize*9/10 {
			return
		}
		if r.users == 0 && r.held == 0 && b.dirty[key] == nil {
			delete(b.records, key)
		}
	}
}
