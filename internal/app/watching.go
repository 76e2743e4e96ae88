package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/watch"
)

// host is a connection with the entry of the file that it came from.
type host struct {
	cfg  config.Connection
	conn watch.Connection
}

// buildHosts turns the file's connections, and those of connections_dir, into
// what the watcher takes. All of them share one HTTP client. Those that have not
// changed since before are the same ones, so that nothing of theirs is cut.
func buildHosts(ctx context.Context, cfg *config.Config, version string, before *wiring) ([]host, error) {
	all, err := cfg.AllConnections() //nolint:contextcheck // it reads small local files
	if err != nil {
		return nil, err
	}
	out := make([]host, 0, len(all))
	budgets := sync.OnceValue(func() map[string]string { return before.budgets(ctx) }) // read only where one is new
	for _, c := range all {
		i := slices.IndexFunc(before.hosts, func(h host) bool { return sameConnection(h.cfg, c) })
		if i >= 0 {
			out = append(out, before.hosts[i])
			continue
		}
		conn := buildConnection(ctx, c, before.client, version)
		conn.BudgetKey = cmp.Or(budgets()[conn.BudgetKey], conn.BudgetKey)
		out = append(out, host{c, conn})
	}
	return out, nil
}

// budgets gives the budget that each token has now, by its key. A connection keeps its budget when its token is rotated,
// so that of a token may have the key of one before it.
func (w *wiring) budgets(ctx context.Context) map[string]string {
	out := make(map[string]string, len(w.hosts))
	for _, h := range w.hosts {
		out[budgetKey(ctx, h.cfg.Token)] = h.conn.BudgetKey
	}
	return out
}

// conns gives the connections for the watcher.
func (w *wiring) conns() []watch.Connection {
	out := make([]watch.Connection, 0, len(w.hosts))
	for _, h := range w.hosts {
		out = append(out, h.conn)
	}
	return out
}

func sameConnection(a, b config.Connection) bool {
	return a.Name == b.Name && a.BaseURL == b.BaseURL && a.Token.Equal(b.Token) && reflect.DeepEqual(a.Proof, b.Proof)
}

func buildConnection(ctx context.Context, c config.Connection, client *http.Client, version string) watch.Connection {
	token := &credential{src: c.Token}
	return watch.Connection{
		Name:  c.Name,
		Token: token.Token,
		Reader: envoy.New(envoy.Options{
			BaseURL: c.BaseURL, Token: token.Token, Proof: prover(c.Proof), HTTP: client, Version: version,
		}),
		TokenChanged: token.Changed,
		BudgetKey:    budgetKey(ctx, c.Token),
	}
}

// budgetKey is the same for connections with the same token and never shows it.
// A token that cannot be read yet counts as one of its own.
func budgetKey(ctx context.Context, src secret.Source) string {
	v, err := src.Read(ctx)
	if err != nil {
		return src.String()
	}
	sum := sha256.Sum256([]byte(v.Reveal()))
	return hex.EncodeToString(sum[:8])
}

func (a *App) watchOptions(st *stores, desk watch.Desk) watch.Options {
	w := a.Config.Watch
	return watch.Options{
		Connections: a.wiring().conns(),
		Policy: watch.Policy{
			RequestsPerMinute: w.RequestsPerMinute,
			LookEvery:         time.Duration(w.LookEvery),
			DiscoverEvery:     time.Duration(w.DiscoverEvery),
			HoldThroughReady:  w.HoldThroughReady,
			Others:            w.Others,
			GiveUp:            time.Duration(w.GiveUp),
			Retention:         time.Duration(a.Config.NATS.Retention),
			Personal:          a.Config.Events.IncludePersonal,
		},
		Publisher: st.bus, Cursors: st.state, Sets: st.state, Leases: st.leases, Desk: desk,
		Tracer: a.tracer, Log: a.Log, Metrics: a.registry,
	}
}
