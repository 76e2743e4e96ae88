package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
)

// usage is what a process has used so far.
type usage struct {
	CPU        float64 `json:"cpu_s"` // seconds, user and system
	RSS        int64   `json:"rss"`   // bytes resident now
	Heap       uint64  `json:"heap"`  // bytes in use by Go values
	Stacks     uint64  `json:"stacks"`
	Goroutines int     `json:"goroutines"`
}

type usageArgs struct {
	// Collect gives unused memory back to the system first, so that what is
	// resident is what is needed.
	Collect bool `json:"collect"`
}

func usageOp(ctx context.Context, a usageArgs) (any, error) {
	if a.Collect {
		runtime.GC()
		debug.FreeOSMemory()
	}
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return nil, fmt.Errorf("read own usage: %w", err)
	}
	rss, err := resident(ctx)
	if err != nil {
		return nil, err
	}
	var m runtime.MemStats
	if a.Collect { // stops the world, so not while something is measured
		runtime.ReadMemStats(&m)
	}
	return usage{
		CPU: float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9, RSS: rss, Heap: m.HeapInuse, Stacks: m.StackInuse,
		Goroutines: runtime.NumGoroutine(),
	}, nil
}

// resident is the resident memory of this process: from /proc, else from ps.
func resident(ctx context.Context) (int64, error) {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range bytes.Lines(status) {
			if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
				return kilobytes(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"))
			}
		}
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(os.Getpid())).Output()
	if err != nil {
		return 0, fmt.Errorf("read own memory: %w", err)
	}
	return kilobytes(strings.TrimSpace(string(out)))
}

func kilobytes(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read own memory: %w", err)
	}
	return n << 10, nil
}

// profiler writes profiles of a part.
type profiler struct{ file *os.File }

type profileArgs struct {
	File string `json:"file"` // empty: end the CPU profile that runs
	Heap bool   `json:"heap"` // write what is in use now, instead of beginning a CPU profile
}

func (p *profiler) op(_ context.Context, a profileArgs) (any, error) {
	if a.Heap {
		return nil, writeHeap(a.File)
	}
	if a.File == "" {
		if p.file == nil {
			return nil, errors.New("no profile runs")
		}
		pprof.StopCPUProfile()
		err := p.file.Close()
		p.file = nil
		return nil, err
	}
	f, err := os.Create(a.File)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	p.file = f
	return nil, pprof.StartCPUProfile(f)
}

func writeHeap(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}
