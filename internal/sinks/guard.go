package sinks

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// BlockedError says that an address may not be connected to. It is returned
// before any byte goes out.
type BlockedError struct {
	Addr netip.Addr // the zero Addr: one that cannot be read
	What string     // the kind of address: loopback, private, ...
}

// Error names the address and its kind. An address is no secret: it tells an
// operator what to put into allow_cidrs.
func (e *BlockedError) Error() string {
	if !e.Addr.IsValid() {
		return "address is not allowed: " + e.What
	}
	return fmt.Sprintf("address %s is not allowed: %s", e.Addr, e.What)
}

// Judge reports why an address must not be reached by a sink, or nil if it may.
// Addresses inside one of the allowed prefixes may be reached whatever they are.
// IPv4 addresses mapped into IPv6 are judged as what they are, and zones are
// ignored. Of IPv6 only global unicast without embedded IPv4 passes by itself.
func Judge(addr netip.Addr, allow []netip.Prefix) error {
	addr = addr.Unmap().WithZone("")
	for _, p := range allow {
		if unmapPrefix(p).Contains(addr) {
			return nil
		}
	}
	for _, r := range refusedRanges() {
		if r.prefix.Contains(addr) {
			return &BlockedError{Addr: addr, What: r.what}
		}
	}
	if !addr.IsValid() || addr.Is6() && !netip.MustParsePrefix("2000::/3").Contains(addr) {
		return &BlockedError{Addr: addr, What: "not a public address"}
	}
	return nil
}

// judgeLiteral judges a host that is written as an address; nil for a name. A host
// whose last part is a number is no name anywhere: proxies read 2130706433, 0x7f000001
// and 127.1 as addresses, each in its own way, so those are refused.
func judgeLiteral(host string, allow []netip.Prefix) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return Judge(addr, allow)
	}
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	hex, isHex := strings.CutPrefix(last, "0x")
	if strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == "" {
		return &BlockedError{What: "it is not written in the usual form"}
	}
	return nil
}

type refusedRange struct {
	prefix netip.Prefix
	what   string
}

// refusedRanges follows the IANA special-purpose registries. The first match
// names the address, so the narrow ranges come first.
func refusedRanges() []refusedRange {
	table := []struct{ prefix, what string }{
		{"169.254.169.254/32", "metadata service"},
		{"168.63.129.16/32", "metadata service"},
		{"100.100.100.200/32", "metadata service"},
		{"192.0.0.192/32", "metadata service"},
		{"fd00:ec2::254/128", "metadata service"},
		{"fd20:ce::254/128", "metadata service"},
		{"0.0.0.0/8", "unspecified"},
		{"127.0.0.0/8", "loopback"},
		{"10.0.0.0/8", "private"},
		{"172.16.0.0/12", "private"},
		{"192.168.0.0/16", "private"},
		{"169.254.0.0/16", "link-local"},
		{"100.64.0.0/10", "shared by carriers (CGNAT)"},
		{"192.0.0.0/24", "reserved"},
		{"192.0.2.0/24", "documentation"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"192.88.99.0/24", "6to4 relay"},
		{"198.18.0.0/15", "benchmarking"},
		{"224.0.0.0/4", "multicast"},
		{"240.0.0.0/4", "reserved"},
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"64:ff9b::/96", "NAT64"},
		{"64:ff9b:1::/48", "NAT64"},
		{"2001::/23", "reserved"}, // Teredo, ORCHID, benchmarking
		{"2001:db8::/32", "documentation"},
		{"2002::/16", "6to4"},
		{"3fff::/20", "documentation"},
		{"fc00::/7", "private"},
		{"fe80::/10", "link-local"},
		{"fec0::/10", "site-local"},
		{"ff00::/8", "multicast"},
	}
	ranges := make([]refusedRange, len(table))
	for i, row := range table {
		ranges[i] = refusedRange{netip.MustParsePrefix(row.prefix), row.what}
	}
	return ranges
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// guard is a net.Dialer.Control. It sees the address that is about to be
// connected to, after every resolution and for every connection, so a name that
// resolves differently a second time changes nothing.
func guard(allow []netip.Prefix) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("judge address: %w", err)
		}
		return Judge(ap.Addr(), allow)
	}
}
