package events

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestScrub(t *testing.T) {
	for _, c := range []struct {
		in, out string
		n       int
	}{
		// What must stay.
		{"", "", 0},
		{`Approve this purchase in the Envoy app. (₹2,499.00 at "Example Store")`, `Approve this purchase in the Envoy app. (₹2,499.00 at "Example Store")`, 0},
		{"Acme & Sons <Retail>", "Acme & Sons <Retail>", 0},
		{"a < b > c & d &amp; e", "a < b > c & d &amp; e", 0},
		{"Amazon.in, Booking.com and 1mg.com", "Amazon.in, Booking.com and 1mg.com", 0},
		{"Is it on Example.in?", "Is it on Example.in?", 0},
		{"राम ट्रेडर्स, क्\u200dष", "राम ट्रेडर्स, क्\u200dष", 0},
		{"👨\u200d👩\u200d👧 Müller & Söhne", "👨\u200d👩\u200d👧 Müller & Söhne", 0},
		{"Order 1234 of 2026-09-29 12:30", "Order 1234 of 2026-09-29 12:30", 0},
		{"Write to help@shop.example.test", "Write to help@shop.example.test", 0},
		{"Give them the reference EV-72Z0SF.", "Give them the reference EV-72Z0SF.", 0},
		{"Your code was accepted; ₹2,499.00 is set aside", "Your code was accepted; ₹2,499.00 is set aside", 0},
		{"The code expires at 12:30.", "The code expires at 12:30.", 0},
		{"It takes about 15 minutes.", "It takes about 15 minutes.", 0},
		{"4111 1111 1111 1112", "4111 1111 1111 1112", 0}, // not a card number
		// Card numbers.
		{"card 4111 1111 1111 1111 ok", "card [masked] ok", 1},
		{"4111-1111-1111-1111,5555555555554444", "[masked],[masked]", 2},
		{"x4111111111111111x", "x[masked]x", 1},
		{"3782 822463 10005", "[masked]", 1},
		{"4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "[masked]", 1},
		{"４１１１‑１１１１‑１１１１‑１１１１", "[masked]", 1},
		{"४१११ ११११ ११११ ११११", "[masked]", 1},
		{"𝟜𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙𝟙", "[masked]", 1},
		{"④①①①①①①①①①①①①①①①", "[masked]", 1},
		{"4111\u200b1111\u200b1111\u200b1111", "[masked]", 4},
		{"4111\n1111\t1111 1111", "[masked]", 3},
		{"4111.1111.1111.1111", "[masked]", 1},
		{"41111111111111111234", "[masked]", 1}, // others glued to it
		{"ref 12 4111111111111111 12/27 123", "ref 12 [masked] 12/27 123", 1},
		// Codes.
		{"Your OTP is 482913.", "Your OTP is [masked]", 1},
		{"OTP:482913", "[masked]", 1},
		{"482 913 is your one-time code", "[masked] [masked] is your one-time code", 2},
		{"otp 4 8 2 9", "otp [masked] [masked] [masked] [masked]", 4},
		{"PIN 0042, voucher code ABCD-1234-EFGH", "PIN [masked] voucher code [masked]", 2},
		{"CVV १२३", "CVV [masked]", 1},
		{"Authorization: Bearer abcdef012345", "Authorization: Bearer [masked]", 1},
		{"ओटीपी 482913", "ओटीपी [masked]", 1},
		{"key eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiIxMjM0NTY3ODkwIn0", "key [masked]", 1},
		// Links.
		{"pay at https://pay.example.test/x?y=z now", "pay at [masked] now", 1},
		{"(HTTPS://pay.example.test)", "[masked]", 1},
		{"pay.example.in/abc", "[masked]", 1},
		{"example.in/abc", "[masked]", 1},
		{"example.in:8443", "[masked]", 1},
		{"see www.example", "see [masked]", 1},
		{"see shop.example.test", "see [masked]", 1},
		{"10.0.0.1/x", "[masked]", 1},
		{"upi:pay?pa=x and javascript:alert(1)", "[masked] and [masked]", 2},
		{"https：／／pay．example．test", "[masked]", 1},
		{"pay.example。in/abc", "[masked]", 1},
		{`https:\\pay.example.test`, "[masked]", 1},
		// What only deceives.
		{"invoice\u202efdp.exe", "invoicefdp.exe", 1},
		{"Acme\r\nBcc: x", "Acme  Bcc: x", 1},
		{"a\x00b\x1b[31mc", "a b [31mc", 2},
		{"ad\u00admin \ufeffx\u2066y\u2069", "admin xy", 4},
		{"line\u2028end", "line end", 1},
		{"ab\xff", "ab\ufffd", 1},
		{"p\u200da\u200dy", "pay", 2},
		{"\U000e0041tag", "tag", 1},
	} {
		out, n := Scrub(c.in)
		if out != c.out || n != c.n {
			t.Errorf("%q: %q, %d; want %q, %d", c.in, out, n, c.out, c.n)
		}
	}
}

func TestScrubCuts(t *testing.T) {
	for _, in := range []string{strings.Repeat("a", 12000), strings.Repeat("नमस्ते ", 3000), strings.Repeat("4111 1111 1111 1111 ", 5000),
		strings.Repeat("https://x.example.test ", 5000), strings.Repeat("a", 1995) + " 4111 1111 1111 1111", strings.Repeat("1", 100000)} {
		out, n := Scrub(in)
		if utf8.RuneCountInString(out) > textLimit || !utf8.ValidString(out) || n == 0 {
			t.Errorf("%.20q: %d characters, %d masked", in, utf8.RuneCountInString(out), n)
		}
		if !strings.HasSuffix(out, cutMark) && !strings.HasSuffix(out, mask) {
			t.Errorf("%.20q: no mark in %q", in, out)
		}
		if strings.Contains(out, "4111 1111 1") {
			t.Errorf("half a card number in %q", out)
		}
	}
}

// drawCard draws a number that passes Luhn, and writes it with digits of any
// script and up to three separators between them.
func drawCard(rt *rapid.T) (number, written string) {
	body := rapid.StringMatching(`[1-9][0-9]{10,17}`).Draw(rt, "body")
	for check := '0'; check <= '9'; check++ {
		if luhnByHand(body + string(check)) {
			number = body + string(check)
		}
	}
	zero := rapid.SampledFrom([]rune{'0', '０', '०', '٠', '𝟘'}).Draw(rt, "script")
	gap := rapid.SampledFrom([]string{"", "", " ", "-", " - ", "\u00a0", "–", "\u200b", "\t", ".", "\u202f"})
	var b strings.Builder
	for i, d := range number {
		if i > 0 {
			b.WriteString(gap.Draw(rt, fmt.Sprint("gap ", i)))
		}
		b.WriteRune(zero + d - '0')
	}
	return number, b.String()
}

// luhnByHand is the check, written down a second time.
func luhnByHand(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d = d*2/10 + d*2%10
		}
		sum += d
	}
	return sum%10 == 0
}

