//go:build !unix

package stream

import "errors"

// ErrDirInUse says that another process owns a data folder.
var ErrDirInUse = errors.New("the data folder is in use")

// LockDir refuses: without a lock that ends with its process, nothing stops a
// second server on the same folder, which loses acknowledged events.
func LockDir(string) (unlock func() error, err error) {
	return nil, errors.New("lock the data folder: not possible on this system")
}
