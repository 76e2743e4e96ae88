package events

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// mask stands where something was masked. It holds no digit, no dot and no word
// that the scrubber looks for, so that scrubbing twice changes nothing.
const mask = "[masked]"

// cutMark ends a text that was too long.
const cutMark = "…"

// What scrub masks beside control characters, which never pass.
const (
	maskCards = 1 << iota // card numbers
	maskLinks             // addresses of pages, with and without a scheme
	maskCodes             // one-time codes, PINs and voucher codes, long opaque tokens
	maskAll   = maskCards | maskLinks | maskCodes
)

// Scrub masks what free text must not carry onward: card numbers (12 to 19
// digits of any script that pass Luhn, whatever spaces and dashes stand between),
// codes next to words such as OTP or PIN, links, control and bidirectional
// characters, and zero-width characters where no script needs them. It gives the
// text, cut at 2,000 characters, and the number of pieces masked. Scrubbing a
// scrubbed text changes nothing.
func Scrub(text string) (string, int) { return scrub(text, textLimit, maskAll) }

// scrub is Scrub with a limit, in characters, and for some kinds only.
func scrub(text string, limit, what int) (string, int) {
	if plain(text, limit, what) {
		return text, 0
	}
	return scour(text, limit, what)
}

// scour masks until nothing more is found: a mask can bring together what was
// apart. Each round removes digits or links, so the rounds come to an end.
func scour(text string, limit, what int) (string, int) {
	text, total := precut(text, limit)
	for {
		var n int
		text, n = clean(text)
		for _, step := range [...]struct {
			flag int
			run  func(string) (string, int)
		}{{maskCards, maskCardNumbers}, {maskLinks, maskAddresses}, {maskCodes, maskSecretWords}} {
			if what&step.flag != 0 {
				var found int
				text, found = step.run(text)
				n += found
			}
		}
		total += n
		if n > 0 {
			continue
		}
		short := cut(text, limit)
		if short == text {
			return text, total
		}
		text = short
		total++
	}
}

// plain tells in one pass that there is nothing to look at: too few digits for a card, none where codes are looked for,
// and of the characters that make a link only dots at the end of a word.
func plain(text string, limit, what int) bool {
	if len(text) > limit || strings.HasPrefix(text, " ") || strings.HasSuffix(text, " ") {
		return false
	}
	digits := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= 0x7f:
			return false
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && (i+1 == len(text) || text[i+1] == ' '):
		case c == '.' || c == ':' || c == '/' || c == '\\':
			if what&maskLinks != 0 {
				return false
			}
		}
	}
	return digits == 0 || what&maskCodes == 0 && (what&maskCards == 0 || digits < cardLeast)
}

// precut bounds the work on a text that is far too long, and drops what the cut
// may have broken in two: the last token, and digits that may be half a number.
func precut(text string, limit int) (string, int) {
	if len(text) <= 8*limit {
		return text, 0
	}
	text = text[:8*limit]
	if i := strings.LastIndexFunc(text, unicode.IsSpace); i >= 0 {
		text = text[:i]
	}
	return strings.TrimRightFunc(text, func(r rune) bool {
		_, digit := digitValue(r)
		return digit || separates(r)
	}) + cutMark, 1
}

// cut shortens a text to limit characters, the last of which is a mark.
func cut(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n == limit-1 {
			return strings.TrimRight(text[:i], " ") + cutMark
		}
		n++
	}
	return text
}

// clean makes text valid UTF-8, turns controls and line ends into one space
// each, and drops characters that only change how others look. It counts the
// runs of characters that it changed.
func clean(text string) (string, int) {
	var b strings.Builder
	b.Grow(len(text))
	n, running := 0, false
	before := rune(-1)
	rest := text
	for len(rest) > 0 {
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		out := r
		switch {
		case r == 0x200c || r == 0x200d:
			after, _ := utf8.DecodeRuneInString(rest)
			if joins(before) && joins(after) {
				break
			}
			out = -1
		case invisible(r):
			out = -1
		case unicode.IsControl(r), r == 0x2028, r == 0x2029:
			out = ' '
		}
		changed := out != r || r == utf8.RuneError && size == 1
		if changed && !running {
			n++
		}
		running = changed
		if out >= 0 {
			b.WriteRune(out)
			before = out
		}
	}
	return strings.TrimSpace(b.String()), n
}

// invisible tells whether r shows nothing itself and can only deceive:
// bidirectional controls, zero-width characters, tags, fillers.
func invisible(r rune) bool {
	switch {
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5,
		r == 0x3164, r == 0xffa0, r == 0xfeff:
		return true
	case r >= 0x180b && r <= 0x180f, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f, r >= 0xfff0 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe0fff:
		return true
	case unicode.Is(unicode.Co, r), unicode.Is(unicode.Cs, r):
		return true
	}
	return unicode.Is(unicode.Cf, r) && r != 0x200c && r != 0x200d
}

// joins tells whether a zero-width joiner or non-joiner has work to do beside r:
// in Indic and Arabic writing and between pictures.
func joins(r rune) bool {
	return r > 0x2ff && (unicode.IsLetter(r) && !unicode.In(r, unicode.Greek, unicode.Cyrillic) ||
		unicode.IsMark(r) || unicode.Is(unicode.So, r))
}
