package sinkstest

import (
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Leaky is an event made, as every event is, from a snapshot whose texts carry what
// must not go out: a card number, a signed address, a one-time code, a long token.
// All personal fields are on.
func Leaky() events.Event {
	const text = "The order of Jane waits. Card 4111 1111 1111 1111, see https://pay.example.test/x?sig=" + Canary +
		" or HTTPS://PAY.EXAMPLE.TEST/Y?TOKEN=canary; OTP 493817; key canary0123456789abcdef0123456789abcdef."
	at := time.Date(2026, 9, 29, 12, 6, 0, 0, time.UTC)
	s := events.Snapshot{
		PurchaseID: "pur_leaky", Revision: 2, State: events.StateVerifying, StatusText: text, Rail: "otu_card", CheckoutBy: "agent",
		Merchant:    events.Merchant{Name: "Example Store " + text, URL: "https://shop.example.test/x?sig=" + Canary},
		Amount:      events.Amount{Minor: 249900, Currency: "INR", Display: "₹2,499.00"},
		Description: text, Agent: events.Agent{DisplayName: "Host " + text}, Money: events.MoneyStatus{Status: "not_started", MerchantOrderRef: "4111111111111111"},
		Receipt:   &events.Receipt{CardNetwork: "rupay", CardLast4: "0042", MerchantOrderRef: "https://x.example.test/?sig=" + Canary},
		CreatedAt: at, UpdatedAt: at,
	}
	f := events.Facts{
		Source: events.SourceStatus, Connection: "host-a", PassedApproval: true, ServerTime: at, UserActionText: text,
		Support: events.Support{RequestID: "req_1"},
	}
	j := events.Judge(s, f)
	_, position, cause := events.Follow(events.Cursor{}, false, events.ReadingOf(s, j))
	return events.ForSink(events.New(s, f, j, position, cause, nil, events.Cursor{}, events.Options{Personal: true}), events.PersonalFields())
}

// Stripped wants none of what Leaky carries in what a receiver got, and its
// neighbours in it.
func Stripped(t *testing.T, got string) {
	t.Helper()
	flat := strings.ToLower(got)
	for _, leak := range []string{Canary, "4111 1111", "4111111111111111", "493817", "0123456789abcdef", "sig=", "token="} {
		if strings.Contains(flat, strings.ToLower(leak)) {
			t.Errorf("the receiver got %q:\n%s", leak, got)
		}
	}
	for _, neighbour := range []string{"Example Store", "₹2,499.00", "The order of Jane waits", "0042", "shop.example.test"} {
		if !strings.Contains(got, neighbour) {
			t.Errorf("the receiver did not get %q:\n%s", neighbour, got)
		}
	}
}
