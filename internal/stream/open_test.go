package stream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

func TestEmbeddedKeepsItsDataOverARestart(t *testing.T) {
	dir := t.TempDir()
	opts := stream.Options{Embedded: &stream.Embedded{Dir: dir, SyncAlways: true}, MaxBytes: 64 << 20}
	b, err := stream.Open(t.Context(), opts)
	must(t, err)
	created, err := b.StreamID(t.Context())
	must(t, err)
	seq := publish(t, b, reading(1, 0, 1, 0), 0)
	c := b.Consumer("orders")
	must(t, c.Begin(t.Context(), stream.StartResume))
	_, msg, err := c.Next(t.Context())
	must(t, err)
	must(t, msg.DoubleAck(t.Context()))
	c.Stop()
	must(t, b.Healthy())
	must(t, b.Close(t.Context()))
	must(t, b.Close(t.Context()))
	if b.Healthy() == nil {
		t.Error("healthy after Close")
	}
	if _, err := b.Publish(t.Context(), reading(2, 0, 1, 0), 0); err == nil {
		t.Error("a closed bus publishes")
	}

	b = open(t, opts)
	again, err := b.StreamID(t.Context())
	if err != nil || !again.Equal(created) {
		t.Errorf("the stream was made at %s and now at %s, %v", created, again, err)
	}
	e, last, err := b.Last(t.Context(), connection, purchaseID(1))
	if err != nil || last != seq || e == nil || e.ID != reading(1, 0, 1, 0).ID {
		t.Errorf("last: %v, %d, %v", e, last, err)
	}
	if floor, err := b.Consumer("orders").Floor(t.Context()); err != nil || floor != seq {
		t.Errorf("the floor is %d, %v, want %d", floor, err, seq)
	}
	if b.Conn().ConnectedAddr() != "pipe" {
		t.Errorf("the embedded server is reached over %q, not within the process", b.Conn().ConnectedAddr())
	}
}

func TestEmbeddedTakesANewSize(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int64{32 << 20, 64 << 20, 16 << 20, 20 << 30, 16 << 20} {
		b, err := stream.Open(t.Context(), stream.Options{Embedded: &stream.Embedded{Dir: dir}, MaxBytes: size})
		must(t, err)
		s, err := b.JetStream().Stream(t.Context(), events.StreamPurchases)
		must(t, err)
		if got := s.CachedInfo().Config.MaxBytes; got != size {
			t.Errorf("max_bytes is %d, want %d", got, size)
		}
		must(t, b.Close(t.Context()))
	}
}

func TestOpenRefusesOddOptions(t *testing.T) {
	cases := map[string]stream.Options{
		"Neither":          {},
		"Both":             {URL: "nats://127.0.0.1:1", Embedded: &stream.Embedded{Dir: t.TempDir()}},
		"NoFolder":         {Embedded: &stream.Embedded{}},
		"EmbeddedReplicas": {Embedded: &stream.Embedded{Dir: t.TempDir()}, Replicas: 3},
		"BadURL":           {URL: "nats://[::1"},
	}
	for name, opts := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			b, err := stream.Open(ctx, opts)
			if err == nil {
				_ = b.Close(ctx)
				t.Fatal("it opens")
			}
			if ctx.Err() != nil {
				t.Errorf("it was waited for: %v", err)
			}
		})
	}
}

func TestOpenRefusesUnreadableCredentials(t *testing.T) {
	srv := natstest.Start(t)
	for name, credentials := range map[string]func() ([]byte, error){
		"Missing": func() ([]byte, error) { return os.ReadFile("does-not-exist") },
		"Garbage": func() ([]byte, error) { return []byte("not a credentials file"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			// A server without accounts asks for no credentials; that is its answer too.
			b, err := stream.Open(ctx, stream.Options{URL: srv.URL(), Credentials: credentials})
			if err == nil {
				_ = b.Close(ctx)
				t.Fatal("it opens")
			}
			if ctx.Err() != nil {
				t.Errorf("it was waited for: %v", err)
			}
		})
	}
}

func TestLockDir(t *testing.T) {
	dir := t.TempDir() + "/made/here"
	unlock, err := stream.LockDir(dir)
	must(t, err)
	_, err = stream.LockDir(dir)
	if !errors.Is(err, stream.ErrDirInUse) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("a second owner gets %v", err)
	}
	opts := stream.Options{Embedded: &stream.Embedded{Dir: dir}, MaxBytes: 16 << 20}
	if _, err := stream.Open(t.Context(), opts); !errors.Is(err, stream.ErrDirInUse) {
		t.Errorf("a server on a folder in use: %v", err)
	}
	opts.Embedded.Locked = true
	b, err := stream.Open(t.Context(), opts)
	must(t, err)
	must(t, b.Close(t.Context()))
	must(t, unlock())

	again, err := stream.LockDir(dir)
	must(t, err)
	must(t, again())
}

