package envoysim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve runs the Sim behind a listener until the context ends: Run, and HTTP/1.1 and HTTP/2 without TLS. At the end all
// holds are cut at once and other requests get five seconds. It closes the listener.
func (s *Sim) Serve(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, Protocols: protocols,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	served, moved := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	go func() { moved <- s.Run(base) }()
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
	}
	cut()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	errs := errors.Join(failed, server.Shutdown(last), <-moved)
	if failed == nil {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			errs = errors.Join(errs, err)
		}
	}
	if errs != nil {
		return fmt.Errorf("serve: %w", errs)
	}
	return nil
}
