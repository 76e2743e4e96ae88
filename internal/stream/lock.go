//go:build unix

package stream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile is the file in a data folder whose lock owns the folder.
const lockFile = "herald.lock"

// ErrDirInUse says that another process owns a data folder.
var ErrDirInUse = errors.New("the data folder is in use")

// LockDir makes dir, if need be, and owns it until unlock is called or the
// process ends, however it ends. A second owner gets ErrDirInUse with the
// process id of the first.
func LockDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: process %s works in %s; end it or choose another data_dir", ErrDirInUse, holder(f), dir)
		}
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := writePID(f); err != nil {
		_ = f.Close() // which also unlocks
		return nil, fmt.Errorf("write the lock of the data folder: %w", err)
	}
	// The file stays: removing it would let two processes lock different files
	// of the same name.
	return f.Close, nil
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(f *os.File) string {
	content, err := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(content))
	if err != nil || pid == "" {
		return "(unknown)"
	}
	return pid
}
