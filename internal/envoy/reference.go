package envoy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The limits of get_purchase_status.
const (
	MaxWait     = 45 * time.Second // longest hold
	maxArgBytes = 4 << 10          // next.args holds three short members; more is not what it claims to be
)

// ValidPurchaseID tells whether s is pur_ and 32 lower-case hexadecimal digits.
func ValidPurchaseID(s string) bool {
	hex, ok := strings.CutPrefix(s, "pur_")
	if !ok || len(hex) != 32 {
		return false
	}
	for i := range len(hex) {
		if c := hex[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ValidReference tells whether s can name a purchase: a purchase id, or an
// idempotency key (16 to 64 letters, digits, _ and -, not beginning with pur_).
func ValidReference(s string) bool {
	if strings.HasPrefix(s, "pur_") {
		return ValidPurchaseID(s)
	}
	if len(s) < 16 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !wordByte(c) && c != '-' {
			return false
		}
	}
	return true
}

// ValidWord tells whether s can be an enum word, also one that is not known
// yet: 1 to 64 letters, digits and _.
func ValidWord(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if !wordByte(s[i]) {
			return false
		}
	}
	return true
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// Args are the members of next.args that Herald can send: those of
// get_purchase_status.
type Args struct {
	Purchase      string
	AfterRevision *int64
	Wait          time.Duration
}

// ParseArgs reads next.args. Anything but a valid purchase, after_revision and
// wait_seconds, each at most once, is an error; errors repeat no byte of raw.
func ParseArgs(raw json.RawMessage) (Args, error) {
	if len(raw) > maxArgBytes {
		return Args{}, fmt.Errorf("read args: over %d bytes", maxArgBytes)
	}
	d := &decoder{document: document{values: make([]value, 0, 8)}, path: make([]string, 0, 2)}
	if !d.read(raw) {
		return Args{}, fmt.Errorf("read args: not JSON")
	}
	o := d.object("args", root)
	a := Args{Purchase: o.text("purchase")}
	if v := o.optional("after_revision", kindNumber); v != none {
		n := d.count("after_revision", v)
		a.AfterRevision = &n
	}
	if v := o.optional("wait_seconds", kindNumber); v != none {
		a.Wait = seconds(d.count("wait_seconds", v))
	}
	o.close()
	switch {
	case d.fault != nil:
		return Args{}, fmt.Errorf("read args: %w", d.fault)
	case d.unknown > 0:
		return Args{}, fmt.Errorf("read args: %d members that get_purchase_status does not have", d.unknown)
	case !ValidReference(a.Purchase):
		return Args{}, fmt.Errorf("read args: args.purchase is no reference to a purchase")
	case a.Wait > MaxWait:
		return Args{}, fmt.Errorf("read args: args.wait_seconds is over 45")
	}
	return a, nil
}

// statusBody gives the exact body of a status call and the hold it asks for.
func statusBody(r StatusRequest) ([]byte, time.Duration, error) {
	if !ValidReference(r.Purchase) {
		return nil, 0, refuse(ToolStatus, "/purchase", "no valid reference to a purchase")
	}
	if r.Args != nil {
		a, err := ParseArgs(r.Args)
		if err != nil {
			return nil, 0, refuse(ToolStatus, "/args", err.Error())
		}
		if a.Purchase != r.Purchase {
			return nil, 0, refuse(ToolStatus, "/purchase", "args name another purchase")
		}
		return r.Args, a.Wait, nil
	}
	if r.Wait < 0 || r.Wait > MaxWait {
		return nil, 0, refuse(ToolStatus, "/wait_seconds", "wait is not within 0 to 45 s")
	}
	wait := r.Wait.Truncate(time.Second)
	// A valid reference has no character that JSON would escape.
	b := append(make([]byte, 0, 128), `{"purchase":"`...)
	b = append(b, r.Purchase...)
	b = append(b, '"')
	if r.AfterRevision != nil {
		if *r.AfterRevision < 0 {
			return nil, 0, refuse(ToolStatus, "/after_revision", "revision is negative")
		}
		b = strconv.AppendInt(append(b, `,"after_revision":`...), *r.AfterRevision, 10)
	}
	if wait > 0 {
		b = strconv.AppendInt(append(b, `,"wait_seconds":`...), int64(wait/time.Second), 10)
	}
	return append(b, '}'), wait, nil
}

// longestWait is more than anybody waits, and far from where sums of durations overflow.
const longestWait = 100 * 365 * 24 * time.Hour

// seconds turns a number of seconds into a duration. It never overflows, nor does what is put on top of it.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(longestWait/time.Second))) * time.Second
}
