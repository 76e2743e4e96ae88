package sinkstest

import (
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// Canary is the stem of every made-up secret of these tests.
const Canary = "cAnArY"

// Confirming is a purchase that is confirming.
func Confirming() events.Event {
	for _, e := range events.Samples() {
		if e.Purchase != nil && e.Purchase.Situation == events.SituationConfirming && e.Type == events.TypeChanged {
			return e
		}
	}
	panic("the samples hold no confirming purchase")
}

// Notification passes an event on.
func Notification(e events.Event) sinks.Notification {
	return sinks.Notification{
		Kind: sinks.KindEvent, Event: e, Subscription: "unsettled", Attempt: 1, Reminded: 1,
		Since: time.Date(2026, 9, 29, 12, 0, 0, 0, time.UTC),
	}
}

// HostilePurchase says a text wherever a purchase can.
func HostilePurchase(text string) events.Event {
	e := Confirming()
	p := e.Purchase
	p.Merchant.Name, p.Say, p.Description, p.Agent.DisplayName, p.ReasonCode = text, text, text, text, text
	p.Amount.Display, p.Receipt = text, &events.Receipt{CardNetwork: text, CardLast4: text, MerchantOrderRef: text}
	p.Question = &events.Question{Prompt: text}
	p.DetailsMissing = []string{text, text, text}
	p.Support = events.Support{Ref: text, RequestID: text, TraceID: text}
	return e
}

// HostileNotice says a text wherever a notice can.
func HostileNotice(text string) events.Event {
	return events.NewNotice("host-a", events.NoticeParked, time.Date(2026, 9, 29, 12, 0, 0, 0, time.UTC), events.Notice{
		Connection: "host-a", Text: text, Code: text, Fields: []string{text, text}, Support: events.Support{Ref: text, RequestID: text},
	})
}

// Hostile gives texts that others might put into a name or a description.
func Hostile() map[string]string {
	return map[string]string{
		"markup":       "Acme & Sons <Retail> \"quoted\" 'single' <img src=x onerror=1><a href=\"http://evil.example.test\">pay</a>",
		"entities":     "a < b > c & d &amp; e &#60;",
		"mentions":     "<!channel> <!here|here> <@U0123456789> <#C0123|general> <!subteam^S012> @here @channel @everyone",
		"links":        "<http://evil.example.test|Envoy> [Envoy](http://evil.example.test) https://evil.example.test/x?sig=1",
		"formatting":   "*bold* _italic_ ~struck~ `code` ```block``` :tada: **b** # head",
		"lines":        "Acme\r\nBcc: spy@example.test\r\n\r\nHello",
		"line feed":    "Acme\nBcc: spy@example.test\n\nHello",
		"carriage":     "Acme\rBcc: spy@example.test\r\rHello",
		"separators":   "Acme\u2028Bcc: x\u2029y\u0085z\u000bv",
		"bidi":         "\u202eevil\u202c \u2066x\u2069 \u200fright\u200e \u061c",
		"controls":     "a\x00b\x1b[31mred\x07\x7f",
		"invalid utf8": "a\xff\xfe\xc3(b",
		"word":         "=?utf-8?q?Subject=3A_spoofed?= =?utf-8?b?0J/RgNC40LLQtdGC?=",
		"hidden word":  "=?utf-8?q?=E2=80=AEspoofed=0A?= =?utf-8?b?4oCu?=",
		"invisible":    "\u3164\u115f\u2800\u200d\u200c pay\u200dpal \ufe0f\ufe0f \u034f\uffa0",
		"cards":        "{{DATE(2026-09-29T12:00:00Z,SHORT)}} ${amount} <at>Everyone</at> - list 1. list > quote :+1:",
		"templates":    "{{.Secret}} ${HOME} %s %d",
		"dots":         ".\r\n.\r\nMAIL FROM:<spy@example.test>\r\n",
		"long ascii":   strings.Repeat("note ", 2400),
		"long word":    strings.Repeat("x", 12000),
		"devanagari":   strings.Repeat("क्षत्रिय", 1500),
		"joiners":      strings.Repeat("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", 1500),
		"marks":        "Z" + strings.Repeat("\u0300\u0301", 6000),
		"flags":        strings.Repeat("\U0001f1ee\U0001f1f3", 3000),
		"ampersands":   strings.Repeat("&", 12000),
		"signs":        strings.Repeat("*_~`|[]<@#", 2000),
	}
}
