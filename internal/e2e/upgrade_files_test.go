package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/events"
)

// preserve adds a silence, and keeps what is recorded from growing old: state lives for 30 days.
func (s *site) preserve() {
	s.t.Helper()
	ctx, b := s.t.Context(), s.bus()
	defer b.Close(context.WithoutCancel(ctx))
	var store console.Silences
	if s.outside {
		r, err := dedupe.OpenRedis(ctx, dedupe.RedisOptions{URL: s.redis.URL()})
		if err != nil {
			s.t.Fatal(err)
		}
		defer r.Close()
		store = r
	} else {
		kv, err := dedupe.OpenKV(ctx, b.JetStream(), dedupe.KVOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		store = kv
	}
	if err := store.PutSilence(ctx, events.Silence{
		ID: "sil_0000000000000001", Match: `connection == "elsewhere"`, Until: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		Why: "a silence of the previous release", By: "test",
	}); err != nil {
		s.t.Fatal(err)
	}
	if s.outside {
		s.export()
		return
	}
	kept, err := b.JetStream().Stream(ctx, "KV_herald_state")
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := kept.CachedInfo().Config
	cfg.MaxAge = 0
	if _, err := b.JetStream().UpdateStream(ctx, cfg); err != nil {
		s.t.Fatal(err)
	}
}

// export writes the state of Redis as text: its own dump would forget what has expired when it is read.
func (s *site) export() {
	s.t.Helper()
	ctx, c := s.t.Context(), s.redis.Client()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]any{}
	for _, k := range keys {
		if ttl := c.PTTL(ctx, k).Val(); ttl > 0 && ttl < time.Hour {
			continue // leases, and who is there
		}
		switch kind := c.Type(ctx, k).Val(); kind {
		case "string":
			out[k] = c.Get(ctx, k).Val()
		case "hash":
			out[k] = c.HGetAll(ctx, k).Val()
		default:
			s.t.Fatalf("%s is a %s, which this test does not export", k, kind)
		}
	}
	body, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.files+".redis.json", append(body, '\n'), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// restore fills a new Redis with what was exported.
func (s *site) restore() {
	s.t.Helper()
	var in map[string]any
	if err := json.Unmarshal([]byte(readFile(s.t, s.files+".redis.json")), &in); err != nil {
		s.t.Fatal(err)
	}
	ctx, c := s.t.Context(), s.redis.Client()
	if len(in) == 0 {
		s.t.Fatal("no state was recorded")
	}
	for k, v := range in {
		var cmd redis.Cmder
		switch v := v.(type) {
		case string:
			cmd = c.Set(ctx, k, v, 30*24*time.Hour)
		default:
			cmd = c.HSet(ctx, k, v)
		}
		if cmd.Err() != nil {
			s.t.Fatal(cmd.Err())
		}
	}
}

// serve runs a NATS server over a folder.
func serve(t *testing.T, dir string) (url string, stop func()) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{ServerName: "outside", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	stop = func() { srv.Shutdown(); srv.WaitForShutdown() }
	t.Cleanup(stop)
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	return srv.ClientURL(), stop
}

func pack(t *testing.T, dir, file string) {
	t.Helper()
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(zip)
	if err := out.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	zip, err := gzip.NewReader(strings.NewReader(readFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !fs.ValidPath(strings.TrimSuffix(h.Name, "/")) {
			t.Fatal(h, err)
		}
		path := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			var body []byte
			if body, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(path, body, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
