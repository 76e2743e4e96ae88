package sinkfakes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server that knows a few IPv4 addresses and denies all else.
type DNS struct {
	conn  net.PacketConn
	wg    sync.WaitGroup
	mu    sync.Mutex
	names map[string]netip.Addr
}

// NewDNS begins a name server. Names are full, with a dot at the end.
func NewDNS(names map[string]netip.Addr) (*DNS, error) {
	c, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d := &DNS{conn: c, names: maps.Clone(names)}
	d.wg.Go(d.serve)
	return d, nil
}

// Set changes what a name resolves to.
func (d *DNS) Set(name string, addr netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = addr
}

// Resolver asks this server and no other.
func (d *DNS) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

// Close ends the server.
func (d *DNS) Close() error {
	err := d.conn.Close()
	d.wg.Wait()
	return err
}

func (d *DNS) serve() {
	buffer := make([]byte, 4096)
	for {
		n, from, err := d.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply, err := d.reply(buffer[:n]); err == nil {
			_, _ = d.conn.WriteTo(reply, from)
		}
	}
}

func (d *DNS) reply(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("read query: %w", err)
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Answers, m.Additionals = true, true, nil, nil
	d.mu.Lock()
	addr, known := d.names[q.Name.String()]
	d.mu.Unlock()
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	return m.Pack()
}
