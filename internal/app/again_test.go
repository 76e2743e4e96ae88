package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A server that stores nothing is begun again once there is room, not before, and not for a passing trouble.
func TestMendBeginsAgainOnceThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		var mu sync.Mutex // time passing orders nothing for the race detector
		var trouble, space, asked error
		get := func(of *error) func() error {
			return func() error { mu.Lock(); defer mu.Unlock(); return *of }
		}
		set := func(t, s error) { mu.Lock(); defer mu.Unlock(); trouble, space = t, s }
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- mend(ctx, get(&trouble), get(&space), func(err error) { mu.Lock(); defer mu.Unlock(); asked = err })
		}()
		pass := func(d time.Duration, what string, want bool) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if err := get(&asked)(); (err != nil) != want {
				t.Errorf("%s: asked for a new start: %v", what, err)
			}
		}
		pass(time.Hour, "all is well", false)
		set(full, nil)
		pass(mendAfter, "not for long enough", false)
		set(nil, nil)
		pass(mendAfter, "it has passed", false)
		set(full, full)
		pass(time.Hour, "no room", false)
		set(full, nil)
		pass(mendLook, "room again", true)
		if err := get(&asked)(); !errors.Is(err, errBeginAgain) || errors.Is(err, full) {
			t.Errorf("asked with %v", err)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRoomIsTriedAndLeft(t *testing.T) {
	dir := t.TempDir()
	if err := roomIn(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := roomIn(filepath.Join(dir, "absent"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("there is room in a folder that is not there")
	}
}
