package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// Bury stores a dead letter, once per sink and event: one that is there already
// is done. Only after it returns nil may the event be acknowledged.
func (b *Bus) Bury(ctx context.Context, d events.DeadLetter) error {
	subject, err := events.DeadSubject(d.Sink, d.EventID)
	if err != nil {
		return fmt.Errorf("bury event: %w", err)
	}
	body, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode dead letter of %s: %w", d.EventID, err)
	}
	for try := range publishTries {
		if try > 0 {
			if err := pause(ctx, conflictPause<<try); err != nil {
				return err
			}
		}
		// No message id: a letter that was dropped may come again at once.
		_, err = b.send(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}},
			jetstream.WithExpectLastSequencePerSubject(0))
		if err == nil || isCode(err, jetstream.JSErrCodeStreamWrongLastSequence) {
			return nil
		}
		if !isConflict(err) {
			break
		}
		// Somebody else's letter is in hand; it is there once the server says so.
	}
	b.metrics.publishFailures.Inc()
	b.recheck()
	return fmt.Errorf("bury event %s: %w", d.EventID, err)
}

// Dead walks over the dead letters of a sink, or of all when it is empty,
// oldest first.
func (b *Bus) Dead(ctx context.Context, sink string) iter.Seq2[events.DeadLetter, error] {
	filter := events.SubjectDead
	if sink != "" {
		if !events.ValidConnection(sink) {
			return fails[events.DeadLetter](fmt.Errorf("read dead letters: sink %q: %w", sink, events.ErrBadName))
		}
		filter = "envoy.dead." + sink + ".*"
	}
	return records[events.DeadLetter](b.walk(ctx, events.StreamDead, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: filter,
	}))
}

// DeadOne gives the dead letters of one event: one for each sink that buried it.
func (b *Bus) DeadOne(ctx context.Context, eventID string) ([]events.DeadLetter, error) {
	if !events.ValidEventID(eventID) {
		return nil, fmt.Errorf("read dead letters: event %q: %w", eventID, events.ErrBadName)
	}
	var found []events.DeadLetter
	for d, err := range records[events.DeadLetter](b.walk(ctx, events.StreamDead, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: "envoy.dead.*." + eventID,
	})) {
		if err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}

// Unbury removes the dead letter of an event at a sink, after it was replayed or
// dropped. One that is not there is done.
func (b *Bus) Unbury(ctx context.Context, sink, eventID string) error {
	subject, err := events.DeadSubject(sink, eventID)
	if err != nil {
		return fmt.Errorf("remove dead letter: %w", err)
	}
	s, err := b.stream(events.StreamDead)
	if err != nil {
		return err
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		return fmt.Errorf("remove dead letter of %s: %w", eventID, err)
	}
	return nil
}

// errRecord marks a stored record that does not decode.
var errRecord = errors.New("decode stored record")

// records decodes the JSON records of a walk. One that does not decode is an
// error of its own and does not end the walk.
func records[T any](msgs iter.Seq2[jetstream.Msg, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for msg, err := range msgs {
			var record T
			if err == nil {
				if jerr := json.Unmarshal(msg.Data(), &record); jerr != nil {
					err = fmt.Errorf("%w on %s: %w", errRecord, msg.Subject(), jerr)
				}
			}
			if !yield(record, err) {
				return
			}
		}
	}
}
