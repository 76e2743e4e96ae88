package e2e_test

import (
	"net"
	"regexp"
	"sync"
	"testing"
)

// direction is which way bytes go through a proxy.
type direction int

const (
	toServer direction = iota
	toClient
)

// proxy is a TCP proxy that can stop the bytes of one direction at the moment
// a pattern comes by: the chunk with the pattern, and all behind it, wait.
type proxy struct {
	t        *testing.T
	listener net.Listener
	target   string
	mu       sync.Mutex
	trap     *trap
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

// trap is one armed stop.
type trap struct {
	dir     direction
	pattern *regexp.Regexp
	after   *regexp.Regexp // of the other direction, on the same connection: only then does the trap bite; nil: at once
	sprung  chan struct{}
	release chan struct{}
	bite    sync.Once
	free    sync.Once
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.disarm()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// point sends new connections elsewhere; those that are open stay.
func (p *proxy) point(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// arm stops traffic in dir once pattern passes; the channel closes when it did.
// With after, only on a connection where after went the other way before.
func (p *proxy) arm(dir direction, pattern, after string) <-chan struct{} {
	p.disarm()
	tr := &trap{dir: dir, pattern: regexp.MustCompile(pattern), sprung: make(chan struct{}), release: make(chan struct{})}
	if after != "" {
		tr.after = regexp.MustCompile(after)
	}
	p.mu.Lock()
	p.trap = tr
	p.mu.Unlock()
	return tr.sprung
}

// disarm lets everything pass again.
func (p *proxy) disarm() {
	p.mu.Lock()
	tr := p.trap
	p.trap = nil
	p.mu.Unlock()
	if tr != nil {
		tr.free.Do(func() { close(tr.release) })
	}
}

func (p *proxy) current() *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trap
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		s, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", target)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[s] = struct{}{}, struct{}{}
		p.mu.Unlock()
		l := &link{p: p, seen: map[*trap]bool{}}
		p.wg.Go(func() { l.copy(s, c, toServer) })
		p.wg.Go(func() { l.copy(c, s, toClient) })
	}
}

// link is one proxied connection.
type link struct {
	p    *proxy
	mu   sync.Mutex
	seen map[*trap]bool // traps whose condition went by
}

func (l *link) copy(dst, src net.Conn, dir direction) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 64<<10)
	var tail []byte // a pattern may lie across two reads
	for {
		n, err := src.Read(buf)
		if n > 0 {
			window := append(tail, buf[:n]...)
			l.check(window, len(tail), dir)
			if len(window) > 256 {
				window = window[len(window)-256:]
			}
			tail = append([]byte(nil), window...)
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// check waits while the trap holds this direction. The first old bytes of the
// window went by before and count only as the beginning of a pattern.
func (l *link) check(window []byte, old int, dir direction) {
	tr := l.p.current()
	if tr == nil {
		return
	}
	l.mu.Lock()
	if tr.after == nil || (dir != tr.dir && passes(window, old, tr.after)) {
		l.seen[tr] = true
	}
	ready := l.seen[tr]
	l.mu.Unlock()
	if !ready || dir != tr.dir || !passes(window, old, tr.pattern) {
		return
	}
	tr.bite.Do(func() { close(tr.sprung) })
	<-tr.release
}

// passes reports whether a match ends in the new part of the window.
func passes(window []byte, old int, pattern *regexp.Regexp) bool {
	for _, at := range pattern.FindAllIndex(window, -1) {
		if at[1] > old {
			return true
		}
	}
	return false
}
