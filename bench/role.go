package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"
)

// roleCommand, as the first argument, makes this program one of the parts that
// a benchmark is played with.
const roleCommand = "role"

// The parts.
const (
	roleEnvoy    = "envoy"    // the stand-in that holds reads and changes purchases
	roleReceiver = "receiver" // takes webhooks
	roleHerald   = "herald"   // the product
	roleFloor    = "floor"    // the least programs
)

// lineLimit bounds one request or answer between the bench and a part.
const lineLimit = 1 << 20

// handler answers one request to a part.
type handler func(ctx context.Context, args json.RawMessage) (any, error)

// handle gives a handler its typed arguments.
func handle[A any](f func(context.Context, A) (any, error)) handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var a A
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		return f(ctx, a)
	}
}

type request struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// runRole plays a part until its standard input ends, so that a bench that dies
// leaves nothing behind. An interrupt is the bench's to act on.
func runRole(name string) int {
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ops, stop, err := newRole(ctx, name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	defer stop()
	ops["usage"] = handle(usageOp)
	profile := &profiler{}
	ops["profile"] = handle(profile.op)
	if err := serveRole(ctx, ops, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func newRole(ctx context.Context, name string) (ops map[string]handler, stop func(), err error) {
	switch name {
	case roleEnvoy:
		return newEnvoyRole(ctx)
	case roleReceiver:
		return newReceiverRole(ctx)
	case roleHerald:
		return newHeraldRole(ctx)
	case roleFloor:
		return newFloorRole(ctx)
	default:
		return nil, nil, fmt.Errorf("no part is called %q", name)
	}
}

func serveRole(ctx context.Context, ops map[string]handler, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineLimit)
	enc := json.NewEncoder(out)
	for lines.Scan() {
		if err := enc.Encode(answer(ctx, ops, lines.Bytes())); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return lines.Err()
}

func answer(ctx context.Context, ops map[string]handler, line []byte) response {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return response{Error: err.Error()}
	}
	op, ok := ops[r.Op]
	if !ok {
		return response{Error: fmt.Sprintf("no request is called %q", r.Op)}
	}
	result, err := op(ctx, r.Args)
	if err != nil {
		return response{Error: err.Error()}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return response{Error: err.Error()}
	}
	return response{Result: raw}
}

// part is a process that plays a part, as the bench sees it. Requests to one
// part go one after the other.
type part struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	mu    sync.Mutex
	lines *bufio.Scanner
}

func startPart(name string, stderr io.Writer) (*part, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	cmd := exec.Command(self, roleCommand, name) //nolint:noctx // ended by its input, see stop
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &part{name: name, cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	p.lines.Buffer(nil, lineLimit)
	return p, nil
}

// call makes one request. When ctx ends the part is ended too, since nothing else
// would make it answer.
func (p *part) call(ctx context.Context, op string, args, result any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("ask %s to %s: %w", p.name, op, err)
	}
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	if err := json.NewEncoder(p.in).Encode(request{Op: op, Args: raw}); err != nil {
		return fmt.Errorf("ask %s to %s: %w", p.name, op, errors.Join(err, ctx.Err()))
	}
	if !p.lines.Scan() {
		return fmt.Errorf("ask %s to %s: it has ended: %w", p.name, op, errors.Join(p.lines.Err(), ctx.Err()))
	}
	var r response
	if err := json.Unmarshal(p.lines.Bytes(), &r); err != nil {
		return fmt.Errorf("ask %s to %s: %w", p.name, op, err)
	}
	if r.Error != "" {
		return fmt.Errorf("ask %s to %s: %s", p.name, op, r.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// stop ends the process and waits for it.
func (p *part) stop() {
	_ = p.in.Close()
	timer := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait() // how it ended does not matter any more
}
