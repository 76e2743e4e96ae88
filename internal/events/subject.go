package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The streams.
const (
	StreamPurchases  = "ENVOY_PURCHASES"  // every event: the current state and the history of all purchases
	StreamDead       = "ENVOY_DEAD"       // what a sink will not get by itself any more
	StreamDeliveries = "ENVOY_DELIVERIES" // outcomes of deliveries
)

// Headers of stored messages.
const (
	HeaderSituation = "Herald-Situation" // repeats the situation, for cheap filters
	HeaderReplay    = "Herald-Replay"    // "1" on a dead letter that is sent again
)

// Subjects that the streams listen on, and the first tokens of every subject.
const (
	SubjectPurchases  = "envoy.purchase.*.*"
	SubjectNotices    = "envoy.notice.*"
	SubjectDead       = "envoy.dead.*.*"
	SubjectDeliveries = "envoy.delivery.*.*"
	SubjectControl    = "envoy.control.watch.*"
)

// noPurchase stands for the purchase where a record is about none; no purchase
// id can be equal to it.
const noPurchase = "notice"

// ErrBadName is wrapped by every refusal of an id or name that must not become
// part of a subject.
var ErrBadName = errors.New("not a valid name")

// EventID is the id of the event of purchase purchaseID at p:
// <purchase>-<epoch>-<revision>-<n>. It has no dot.
func EventID(purchaseID string, p Position) string {
	b := make([]byte, 0, len(purchaseID)+24)
	b = append(b, purchaseID...)
	for _, n := range [...]int64{p.Epoch, p.Revision, p.N} {
		b = append(b, '-')
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// Subject is where the events of a purchase are published.
func Subject(connection, purchaseID string) (string, error) {
	if err := checkName("connection", connection, ValidConnection); err != nil {
		return "", err
	}
	if err := checkName("purchase", purchaseID, ValidPurchaseID); err != nil {
		return "", err
	}
	return "envoy.purchase." + connection + "." + purchaseID, nil
}

// NoticeSubject is where the notices of a connection are published.
func NoticeSubject(connection string) (string, error) {
	if err := checkName("connection", connection, ValidConnection); err != nil {
		return "", err
	}
	return "envoy.notice." + connection, nil
}

// EventSubject is where e is published, by its type.
func EventSubject(e Event) (string, error) {
	connection := strings.TrimPrefix(e.Source, sourcePrefix)
	if e.Type == TypeNotice {
		return NoticeSubject(connection)
	}
	return Subject(connection, e.Subject)
}

// DeadSubject is where the dead letter of an event rests for a sink.
func DeadSubject(sink, eventID string) (string, error) {
	if err := checkName("sink", sink, ValidConnection); err != nil {
		return "", err
	}
	if err := checkName("event", eventID, ValidEventID); err != nil {
		return "", err
	}
	return "envoy.dead." + sink + "." + eventID, nil
}

// DeliverySubject is where the outcomes of a sink about a purchase are
// published. An empty purchase id stands for notices, which are about none.
func DeliverySubject(sink, purchaseID string) (string, error) {
	if purchaseID == "" {
		purchaseID = noPurchase
	}
	if err := checkName("sink", sink, ValidConnection); err != nil {
		return "", err
	}
	if purchaseID != noPurchase && !ValidPurchaseID(purchaseID) {
		return "", checkName("purchase", purchaseID, ValidPurchaseID)
	}
	return "envoy.delivery." + sink + "." + purchaseID, nil
}

// ControlSubject is where a host registers what a connection shall watch.
func ControlSubject(connection string) (string, error) {
	if err := checkName("connection", connection, ValidConnection); err != nil {
		return "", err
	}
	return "envoy.control.watch." + connection, nil
}

// checkName refuses a name with its kind, and quotes at most its first bytes.
func checkName(kind, name string, valid func(string) bool) error {
	if valid(name) {
		return nil
	}
	if len(name) > 64 {
		name = name[:64]
	}
	return fmt.Errorf("%s %q: %w", kind, name, ErrBadName)
}

// ValidPurchaseID tells whether s is a purchase id of the contract:
// ^pur_[a-f0-9]{32}$.
func ValidPurchaseID(s string) bool {
	rest, ok := strings.CutPrefix(s, "pur_")
	return ok && lowerHex(rest, 32)
}

// ValidConnection tells whether s may name a connection or a sink:
// [A-Za-z0-9_-]{1,64}.
func ValidConnection(s string) bool { return token(s, 1, 64) }

// ValidReference tells whether s is a purchase id or an idempotency key of the
// contract, by which a purchase may be named: 16 to 64 of [A-Za-z0-9_-], of which
// those that begin with pur_ are ids only.
func ValidReference(s string) bool {
	if strings.HasPrefix(s, "pur_") {
		return ValidPurchaseID(s)
	}
	return token(s, 16, 64)
}

// ValidWord tells whether s may be kept as an enum word that the contract does
// not name yet: [A-Za-z0-9_]{1,64}.
func ValidWord(s string) bool { return token(s, 1, 64) && !strings.Contains(s, "-") }

// ValidEventID tells whether s may be the id of an event: [A-Za-z0-9_-]{1,255},
// so that it is one token of a subject and has no dot.
func ValidEventID(s string) bool { return token(s, 1, 255) }

// HashKey is the SHA-256 of an idempotency key in hexadecimal. Only this is kept.
func HashKey(idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return hex.EncodeToString(sum[:])
}

// token tells whether s is least to most characters of [A-Za-z0-9_-].
func token(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && plainASCII(s, "_-")
}

// plainASCII tells whether s is letters and digits of ASCII and the extra
// characters only.
func plainASCII(s, extra string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte(extra, c) >= 0:
		default:
			return false
		}
	}
	return true
}

// lowerHex tells whether s is n characters of [a-f0-9].
func lowerHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
