package events

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits of what an event carries, in characters.
const (
	textLimit    = 2000 // a sentence or a description
	nameLimit    = 200  // a name
	idLimit      = 256  // an id of somebody else's
	missingLimit = 32   // entries of details_missing
)

// cleaner lets values through into an event and counts what it masked or left
// out because it was not what it claimed to be.
type cleaner struct {
	personal bool
	masked   int
}

// text is free text, scrubbed.
func (cl *cleaner) text(s string, limit int) string {
	out, n := scrub(s, limit, maskAll)
	cl.masked += n
	return out
}

// note is a text of our own. It may speak of codes, but carries no card, link or
// control character that slipped in with a quotation.
func (cl *cleaner) note(s string) string {
	out, n := scrub(s, textLimit, maskCards|maskLinks)
	cl.masked += n
	return out
}

// word is an enum word, known or of tomorrow; anything else is left out.
func (cl *cleaner) word(s string) string {
	if s == "" {
		return ""
	}
	if !ValidWord(s) || hasCard(s) {
		cl.masked++
		return ""
	}
	return s
}

// id is an identifier that somebody else made. It may have the form of a link,
// and is cut before a query, where secrets travel.
func (cl *cleaner) id(s string) string {
	out, n := scrub(s, idLimit, maskCards)
	cl.masked += n
	if i := strings.IndexAny(out, "?#"); i >= 0 {
		cl.masked++
		out = out[:i]
	}
	if host, rest, ok := strings.Cut(out, "@"); ok && strings.Contains(host, "://") {
		cl.masked++
		out = host[:strings.Index(host, "://")+3] + rest
	}
	return out
}

// purchase is a purchase id or nothing.
func (cl *cleaner) purchase(s string) string {
	if s == "" || ValidPurchaseID(s) {
		return s
	}
	cl.masked++
	return ""
}

// ref is a merchant's order reference, which is personal.
func (cl *cleaner) ref(s string) string {
	if !cl.personal {
		return ""
	}
	out, n := scrub(s, nameLimit, maskCards|maskLinks)
	cl.masked += n
	return out
}

// link is the address of a shop: scheme and host, and the path where personal
// fields are allowed. Credentials, query and fragment never pass.
func (cl *cleaner) link(s string) string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || !plainHost(u.Host) {
		cl.masked++
		return ""
	}
	out := u.Scheme + "://" + u.Host
	if !cl.personal || u.Path == "" {
		return out
	}
	if _, n := scrub(u.Path, idLimit, maskCards|maskCodes); n > 0 {
		cl.masked++
		return out
	}
	return out + u.EscapedPath()
}

// plainHost tells whether a host has nothing in it that could deceive a reader.
func plainHost(host string) bool {
	return host != "" && len(host) <= 255 && plainASCII(host, "-._:[]") && !hasCard(host)
}

// amount is a sum. Its text is kept where it shows the digits of the sum, and
// scrubbed where it shows anything else.
func (cl *cleaner) amount(a Amount) Amount {
	out := Amount{Minor: a.Minor, Currency: cl.word(a.Currency)}
	if showsSum(a) {
		display, n := scrub(a.Display, nameLimit, 0)
		cl.masked += n
		out.Display = display
		return out
	}
	out.Display = cl.text(a.Display, nameLimit)
	return out
}

// showsSum tells whether the digits of the text are those of the sum, with or
// without the minor unit.
func showsSum(a Amount) bool {
	var digits []byte
	for _, r := range a.Display {
		if v, ok := digitValue(r); ok {
			digits = append(digits, '0'+v)
		}
	}
	if a.Minor%100 == 0 && string(digits) == strconv.FormatInt(a.Minor/100, 10) {
		return true
	}
	whole := strconv.FormatInt(a.Minor, 10)
	if len(whole) < 3 {
		whole = strings.Repeat("0", 3-len(whole)) + whole
	}
	return string(digits) == whole
}

// money is Envoy's own record of the money.
func (cl *cleaner) money(m MoneyStatus) MoneyStatus {
	out := MoneyStatus{Status: cl.word(m.Status), MerchantOrderRef: cl.ref(m.MerchantOrderRef)}
	if m.Paid != nil {
		paid := cl.amount(*m.Paid)
		out.Paid = &paid
	}
	return out
}

// held is the open card money of the purchase.
func (cl *cleaner) held(h *Held) *Held {
	if h == nil {
		return nil
	}
	out := &Held{State: cl.word(h.State), Exact: h.Exact, Since: utcOf(h.Since)}
	if h.Amount != nil {
		amount := cl.amount(*h.Amount)
		out.Amount = &amount
	}
	return out
}

// support is what Envoy's support asks for.
func (cl *cleaner) support(s Support) Support {
	out := Support{Ref: cl.id(s.Ref), RequestID: cl.id(s.RequestID), TraceID: s.TraceID}
	if !lowerHex(s.TraceID, 32) { // what has that form is no card number, even where its digits would be one
		out.TraceID = cl.id(s.TraceID)
	}
	return out
}

// validPath tells whether s is the path of a field in a request.
func validPath(s string) bool {
	return s != "" && len(s) <= 128 && plainASCII(s, "_-.[]/$") && !hasCard(s)
}

// traceParent is a W3C trace context of version 00, or nothing.
func traceParent(s string) string {
	parts := strings.Split(s, "-")
	if len(parts) != 4 || parts[0] != "00" || !lowerHex(parts[1], 32) || !lowerHex(parts[2], 16) || !lowerHex(parts[3], 2) {
		return ""
	}
	return s
}

// digitsOnly tells whether s is all of 0 to 9.
func digitsOnly(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// noticeID is <connection>-<kind>-<unix ms>, and what the notice is about.
func noticeID(connection string, kind NoticeKind, now time.Time, n Notice) string {
	id := connection + "-" + string(kind) + "-" + strconv.FormatInt(now.UnixMilli(), 10)
	if n.Sink != "" {
		id += "-" + n.Sink
	}
	if n.PurchaseID != "" {
		id += "-" + n.PurchaseID
	}
	return id
}

// utc is the same moment in UTC, or the zero time where it could not be written
// with a year of four digits.
func utc(t time.Time) time.Time {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return time.Time{}
	}
	return t
}

// utcOf is utc for a time that may be missing.
func utcOf(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := utc(*t)
	if u.IsZero() {
		return nil
	}
	return &u
}

// copyOf copies what may be missing, so that an event shares nothing.
func copyOf[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}
