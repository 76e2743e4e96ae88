// Package dedupe remembers, over restarts and between processes, what was
// published, what was said at each sink, what is watched and what is silenced,
// and who owns what. There are two stores with one behaviour: Redis, for many
// processes, and JetStream key-value, KV, for one. What a duplicate means is
// decided elsewhere.
//
// Records are JSON, written whole, and expire Life after their last write:
//
//	                Redis                                     key-value
//	cursor          herald:{<purchase>}:cursor                cursor.<purchase>
//	watch set       herald:{<connection>}:watch               watch.<connection>
//	  its owner     herald:{<connection>}:watch_owner         in the same record
//	standing        herald:{<sink>}:standing:<purchase>       standing.<sink>.<purchase>
//	silences        herald:{silences} (hash, field: id)       <id>, in a bucket of its own
//	lease           herald:{<name>}:lease                     none: one process
//	members         herald:{<group>}:members (sorted set)     none: one process
//
// The braces keep what is read together in one slot of a Redis cluster. A
// silence lives until its end instead.
//
// An answer "not found" is only given when the store said so. Whatever else goes
// wrong is an error, never an empty record.
package dedupe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
)

// Life is how long a record is kept after its last write.
const Life = 30 * 24 * time.Hour

// ErrBadName is wrapped by the refusal of a name that must not become a key.
var ErrBadName = errors.New("not a valid name for a key")

// The operations, as metric labels.
const (
	opCursor       = "cursor"
	opAdvance      = "advance"
	opWatchSet     = "watch_set"
	opPutWatchSet  = "put_watch_set"
	opStandings    = "standings"
	opPutStandings = "put_standings"
	opSilences     = "silences"
	opPutSilence   = "put_silence"
	opLease        = "lease"
)

// later tells whether cursor a is further than b: by position, then by stream
// sequence.
func later(a, b events.Cursor) bool {
	return cmp.Or(events.Compare(a.Position, b.Position), cmp.Compare(a.Sequence, b.Sequence)) > 0
}

// checkNames refuses what could be taken for another key.
func checkNames(names ...string) error {
	for _, n := range names {
		if !events.ValidEventID(n) {
			return fmt.Errorf("%q: %w", n[:min(len(n), 64)], ErrBadName)
		}
	}
	return nil
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return data, nil
}

func decode[T any](data []byte) (T, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("decode record: %w", err)
	}
	return v, nil
}

// metrics counts the store's failures, since they are never read as answers.
type metrics struct {
	failures *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "herald_dedupe_failures_total", Help: "Operations that the state store did not do.",
	}, []string{"operation"})}
	if reg != nil {
		reg.MustRegister(m.failures)
	}
	return m
}

// done counts and names an error.
func (m *metrics) done(op string, err error) error {
	if err == nil {
		return nil
	}
	m.failures.WithLabelValues(op).Inc()
	return fmt.Errorf("%s in the state store: %w", verb(op), err)
}

func verb(op string) string {
	switch op {
	case opCursor:
		return "read cursor"
	case opAdvance:
		return "advance cursor"
	case opWatchSet:
		return "take watch set"
	case opPutWatchSet:
		return "write watch set"
	case opStandings:
		return "read standings"
	case opPutStandings:
		return "write standings"
	case opSilences:
		return "read silences"
	case opPutSilence:
		return "write silence"
	case opLease:
		return "hold lease"
	default:
		return op
	}
}
