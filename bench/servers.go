package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	natsModule  = "github.com/nats-io/nats-server/v2"
	readyWithin = 30 * time.Second
	pollEvery   = 2 * time.Millisecond
)

// server is a process that is not ours.
type server struct {
	cmd *exec.Cmd
	url string
}

// stop ends the process and waits for it.
func (s *server) stop() {
	if s == nil || s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	_ = s.cmd.Wait() // how it ended does not matter any more
}

// startNATS runs the server of the version in go.mod, which is built once and
// kept in the user's cache folder.
func startNATS(ctx context.Context, dir string) (*server, error) {
	binary, err := natsBinary(ctx)
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "-a", "127.0.0.1", "-p", strconv.Itoa(port), "-js", "-sd", filepath.Join(dir, "nats")) //nolint:noctx // ended by stop
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start nats-server: %w", err)
	}
	s := &server{cmd: cmd, url: "nats://127.0.0.1:" + strconv.Itoa(port)}
	if err := awaitPort(ctx, port); err != nil {
		s.stop()
		return nil, fmt.Errorf("start nats-server: %w", err)
	}
	return s, nil
}

func natsBinary(ctx context.Context) (string, error) {
	version, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}}", natsModule)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "herald-natstest") // shared with the tests
	binary := filepath.Join(dir, "nats-server-"+version+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	// Built aside and renamed, since others may build at the same time.
	aside, err := os.MkdirTemp(dir, "building-*")
	if err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(aside) }()
	built := filepath.Join(aside, "nats-server")
	if _, err := goCommand(ctx, "build", "-o", built, natsModule); err != nil {
		return "", err
	}
	if err := os.Rename(built, binary); err != nil {
		return "", fmt.Errorf("keep the built server: %w", err)
	}
	return binary, nil
}

func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run go %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// startRedis runs a redis-server of its own where there is a program for it, and
// uses the server that REDIS_URL names otherwise.
func startRedis(ctx context.Context, dir string) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if url := os.Getenv("REDIS_URL"); url != "" {
			return &server{url: url}, awaitRedis(ctx, url)
		}
		return nil, errors.New("redis-server is needed: install it, or set REDIS_URL")
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "redis")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for redis: %w", err)
	}
	cmd := exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", data, //nolint:noctx // ended by stop
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s := &server{cmd: cmd, url: "redis://127.0.0.1:" + strconv.Itoa(port) + "/0"}
	if err := awaitRedis(ctx, s.url); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func awaitRedis(ctx context.Context, url string) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return errors.New("parse redis url: not of the form redis://host:port/db")
	}
	redis.SetLogger(&logging.VoidLogger{}) // dials that fail before the server listens are no news
	opts.DialerRetries, opts.MaxRetries = 1, -1
	c := redis.NewClient(opts)
	defer func() { _ = c.Close() }()
	return await(ctx, readyWithin, "wait for redis", func() error { return c.Ping(ctx).Err() })
}

// wipeRedis removes the keys of this run from a server that is not ours.
func wipeRedis(ctx context.Context, url, prefix string) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return errors.New("parse redis url: not of the form redis://host:port/db")
	}
	c := redis.NewClient(opts)
	defer func() { _ = c.Close() }()
	keys := c.Scan(ctx, 0, prefix+":*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("remove keys: %w", err)
		}
	}
	return keys.Err()
}

// freePort finds a loopback port that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return strconv.Atoi(port)
}

func awaitPort(ctx context.Context, port int) error {
	return await(ctx, readyWithin, "wait for the port", func() error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// await asks again and again until check gives no error, for so long at the most.
func await(ctx context.Context, limit time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}