// A process that is killed gives its folder back.
func TestLockDirOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestHoldLock$")
	child.Env = append(os.Environ(), "HERALD_TEST_LOCK="+dir)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	said := make([]byte, len(lockHeld))
	if _, err := out.Read(said); err != nil || string(said) != lockHeld {
		t.Fatalf("the child says %q, %v", said, err)
	}
	_, err = stream.LockDir(dir)
	if !errors.Is(err, stream.ErrDirInUse) || !strings.Contains(err.Error(), strconv.Itoa(child.Process.Pid)) {
		t.Errorf("while process %d holds it: %v", child.Process.Pid, err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // "signal: killed"
	unlock, err := stream.LockDir(dir)
	must(t, err)
	must(t, unlock())
}

const lockHeld = "lock is held\n"

// TestHoldLock is the child of the test above; alone it only takes and gives
// back a lock.
func TestHoldLock(t *testing.T) {
	dir := os.Getenv("HERALD_TEST_LOCK")
	child := dir != ""
	if !child {
		dir = t.TempDir()
	}
	unlock, err := stream.LockDir(dir)
	must(t, err)
	if child {
		_, _ = os.Stdout.WriteString(lockHeld)
		<-t.Context().Done() // killed before
	}
	must(t, unlock())
}

// What is ours in a stream is set right; replicas, size and placement stay.
func TestStreamsChangedByHand(t *testing.T) {
	srv := natstest.Start(t)
	js := rawJS(t, srv.URL())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: events.StreamPurchases, Subjects: []string{"envoy.purchase.*.*"}, MaxBytes: 8 << 20,
		MaxAge: time.Hour, Discard: jetstream.DiscardOld, Duplicates: time.Minute, MaxMsgsPerSubject: 1,
	})
	must(t, err)
	var said journal
	b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger()})
	check := func(when string) {
		t.Helper()
		s, err := js.Stream(t.Context(), events.StreamPurchases)
		must(t, err)
		cfg := s.CachedInfo().Config
		if len(cfg.Subjects) != 2 || cfg.MaxAge != stream.DefaultRetention || cfg.Discard != jetstream.DiscardNew ||
			cfg.Duplicates != 2*time.Minute || cfg.MaxMsgsPerSubject != -1 || !cfg.AllowDirect {
			t.Errorf("%s: the stream is %+v", when, cfg)
		}
		if cfg.MaxBytes != 8<<20 {
			t.Errorf("%s: the operator's size was changed to %d", when, cfg.MaxBytes)
		}
	}
	check("at the opening")
	if said.count("stream differed from its definition") != 1 {
		t.Errorf("the change is not said:\n%s", said.String())
	}

	// While it runs: deleted by hand, noticed by the next publish.
	must(t, js.DeleteStream(t.Context(), events.StreamPurchases))
	eventually(t, "an event is stored again", func() bool {
		_, err := b.Publish(t.Context(), reading(1, 0, 1, 0), 0)
		return err == nil
	})
	eventually(t, "the deletion is said", func() bool { return said.count("stream was missing and was made again") == 1 })
	must(t, b.Healthy())
}

func TestStreamDefinitions(t *testing.T) {
	srv := natstest.Start(t)
	openURL(t, srv.URL())
	js := rawJS(t, srv.URL())
	for name, want := range map[string]struct {
		age     time.Duration
		bytes   int64
		discard jetstream.DiscardPolicy
	}{
		events.StreamPurchases:  {168 * time.Hour, 64 << 20, jetstream.DiscardNew},
		events.StreamDead:       {0, 1 << 30, jetstream.DiscardNew},
		events.StreamDeliveries: {168 * time.Hour, 1 << 30, jetstream.DiscardOld},
	} {
		s, err := js.Stream(t.Context(), name)
		must(t, err)
		cfg := s.CachedInfo().Config
		if cfg.MaxAge != want.age || cfg.MaxBytes != want.bytes || cfg.Discard != want.discard ||
			cfg.Storage != jetstream.FileStorage || cfg.Replicas != 1 || !cfg.AllowDirect {
			t.Errorf("%s is %+v", name, cfg)
		}
	}
}

// oldServer greets as a server of a version does, and answers pings.
func oldServer(t *testing.T, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer conn.Close()
				_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"X\",\"version\":%q,\"headers\":true,\"max_payload\":1048576}\r\n", version)
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "PING") {
						_, _ = fmt.Fprint(conn, "PONG\r\n")
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); done.Wait() })
	return "nats://" + l.Addr().String()
}

func TestOpenRefusesAnOldServer(t *testing.T) {
	_, err := stream.Open(t.Context(), stream.Options{URL: oldServer(t, "2.10.29")})
	if !errors.Is(err, stream.ErrServerTooOld) || !strings.Contains(err.Error(), "2.10.29") || !strings.Contains(err.Error(), "2.11") {
		t.Errorf("got %v", err)
	}
}

func TestOpenWithAPassword(t *testing.T) {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Username: "herald", Password: "right-word",
	})
	must(t, err)
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	word := "wrong-word"
	opts := stream.Options{
		URL: srv.ClientURL(), MaxBytes: 16 << 20,
		User: func() (string, string, error) { return "herald", word, nil },
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = stream.Open(ctx, opts)
	if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), word) {
		t.Fatalf("a wrong password: %v", err)
	}
	inURL := opts
	inURL.User, inURL.URL = nil, strings.Replace(srv.ClientURL(), "://", "://herald:wrong-word@", 1)
	if _, err = stream.Open(ctx, inURL); err == nil || ctx.Err() != nil || strings.Contains(err.Error(), word) {
		t.Fatalf("a wrong password in the address: %v", err)
	}
	word = "right-word"
	open(t, opts)
}
