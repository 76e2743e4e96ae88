package deliver

import (
	"context"
	"maps"
	"slices"
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
//
// The trips to the store, read and write, touch nothing of the book, so that
// they may run beside the loop; missing and learn, draft and written are the
// loop's part before and after.
type book struct {
	sink    string
	store   Standings
	created time.Time // of the stream whose sequence counts
	records map[string]*record
	dirty   map[string]*record // not written yet
	flying  map[string]*record // being written
	// While the store is in trouble it is left alone until these moments.
	noRead, noWrite time.Time
	onError         func(operation string, err error)
	onFine          func()
}

func newBook(l *Loop) *book {
	return &book{
		sink: l.o.Name, store: l.o.Standings, records: map[string]*record{}, dirty: map[string]*record{},
		flying: map[string]*record{}, onError: l.storeError, onFine: l.storeFine,
	}
}

// find gives the record of a key; nil: the store is to be asked first. A store in
// trouble leaves it empty and unread, never "already said".
func (b *book) find(key string, now time.Time) *record {
	r := b.records[key]
	if r != nil && !r.unread {
		return r
	}
	if !now.Before(b.noRead) {
		return nil
	}
	b.onError("read", nil)
	if r == nil {
		r = &record{unread: true}
		b.records[key] = r
	}
	return r
}

// read asks the store.
func (b *book) read(ctx context.Context, keys []string) (map[string]events.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.store.Standings(ctx, b.sink, keys)
}

// learn takes in the answer about some keys.
func (b *book) learn(keys []string, found map[string]events.Standing, err error) {
	if err != nil {
		b.noRead = time.Now().Add(storePause)
		b.onError("read", err)
	} else {
		b.onFine()
	}
	b.trim()
	for _, key := range keys {
		r := b.records[key]
		if r == nil {
			r = &record{unread: true}
			b.records[key] = r
		}
		if err == nil && r.unread {
			r.standing, r.unread = b.merge(found[key], r.standing), false
		}
	}
}

// load has records read now, unless the store is being left alone.
func (b *book) load(ctx context.Context, keys ...string) {
	now := time.Now()
	keys = slices.DeleteFunc(keys, func(key string) bool { return b.find(key, now) != nil })
	if len(keys) > 0 {
		found, err := b.read(ctx, keys)
		b.learn(keys, found, err)
	}
}

// merge lays what is remembered over what is stored.
func (b *book) merge(stored, mine events.Standing) events.Standing {
	if !stored.Stream.Equal(b.created) {
		// Another stream counted from one: its sequences say nothing here.
		stored.Settled, stored.SettledAt, stored.Stream = 0, time.Time{}, b.created
	}
	if at := mine.SettledAt.Compare(stored.SettledAt); mine.Stream.Equal(b.created) && (at > 0 || at == 0 && mine.Settled > stored.Settled) {
		stored.Settled, stored.SettledAt = mine.Settled, mine.SettledAt
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

// covers reports whether an event was settled. One that was stored later is
// another: the stream lost its end, and gave the sequence again.
func covers(st events.Standing, env events.Envelope) bool {
	return env.Sequence <= st.Settled && (st.SettledAt.IsZero() || !env.Stored.After(st.SettledAt))
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

// draft takes out what is to be written; nil: nothing now. One that could not be
// read has to be read first: writing it would lay a part over the whole.
func (b *book) draft(now time.Time) map[string]events.Standing {
	if now.Before(b.noWrite) {
		return nil
	}
	var out map[string]events.Standing
	for key, r := range b.dirty {
		if r.unread {
			continue
		}
		if out == nil {
			out = make(map[string]events.Standing, len(b.dirty))
		}
		out[key], b.flying[key] = r.standing, r
		delete(b.dirty, key)
	}
	return out
}

// write stores a draft.
func (b *book) write(ctx context.Context, draft map[string]events.Standing) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.store.PutStandings(ctx, b.sink, draft)
}

// written takes in what became of a draft. After a failure its records are dirty
// again: they are written with the next ones.
func (b *book) written(err error) {
	if err == nil {
		b.onFine()
	} else {
		b.noWrite = time.Now().Add(storePause)
		b.onError("write", err)
		maps.Copy(b.dirty, b.flying)
	}
	clear(b.flying)
}

// flush writes now what is not written, unless the store is being left alone.
func (b *book) flush(ctx context.Context) {
	b.load(ctx, b.unread(time.Now())...)
	if draft := b.draft(time.Now()); draft != nil {
		b.written(b.write(ctx, draft))
	}
}

// unread names the records that must be read before they can be written; none
// while the store is being left alone.
func (b *book) unread(now time.Time) (keys []string) {
	if now.Before(b.noRead) {
		return nil
	}
	for key, r := range b.dirty {
		if r.unread {
			keys = append(keys, key)
		}
	}
	return keys
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
		if r.users == 0 && r.held == 0 && b.dirty[key] == nil && b.flying[key] == nil {
			delete(b.records, key)
		}
	}
}
