package dedupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heraldbridge/herald/internal/events"
)

// orderLength is the length of the sortable head of a stored cursor: four
// numbers of 20 digits.
const orderLength = 80

// advanceScript writes a cursor unless a further one is there. Cursors begin
// with a head that sorts as they do, since numbers in Lua lose digits.
const advanceScript = `
local old = redis.call('GET', KEYS[1])
if old and string.sub(old, 1, 80) > string.sub(ARGV[1], 1, 80) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

// takeScript makes somebody the owner of a watch set, and gives the set.
const takeScript = `
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[1])`

// putScript writes a watch set unless it is another's; 0 says that it is. One
// that is nobody's, in a store that was emptied, becomes the writer's.
const putScript = `
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1`

// silenceScript adds a silence and lets the hash live as long as its longest.
const silenceScript = `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1`

func (r *Redis) key(tag, kind string) string { return r.prefix + ":{" + tag + "}:" + kind }

func (r *Redis) silencesKey() string { return r.prefix + ":{silences}" }

// order is the head of a stored cursor; strings of it compare as cursors do.
func order(c events.Cursor) string {
	shift := func(n int64) uint64 { return uint64(n) ^ 1<<63 } // negative numbers sort first
	return fmt.Sprintf("%020d%020d%020d%020d", shift(c.Epoch), shift(c.Revision), shift(c.N), c.Sequence)
}

// Cursor is the position of a purchase; false when none is stored.
func (r *Redis) Cursor(ctx context.Context, purchaseID string) (events.Cursor, bool, error) {
	if err := checkNames(purchaseID); err != nil {
		return events.Cursor{}, false, r.metrics.done(opCursor, err)
	}
	data, found, err := r.get(ctx, r.key(purchaseID, "cursor"))
	if err == nil && found && len(data) < orderLength {
		err = errors.New("decode record: it is cut short")
	}
	if err != nil || !found {
		return events.Cursor{}, false, r.metrics.done(opCursor, err)
	}
	c, err := decode[events.Cursor](data[orderLength:])
	return c, err == nil, r.metrics.done(opCursor, err)
}

// Advance stores the positions of purchases, by their ids, in one trip. One that
// is further stays, without an error. After an error each may be stored or not.
func (r *Redis) Advance(ctx context.Context, cursors map[string]events.Cursor) error {
	records := make(map[string]string, len(cursors))
	for id, c := range cursors {
		data, err := encode(c)
		if err == nil {
			err = checkNames(id)
		}
		if err != nil {
			return r.metrics.done(opAdvance, err)
		}
		records[r.key(id, "cursor")] = order(c) + string(data)
	}
	script := redis.NewScript(advanceScript)
	return r.metrics.done(opAdvance, r.do(func(cl *redis.Client) error {
		err := advanceAll(ctx, cl, records, script.EvalSha)
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // the server is new, or was emptied
			err = advanceAll(ctx, cl, records, script.Eval)
		}
		return err
	}))
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func advanceAll(ctx context.Context, cl *redis.Client, records map[string]string, run eval) error {
	_, err := cl.Pipelined(ctx, func(p redis.Pipeliner) error {
		for key, record := range records {
			run(ctx, p, []string{key}, record, Life.Milliseconds())
		}
		return nil
	})
	return err
}

// TakeWatchSet gives what a connection watches, false when nothing is stored,
// and from then on only owner can write it.
func (r *Redis) TakeWatchSet(ctx context.Context, connection, owner string) (events.WatchSet, bool, error) {
	if err := checkNames(connection); err != nil {
		return events.WatchSet{}, false, r.metrics.done(opWatchSet, err)
	}
	var text string
	err := r.do(func(cl *redis.Client) (err error) {
		text, err = redis.NewScript(takeScript).Run(ctx, cl, r.watchKeys(connection), owner, Life.Milliseconds()).Text()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return events.WatchSet{}, false, nil
	}
	if err != nil {
		return events.WatchSet{}, false, r.metrics.done(opWatchSet, err)
	}
	s, err := decode[events.WatchSet]([]byte(text))
	return s, err == nil, r.metrics.done(opWatchSet, err)
}

func (r *Redis) watchKeys(connection string) []string {
	return []string{r.key(connection, "watch"), r.key(connection, "watch_owner")}
}

// PutWatchSet stores what a connection watches. events.ErrTaken: another has
// taken it since, and nothing was written.
func (r *Redis) PutWatchSet(ctx context.Context, connection, owner string, s events.WatchSet) error {
	data, err := encode(s)
	if err == nil {
		err = checkNames(connection)
	}
	written := 0
	if err == nil {
		err = r.do(func(cl *redis.Client) (err error) {
			written, err = redis.NewScript(putScript).Run(ctx, cl, r.watchKeys(connection), owner, Life.Milliseconds(), data).Int()
			return err
		})
	}
	if err == nil && written == 0 {
		return fmt.Errorf("write watch set of %s: %w", connection, events.ErrTaken)
	}
	return r.metrics.done(opPutWatchSet, err)
}

func (r *Redis) get(ctx context.Context, key string) (data []byte, found bool, err error) {
	err = r.do(func(cl *redis.Client) error {
		data, err = cl.Get(ctx, key).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// Standings reads the records of a sink about some purchases in one go. Those
// without a record are left out.
func (r *Redis) Standings(ctx context.Context, sink string, purchases []string) (map[string]events.Standing, error) {
	if len(purchases) == 0 {
		return map[string]events.Standing{}, nil
	}
	if err := checkNames(append([]string{sink}, purchases...)...); err != nil {
		return nil, r.metrics.done(opStandings, err)
	}
	keys := make([]string, len(purchases))
	for i, p := range purchases {
		keys[i] = r.key(sink, "standing:"+p)
	}
	var values []any
	err := r.do(func(cl *redis.Client) (err error) {
		values, err = cl.MGet(ctx, keys...).Result()
		return err
	})
	if err != nil {
		return nil, r.metrics.done(opStandings, err)
	}
	found := make(map[string]events.Standing, len(purchases))
	for i, v := range values {
		text, ok := v.(string)
		if !ok { // nil: not there
			continue
		}
		s, err := decode[events.Standing]([]byte(text))
		if err != nil {
			return nil, r.metrics.done(opStandings, fmt.Errorf("purchase %s: %w", purchases[i], err))
		}
		found[purchases[i]] = s
	}
	return found, nil
}

// PutStandings stores records of a sink in one go. After an error any of them
// may have been stored; write them again.
func (r *Redis) PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error {
	if len(m) == 0 {
		return nil
	}
	type record struct {
		key  string
		data []byte
	}
	records := make([]record, 0, len(m))
	for p, s := range m {
		data, err := encode(s)
		if err == nil {
			err = checkNames(sink, p)
		}
		if err != nil {
			return r.metrics.done(opPutStandings, err)
		}
		records = append(records, record{r.key(sink, "standing:"+p), data})
	}
	return r.metrics.done(opPutStandings, r.do(func(cl *redis.Client) error {
		_, err := cl.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, one := range records {
				p.Set(ctx, one.key, one.data, Life)
			}
			return nil
		})
		return err
	}))
}

// Silences lists the silences that are not over.
func (r *Redis) Silences(ctx context.Context) ([]events.Silence, error) {
	var fields map[string]string
	err := r.do(func(cl *redis.Client) (err error) {
		fields, err = cl.HGetAll(ctx, r.silencesKey()).Result()
		return err
	})
	if err != nil {
		return nil, r.metrics.done(opSilences, err)
	}
	values := make([][]byte, 0, len(fields))
	for _, text := range fields {
		values = append(values, []byte(text))
	}
	current, over, err := sortSilences(values, time.Now())
	if err != nil {
		return nil, r.metrics.done(opSilences, err)
	}
	if len(over) > 0 { // tidying; the next reader does it if this fails
		_ = r.do(func(cl *redis.Client) error { return cl.HDel(ctx, r.silencesKey(), over...).Err() })
	}
	return current, nil
}

// PutSilence stores a silence, or changes the one with its id, until its end.
func (r *Redis) PutSilence(ctx context.Context, s events.Silence) error {
	data, err := encode(s)
	if err == nil {
		err = checkNames(s.ID)
	}
	if err == nil {
		life := max(time.Until(s.Until), time.Minute)
		err = r.do(func(cl *redis.Client) error {
			return redis.NewScript(silenceScript).Run(ctx, cl, []string{r.silencesKey()},
				s.ID, data, life.Milliseconds()).Err()
		})
	}
	return r.metrics.done(opPutSilence, err)
}

// DeleteSilence ends a silence. One that is not there is done.
func (r *Redis) DeleteSilence(ctx context.Context, id string) error {
	return r.metrics.done(opPutSilence, r.do(func(cl *redis.Client) error {
		return cl.HDel(ctx, r.silencesKey(), id).Err()
	}))
}
