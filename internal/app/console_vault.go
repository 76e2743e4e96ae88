package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// vault is everything that is stored, for a search.
type vault struct {
	app    *App
	stores *stores
}

// shortest is the least length of a secret that is searched for: a shorter one
// would be found everywhere.
const shortest = 6

// Secrets reads every secret that the configuration refers to, and those of the
// files in connections_dir.
func (v *vault) Secrets(ctx context.Context) (known []console.Secret, unread []string) {
	sources := map[string]secret.Source{}
	cfg := v.app.wiring().cfg // the one in force, also after a reload
	collect(reflect.ValueOf(cfg), sources)
	if all, err := cfg.AllConnections(); err == nil { //nolint:contextcheck // it reads small local files
		collect(reflect.ValueOf(all), sources)
	} else {
		unread = append(unread, "connections_dir")
	}
	for name, src := range sources {
		value, err := src.Read(ctx)
		switch {
		case err != nil:
			unread = append(unread, name)
		case len(value.Reveal()) >= shortest:
			known = append(known, console.Secret{Name: name, In: func(text string) bool {
				return secret.RedactText(text, value) != text
			}})
		}
	}
	return known, unread
}

// collect finds every reference to a secret in a value, by its text. Commands
// are run, as they are when the secret is used.
func collect(v reflect.Value, into map[string]secret.Source) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			collect(v.Elem(), into)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			collect(v.Index(i), into)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			collect(it.Value(), into)
		}
	case reflect.Struct:
		switch x := v.Interface().(type) {
		case secret.Source:
			if !x.IsZero() {
				into[x.String()] = x
			}
			return
		case config.Text:
			if !x.Source.IsZero() {
				into[x.Source.String()] = x.Source
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				collect(v.Field(i), into)
			}
		}
	default:
	}
}

// Records walks over everything in the streams and in the state store.
func (v *vault) Records(ctx context.Context) iter.Seq2[console.Record, error] {
	return func(yield func(console.Record, error) bool) {
		stores := []string{events.StreamPurchases, events.StreamDead, events.StreamDeliveries, "KV_herald_state", "KV_herald_state_silences"}
		for _, name := range stores {
			if !v.stream(ctx, name, yield) {
				return
			}
		}
		if v.app.Config.Redis.URL != "" {
			v.redis(ctx, yield)
		}
	}
}

// stream walks over one stream as it is stored, headers and all. It reports
// whether to go on.
func (v *vault) stream(ctx context.Context, name string, yield func(console.Record, error) bool) bool {
	js := v.stores.bus.JetStream()
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return true // the state is kept elsewhere
	}
	if err != nil {
		yield(console.Record{}, fmt.Errorf("open stream %s: %w", name, err))
		return false
	}
	if s.CachedInfo().State.Msgs == 0 {
		return true
	}
	cons, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		yield(console.Record{}, fmt.Errorf("read stream %s: %w", name, err))
		return false
	}
	msgs, err := cons.Messages()
	if err != nil {
		yield(console.Record{}, fmt.Errorf("read stream %s: %w", name, err))
		return false
	}
	defer msgs.Stop()
	for {
		msg, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			yield(console.Record{}, fmt.Errorf("read stream %s: %w", name, err))
			return false
		}
		meta, err := msg.Metadata()
		if err != nil {
			yield(console.Record{}, fmt.Errorf("read stream %s: %w", name, err))
			return false
		}
		if !yield(recordOf(name, msg, meta), nil) {
			return false
		}
		if meta.NumPending == 0 {
			return true
		}
	}
}

// recordOf is a message as text. A dead letter carries its event as bytes,
// which JSON writes in base64; they are searched as they are.
func recordOf(store string, msg jetstream.Msg, meta *jetstream.MsgMetadata) console.Record {
	var b strings.Builder
	for k, values := range msg.Headers() {
		fmt.Fprintf(&b, "%s: %s\n", k, strings.Join(values, ", "))
	}
	b.WriteString(msg.Subject() + "\n")
	b.Write(msg.Data())
	if store == events.StreamDead {
		var d events.DeadLetter
		if json.Unmarshal(msg.Data(), &d) == nil {
			b.WriteString("\n")
			b.Write(d.Event)
		}
	}
	return console.Record{Store: store, Place: msg.Subject(), Sequence: meta.Sequence.Stream, Text: b.String()}
}

const (
	redisBatch = 500
	redisWait  = 5 * time.Second
)

// redis walks over our keys with a connection of its own, so that the state's
// own is not kept waiting.
func (v *vault) redis(ctx context.Context, yield func(console.Record, error) bool) {
	client, err := v.redisClient()
	if err != nil {
		yield(console.Record{}, err)
		return
	}
	defer client.Close() //nolint:errcheck // read only
	for it := client.Scan(ctx, 0, "herald:*", redisBatch).Iterator(); ; {
		if !it.Next(ctx) {
			if err := it.Err(); err != nil {
				yield(console.Record{}, fmt.Errorf("walk over redis: %w", err))
			}
			return
		}
		text, err := redisText(ctx, client, it.Val())
		if errors.Is(err, redis.Nil) {
			continue // gone meanwhile
		}
		if err != nil {
			yield(console.Record{}, fmt.Errorf("read redis: %w", err))
			return
		}
		if !yield(console.Record{Store: "redis", Place: it.Val(), Text: it.Val() + "\n" + text}, nil) {
			return
		}
	}
}

func redisText(ctx context.Context, client *redis.Client, key string) (string, error) {
	kind, err := client.Type(ctx, key).Result()
	if err != nil {
		return "", err
	}
	switch kind {
	case "string":
		return client.Get(ctx, key).Result()
	case "hash":
		all, err := client.HGetAll(ctx, key).Result()
		var b strings.Builder
		for k, value := range all {
			b.WriteString(k + "\n" + value + "\n")
		}
		return b.String(), err
	case "zset": // who is there
		all, err := client.ZRange(ctx, key, 0, -1).Result()
		return strings.Join(all, "\n"), err
	case "none":
		return "", redis.Nil
	}
	return "", fmt.Errorf("key %s is a %s, which nobody here writes", key, kind)
}

func (v *vault) redisClient() (*redis.Client, error) {
	o, err := redisOptions(v.app.Config.Redis)
	if err != nil {
		return nil, err
	}
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, errors.New("parse redis url: not of the form redis://host:port/db")
	}
	opts.CredentialsProviderContext = o.Credentials
	if o.TLS != nil {
		opts.TLSConfig = o.TLS.Clone()
		if opts.TLSConfig.ServerName == "" {
			opts.TLSConfig.ServerName, _, _ = strings.Cut(opts.Addr, ":")
		}
	}
	opts.ContextTimeoutEnabled, opts.DialTimeout, opts.ReadTimeout = true, redisWait, redisWait
	return redis.NewClient(opts), nil
}
