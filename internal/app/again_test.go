package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A server that stores nothing is begun again once there is room, not before, and not for a passing trouble.
func TestMendBeginsAgainOnceThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		var trouble, space error
		var asked error
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- mend(ctx, func() error { return trouble }, func() error { return space }, func(err error) { asked = err })
		}()
		pass := func(d time.Duration, what string, want bool) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if (asked != nil) != want {
				t.Errorf("%s: asked for a new start: %v", what, asked)
			}
		}
		pass(time.Hour, "all is well", false)
		trouble = full
		pass(mendAfter, "not for long enough", false)
		trouble = nil
		pass(mendAfter, "it has passed", false)
		trouble, space = full, full
		pass(time.Hour, "no room", false)
		space = nil
		pass(mendLook, "room again", true)
		if !errors.Is(asked, errBeginAgain) || errors.Is(asked, full) {
			t.Errorf("asked with %v", asked)
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
