package watch

import "errors"

// ErrHalted is the answer of a watcher whose version Envoy refuses
// (CLIENT_UPDATE_REQUIRED): every connection is parked until it is updated.
var ErrHalted = errors.New("envoy refuses this version of the client: update Herald")

// Halted is ErrHalted while Envoy refuses this version of the client, else nil.
func (w *Watcher) Halted() error {
	if w.halted.Load() {
		return ErrHalted
	}
	return nil
}