func TestScrubMasksEveryCard(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, written := drawCard(rt)
		edge := rapid.StringMatching(`[a-z ,;:!(]{0,20}`)
		out, n := Scrub(edge.Draw(rt, "before") + written + edge.Draw(rt, "after"))
		digits := 0
		for _, r := range out {
			if unicode.IsDigit(r) {
				digits++
			}
		}
		// Of two numbers one inside the other the outer one need not be found first,
		// but never do so many digits stay that they could be a card number.
		if n == 0 || digits >= cardLeast {
			rt.Fatalf("%q: %q, %d", written, out, n)
		}
	})
}

// drawText draws text out of the pieces that the scrubber looks for.
func drawText(rt *rapid.T) string {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{" ", " otp ", "code", "pin", "4111 1111 1111 1111", "482913", "1", "2 3", "https://", "www.", "example.in", "/x",
			".", "-", "\u200b", "\u200d", "\u202e", "\n", mask, cutMark, "₹", "क", "👨", "@", "//", ":", "eyJhbGciOiJIUzI1NiJ9", "٤", "４"}),
	)
	return strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(rt, "pieces"), "")
}

func TestScrubTwiceIsScrubOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkScrub(rt, drawText(rt)) })
}

// What is taken for plain in one pass is what the rounds would find nothing in.
func TestPlainIsPlain(t *testing.T) {
	plains := 0
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{
			"Envoy", "order", ".", ". ", " ", ":", "/", "\\", "OTP", "code", "12", "411111111117", "1111", "a.b", "shop.in", "example.co.in", "www.", "http:",
			"upi:", "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh", "sk_live_", "PIN", "@", "?", "#", "-", "2,499.00", "is", "Bearer", "token",
		}), 0, 12)
		text := strings.Join(words.Draw(rt, "words"), "")
		for _, what := range []int{0, maskCards, maskCodes, maskLinks, maskCards | maskLinks, maskCards | maskCodes, maskAll} {
			if !plain(text, 60, what) {
				continue
			}
			plains++
			if out, n := scour(text, 60, what); out != text || n != 0 {
				rt.Fatalf("%q (%b) is called plain, but: %q, %d", text, what, out, n)
			}
		}
	})
	if plains < 100 {
		t.Errorf("only %d texts were plain", plains)
	}
}

func FuzzScrub(f *testing.F) {
	for _, s := range []string{"", "card 4111 1111 1111 1111", "otp 482 913", "https://x.example.test/a", "a\u202eb\u200d", "क्\u200dष", strings.Repeat("1 ", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkScrub(t, s) })
}

// checkScrub states what holds for any text.
func checkScrub(t interface {
	Fatalf(format string, args ...any)
}, in string) {
	out, n := Scrub(in)
	again, more := Scrub(out)
	switch {
	case again != out || more != 0:
		t.Fatalf("%q: %q, again %q, %d", in, out, again, more)
	case !utf8.ValidString(out) || utf8.RuneCountInString(out) > textLimit:
		t.Fatalf("%q: %q", in, out)
	case n == 0 && out != strings.TrimSpace(in):
		t.Fatalf("%q became %q uncounted", in, out)
	case hasCard(out):
		t.Fatalf("a card number stays in %q", out)
	case strings.ContainsFunc(out, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }):
		t.Fatalf("a control character stays in %q", out)
	case strings.Contains(out, "://"):
		t.Fatalf("a link stays in %q", out)
	}
}

func TestB40_UnknownNeverPassesNeighboursDo(t *testing.T) {
	for in, keep := range map[string]string{
		"Example Store, key sk_live_0123456789abcdefABCDEF0123456789 end": "Example Store",
		"Example Store Authorization: Bearer canary0123456789":            "Example Store",
		"Example Store https://x.example.test/?sig=canary0123456789":      "Example Store",
		"Example Store OTP canary0123456789":                              "Example Store",
	} {
		out, _ := Scrub(in)
		if !strings.HasPrefix(out, keep) || strings.Contains(out, "0123456789") {
			t.Errorf("%q: %q", in, out)
		}
	}
}

func BenchmarkScrub(b *testing.B) {
	for b.Loop() {
		Scrub("Envoy is confirming whether the payment for ₹2,499.00 at “Example Store” went through.")
	}
}
