package envoy

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// exchange is what all connections share: the lines to the hosts, and the memory
// that replies are read into. It is made for holds: a call is given a place on a
// line and goes there, without what a general transport keeps for a request that
// waits, and without its ways to send one again.
type exchange struct {
	transport *http.Transport // sets up connections
	options   HTTPOptions
	slates    slates

	mu    sync.Mutex
	lines map[[2]string]*line // by scheme and host: as many as there are base URLs
}

// RoundTrip implements http.RoundTripper. An error of a call that found no place
// is an *unreached.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := x.line(req.URL).reserve(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, &unreached{err}
	}
	return c.RoundTrip(req)
}

// unreached says that there was no connection.
type unreached struct{ error }

// Unwrap gives the cause.
func (u *unreached) Unwrap() error { return u.error }

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (x *exchange) CloseIdleConnections() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.lines {
		l.closeIdle()
	}
}

func (x *exchange) line(u *url.URL) *line {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]string{u.Scheme, u.Host}
	l, ok := x.lines[key]
	if !ok {
		l = &line{exchange: x, scheme: u.Scheme, address: address(u)}
		x.lines[key] = l
	}
	return l
}

func address(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// line is the connections to one host. A call takes a place on one that has room,
// sets up another if few are doing so, or waits until something has changed. A
// hundred calls that begin together thus do not dial a hundred times before the
// first connection can take them all.
type line struct {
	exchange *exchange
	scheme   string
	address  string

	mu      sync.Mutex
	conns   []*conn
	dialing int
	change  chan struct{} // closed at the next change; nil: nobody waits for it
}

// conn is one connection. Its methods may call back into the line, so they are
// called without the line's lock.
type conn struct {
	*http.ClientConn

	// Guarded by the line.
	room    bool // as far as is known
	changes int  // that net/http has told of
}

// reserve gives a connection with a place taken on it.
func (l *line) reserve(ctx context.Context) (*http.ClientConn, error) {
	for {
		c, changes, dial, change := l.find()
		switch {
		case c != nil && c.Reserve() == nil:
			return c.ClientConn, nil
		case c != nil:
			l.full(c, changes)
		case dial:
			return l.dial(ctx)
		default:
			select {
			case <-change:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// find gives a connection that may have room. Without one it grants a dial, or
// gives what to wait for.
func (l *line) find() (c *conn, changes int, dial bool, change chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		if c.room {
			return c, c.changes, false, nil
		}
	}
	if o := l.exchange.options; l.dialing < o.DialsPerHost && len(l.conns)+l.dialing < o.ConnsPerHost {
		l.dialing++
		return nil, 0, true, nil
	}
	if l.change == nil {
		l.change = make(chan struct{})
	}
	return nil, 0, false, l.change
}

// full notes that a connection had no room, unless it has changed meanwhile.
func (l *line) full(c *conn, changes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.changes == changes {
		c.room = false
	}
}

// dial sets up a connection and takes the first place on it.
func (l *line) dial(ctx context.Context) (*http.ClientConn, error) {
	cc, err := l.exchange.transport.NewClientConn(ctx, l.scheme, l.address)
	if err == nil {
		if err = cc.Reserve(); err != nil {
			_ = cc.Close()
		}
	}
	c := &conn{ClientConn: cc, room: true}
	l.mu.Lock()
	l.dialing--
	if err == nil {
		l.conns = append(l.conns, c)
	}
	l.tellLocked()
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	cc.SetStateHook(func(cc *http.ClientConn) { l.changed(c, cc.Err() != nil) })
	return cc, nil
}

// changed hears from net/http that a connection has room again, or is closed.
func (l *line) changed(c *conn, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.room, c.changes = !closed, c.changes+1
	if closed {
		l.conns = slices.DeleteFunc(l.conns, func(o *conn) bool { return o == c })
	}
	l.tellLocked()
}

// tellLocked wakes those who wait for a change.
func (l *line) tellLocked() {
	if l.change != nil {
		close(l.change)
		l.change = nil
	}
}

func (l *line) closeIdle() {
	l.mu.Lock()
	conns := slices.Clone(l.conns)
	l.mu.Unlock()
	for _, c := range conns {
		if c.InFlight() == 0 {
			_ = c.Close()
		}
	}
}
