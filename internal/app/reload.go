package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/watch"
)

// lookEvery is how often the file and the folder of connections are looked at
// for changes.
const lookEvery = 2 * time.Second

// reloader puts a changed configuration in force: everything that can fail
// first, then one swap. A bad file changes nothing.
type reloader struct {
	a       *App
	st      *stores
	crew    *crew
	watcher *watch.Watcher // nil where this role watches nothing
	silence *silences

	one     sync.Mutex // a reload at a time
	success prometheus.Gauge
	total   *prometheus.CounterVec
}

func newReloader(a *App, st *stores, c *crew, w *watch.Watcher, s *silences) *reloader {
	f := promauto.With(a.registry)
	r := &reloader{a: a, st: st, crew: c, watcher: w, silence: s,
		success: f.NewGauge(prometheus.GaugeOpts{Name: "herald_config_reload_success",
			Help: "1 if the newest configuration file is in force, 0 if it was refused."}),
		total: f.NewCounterVec(prometheus.CounterOpts{Name: "herald_config_reloads_total",
			Help: "Reloads of the configuration, by result."}, []string{"result"}),
	}
	r.success.Set(1)
	return r
}

// run reloads at each hangup, whenever the file or the folder of connections has another content, and when what a
// refused configuration lacked is there.
func (r *reloader) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, lacks := r.digest(), ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.a.Hangup:
		case <-tick.C:
			if r.digest() == last && (lacks == "" || r.lacks() == lacks) { //nolint:contextcheck // it reads small local files
				continue
			}
		}
		last, lacks = r.digest(), r.lacks() //nolint:contextcheck // it reads small local files
		_ = r.reload(ctx)                   // it has told
	}
}

// lacks says what is wrong with the file and what it refers to; empty: nothing. A token can come after the connection
// that it is for, and nothing else tells of that.
func (r *reloader) lacks() string {
	cfg, err := load(r.a.File, r.a.Role)
	if err == nil && r.watcher != nil {
		_, err = cfg.AllConnections()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// digest changes with the content of what is watched. A file that cannot be read
// now counts as another content; the reload says why.
func (r *reloader) digest() string {
	h := sha256.New()
	if r.a.File != "" {
		b, err := os.ReadFile(r.a.File)
		fmt.Fprintf(h, "%x %t\n", sha256.Sum256(b), err == nil)
	}
	if dir := r.a.wiring().cfg.ConnectionsDir; dir != "" && r.watcher != nil {
		d, err := config.DirDigest(string(dir))
		fmt.Fprintf(h, "%s %t\n", d, err == nil)
	}
	return string(h.Sum(nil))
}

// ServeHTTP answers POST /v1/reload: 204 when the file is in force, 422 with the
// mistakes when it was refused.
func (r *reloader) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	if err := r.reload(req.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// reload reads the file and puts it in force, or says why not.
func (r *reloader) reload(ctx context.Context) error {
	r.one.Lock()
	defer r.one.Unlock()
	err := r.try(ctx)
	if err != nil {
		r.success.Set(0)
		r.total.WithLabelValues("refused").Inc()
		r.a.Log.Error("configuration refused; the one before stays in force", "file", r.a.File, "err", err)
		return err
	}
	r.success.Set(1)
	r.total.WithLabelValues("applied").Inc()
	p := r.a.wiring()
	r.a.Log.Info("configuration in force", "file", r.a.File, "connections", len(p.hosts), "sinks", len(p.sinks))
	return nil
}

func (r *reloader) try(ctx context.Context) error {
	if r.a.File == "" {
		return errors.New("this process was started without a file")
	}
	cfg, err := load(r.a.File, r.a.Role) //nolint:contextcheck // it reads small local files
	if err != nil {
		return err
	}
	if err := fixed(r.a.wiring().cfg, cfg); err != nil {
		return err
	}
	next, err := build(ctx, cfg, r.a.Role, r.a.Version, r.a.wiring())
	if err != nil {
		return err
	}
	loops, err := r.a.buildLoops(ctx, next, r.st, r.silence.current)
	if err != nil {
		return err
	}
	return r.swap(ctx, next, loops)
}

// swap is past all that can fail but the end of the process.
func (r *reloader) swap(ctx context.Context, next *wiring, loops []*deliver.Loop) error {
	if r.a.delivers() {
		if err := r.crew.replace(ctx, loops); err != nil {
			return err
		}
	}
	if r.watcher != nil {
		r.watcher.Update(next.conns())
	}
	r.a.now.Store(next)
	return nil
}

// fixed refuses a change of what a process is built on.
func fixed(old, now *config.Config) error {
	var mistakes config.Errors
	for path, same := range map[string]bool{
		"nats":           sameNATS(old.NATS, now.NATS),
		"redis":          sameRedis(old.Redis, now.Redis),
		"data_dir":       old.DataDir == now.DataDir,
		"http":           old.HTTP.Listen == now.HTTP.Listen && old.HTTP.Token.Equal(now.HTTP.Token),
		"log":            old.Log == now.Log,
		"tracing":        old.Tracing == now.Tracing,
		"watch":          old.Watch == now.Watch,
		"events":         old.Events == now.Events,
		"shutdown_grace": old.ShutdownGrace == now.ShutdownGrace,
	} {
		if !same {
			m := mistake(now, path, errors.New("cannot change while the process runs"))
			m.Hint = "restart it; nothing is lost by that"
			mistakes = append(mistakes, m)
		}
	}
	if len(mistakes) > 0 {
		return mistakes
	}
	return nil
}

// sameNATS compares by reference: a secret that changed behind the same reference
// is read again at the next connection anyway.
func sameNATS(a, b config.NATS) bool {
	same := a.Credentials.Equal(b.Credentials)
	a.Credentials = b.Credentials
	return same && reflect.DeepEqual(a, b)
}

func sameRedis(a, b config.Redis) bool {
	same := a.Password.Equal(b.Password)
	a.Password = b.Password
	return same && reflect.DeepEqual(a, b)
}
