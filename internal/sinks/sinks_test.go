package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJudge(t *testing.T) {
	for kind, list := range map[string][]string{
		"loopback":             {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"},
		"private":              {"10.0.0.5", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1", "::ffff:10.1.2.3"},
		"link-local":           {"169.254.0.1", "fe80::1", "febf::1"},
		"metadata":             {"169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254"},
		"CGNAT":                {"100.64.0.1", "100.127.255.255"},
		"NAT64":                {"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1"},
		"6to4":                 {"2002:7f00:1::", "2002:a00:5::1", "192.88.99.1"},
		"multicast":            {"224.0.0.1", "239.255.255.255", "ff02::1"},
		"unspecified":          {"0.0.0.0", "0.1.2.3", "::"},
		"reserved":             {"240.0.0.1", "255.255.255.255", "192.0.0.1", "2001::1", "2001:10::1"},
		"documentation":        {"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"},
		"benchmarking":         {"198.18.0.1", "198.19.255.255"},
		"site-local":           {"fec0::1"},
		"not a public address": {"::7f00:1", "100::1", "5f00::1", "4000::1"},
	} {
		for _, text := range list {
			err := sinks.Judge(netip.MustParseAddr(text), nil)
			var blocked *sinks.BlockedError
			if !errors.As(err, &blocked) || !strings.Contains(err.Error(), kind) || !strings.Contains(err.Error(), "not allowed") {
				t.Errorf("Judge(%s) = %v, want it refused as %s", text, err, kind)
			}
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "11.0.0.1", "2606:4700::1111", "2a00::1", "2001:4860:4860::8888", "::ffff:8.8.8.8"} {
		if err := sinks.Judge(netip.MustParseAddr(text), nil); err != nil {
			t.Errorf("Judge(%s) = %v", text, err)
		}
	}
	if sinks.Judge(netip.Addr{}, nil) == nil {
		t.Error("no address was allowed")
	}
}

func TestJudgeAllows(t *testing.T) {
	for _, test := range []struct {
		addr, allow string
		ok          bool
	}{
		{"10.1.2.3", "10.1.0.0/16", true}, {"10.2.2.3", "10.1.0.0/16", false},
		{"::ffff:10.1.2.3", "10.1.0.0/16", true}, {"10.1.2.3", "::ffff:10.1.0.0/112", true},
		{"fe80::1%eth0", "fe80::/10", true}, {"127.0.0.1", "127.0.0.1/32", true}, {"127.0.0.2", "127.0.0.1/32", false},
		{"::1", "127.0.0.0/8", false}, {"64:ff9b::7f00:1", "127.0.0.0/8", false},
	} {
		err := sinks.Judge(netip.MustParseAddr(test.addr), []netip.Prefix{netip.MustParsePrefix(test.allow)})
		if (err == nil) != test.ok {
			t.Errorf("%s with %s allowed: %v", test.addr, test.allow, err)
		}
	}
}

// A name is judged by what it resolves to at each connection, not at the first.
func TestB16_AddressesAreJudgedAtEveryConnection(t *testing.T) {
	hook, err := sinkfakes.NewHook("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hook.Close() })
	names := map[string]netip.Addr{"rebinds.example.test.": netip.MustParseAddr("127.0.0.1")}
	dns, err := sinkfakes.NewDNS(names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	c, err := sinks.NewHTTPClient(sinks.ClientOptions{Resolver: dns.Resolver(), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	port := hook.URL("")[strings.LastIndexByte(hook.URL(""), ':'):]
	post := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://rebinds.example.test"+port, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = sinks.Exchange(t.Context(), c, r, sinks.Bounds{}, nil)
		return err
	}
	if err := post(); err != nil {
		t.Fatalf("the allowed address: %v", err)
	}
	dns.Set("rebinds.example.test.", netip.MustParseAddr("127.0.0.2"))
	c.CloseIdleConnections()
	var f *sinks.Failure
	if err := post(); !errors.As(err, &f) || f.Reason != sinks.ReasonBlocked || f.Verdict != sinks.Down {
		t.Errorf("the other address: %v", err)
	}
	if n := hook.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 9, 29, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "0.25": 250 * time.Millisecond,
		"3600": time.Hour, "3601": time.Hour, "1e300": time.Hour, "Inf": time.Hour, "NaN": 0, "soon": 0,
		"Tue, 29 Sep 2026 12:01:00 GMT": time.Minute, "Tue, 29 Sep 2026 11:00:00 GMT": 0, "Wed, 30 Sep 2026 12:00:00 GMT": time.Hour,
	} {
		if got := sinks.RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("RetryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestNetworkFailure(t *testing.T) {
	for name, test := range map[string]struct {
		err       error
		connected bool
		verdict   sinks.Verdict
		reason    sinks.Reason
	}{
		"dns":                {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x"}}, false, sinks.Down, sinks.ReasonDNS},
		"refused":            {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, false, sinks.Down, sinks.ReasonDial},
		"blocked":            {&net.OpError{Op: "dial", Err: &sinks.BlockedError{What: "private"}}, false, sinks.Down, sinks.ReasonBlocked},
		"timeout of dialing": {context.DeadlineExceeded, false, sinks.Down, sinks.ReasonDial},
		"timeout":            {context.DeadlineExceeded, true, sinks.Temporary, sinks.ReasonTimeout},
		"reset":              {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true, sinks.Temporary, sinks.ReasonReset},
		"end":                {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true, sinks.Temporary, sinks.ReasonReset},
		"tls":                {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, true, sinks.Down, sinks.ReasonTLS},
		"cancelled":          {context.Canceled, false, sinks.Temporary, sinks.ReasonDial},
		"nonsense":           {errors.New("malformed"), true, sinks.Temporary, sinks.ReasonProtocol},
	} {
		f := sinks.NetworkFailure(test.err, test.connected)
		if f.Verdict != test.verdict || f.Reason != test.reason || !errors.Is(f, test.err) {
			t.Errorf("%s gave %s/%s %v", name, f.Verdict, f.Reason, f)
		}
	}
}

// What the other side says inside an error stays short and clean; the causes are still found.
func TestNetworkFailureIsShort(t *testing.T) {
	token := secret.New("cAnArY-token")
	for _, said := range []string{strings.Repeat("a.example.test, ", 10_000), "\u202e\x1b[2J cAnA\u200brY-token \r\n"} {
		f := sinks.NetworkFailure(fmt.Errorf("read: %s: %w", said, io.ErrUnexpectedEOF), true, token)
		if text := f.Error(); len(text) > 300 || strings.ContainsAny(text, "\u202e\x1b\r\n") || strings.Contains(text, "cAnArY") || !errors.Is(f, io.ErrUnexpectedEOF) {
			t.Errorf("the failure has %d bytes: %.300q", len(text), text)
		}
	}
}

func TestExcerpt(t *testing.T) {
	token := secret.New("cAnArY-token")
	got := sinks.Excerpt([]byte("a\r\n\x1b[31m\u009b\u202eb\u200b cAnA\u200brY-token cAnArY-token\xff "+strings.Repeat("é", 500)), token)
	if strings.Contains(got, "cAnArY") || strings.ContainsAny(got, "\r\n\x1b\u009b\u202e\u200b") || len(got) > 210 || !strings.HasSuffix(got, "é…") {
		t.Errorf("excerpt is %q", got)
	}
	if sinks.Excerpt(nil) != "" {
		t.Error("an excerpt of nothing is something")
	}
}

func TestFailureText(t *testing.T) {
	cause := errors.New("cause")
	f := (&sinks.Failure{Reason: sinks.ReasonStatus, Status: 404, Err: cause}).At("orders")
	if f.Error() != "status (404): sink orders: cause" || !errors.Is(f, cause) {
		t.Errorf("text is %q", f)
	}
	if text := (&sinks.Failure{Reason: sinks.ReasonDNS}).At("orders").Error(); !strings.Contains(text, "orders") {
		t.Errorf("text is %q", text)
	}
}

func TestKey(t *testing.T) {
	n := sinks.Notification{Event: events.Event{Source: "/connections/a"}}
	if n.Key() != "/connections/a" {
		t.Errorf("key is %q", n.Key())
	}
	n.Event.Purchase = &events.Purchase{ChainRoot: "pur_1"}
	if n.Key() != "pur_1" {
		t.Errorf("key is %q", n.Key())
	}
}

func TestB17_IPv6LiteralsAreJudgedAndReached(t *testing.T) {
	hook, err := sinkfakes.NewHook("[::1]:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hook.Close() })
	for allowed, want := range map[bool]int{false: 0, true: 1} {
		o := sinks.ClientOptions{}
		if allowed {
			o.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("::1/128")}
		}
		c, err := sinks.NewHTTPClient(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.CloseIdleConnections)
		before := hook.Connections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook.URL("/"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sinks.Exchange(t.Context(), c, r, sinks.Bounds{}, nil); (err == nil) != allowed {
			t.Errorf("allowed %v: %v", allowed, err)
		}
		if got := hook.Connections() - before; got != want {
			t.Errorf("allowed %v: %d connections", allowed, got)
		}
	}
}
