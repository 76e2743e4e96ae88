package dedupe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// Standings reads the records of a sink about some purchases, several at a
// time. Those without a record are left out.
func (k *KV) Standings(ctx context.Context, sink string, purchases []string) (map[string]events.Standing, error) {
	var (
		mu    sync.Mutex
		found = make(map[string]events.Standing, len(purchases))
		fails []error
		work  = make(chan string)
		group sync.WaitGroup
	)
	for range min(kvWorkers, len(purchases)) {
		group.Go(func() {
			for p := range work {
				s, ok, err := kvGet[events.Standing](ctx, k, "standing", sink, p)
				mu.Lock()
				if err != nil {
					fails = append(fails, fmt.Errorf("purchase %s: %w", p, err))
				}
				if ok {
					found[p] = s
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range purchases {
		work <- p
	}
	close(work)
	group.Wait()
	if len(fails) > 0 {
		return nil, k.metrics.done(opStandings, fails[0]) // the others say the same
	}
	return found, nil
}

// PutStandings stores records of a sink, all at once. After an error any of them
// may have been stored; write them again.
func (k *KV) PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error {
	records := make(map[string][]byte, len(m))
	for p, s := range m {
		data, err := encode(s)
		if err == nil {
			err = checkNames(sink, p)
		}
		if err != nil {
			return k.metrics.done(opPutStandings, err)
		}
		records["standing."+sink+"."+p] = data
	}
	return k.metrics.done(opPutStandings, k.do(ctx, func(kv, _ jetstream.KeyValue) error {
		return k.putAll(ctx, kv.Bucket(), records)
	}))
}

// putAll writes without waiting for each acknowledgement, then awaits them all.
// The key-value client itself only writes one by one.
func (k *KV) putAll(ctx context.Context, bucket string, records map[string][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	acks := make([]jetstream.PubAckFuture, 0, len(records))
	var problems []error
	for key, data := range records {
		ack, err := k.js.PublishAsync("$KV."+bucket+"."+key, data)
		if err != nil {
			problems = append(problems, err)
			break
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			problems = append(problems, err)
		case <-ctx.Done():
			return errors.Join(append(problems, ctx.Err())...)
		}
	}
	return errors.Join(problems...)
}
