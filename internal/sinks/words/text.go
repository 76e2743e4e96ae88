package words

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// Marker stands where text was cut off.
const Marker = " … [cut]"

// Plain makes one harmless line of a text that came from outside: valid UTF-8,
// no control, bidirectional or invisible characters, single spaces. Joiners and
// variants stay where scripts and emoji need them, and marks stand on top of each
// other only as high as the line.
func Plain(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	var b strings.Builder
	prev, marks := ' ', 0
	for _, r := range s {
		r = plainRune(prev, r)
		if unicode.Is(unicode.Mn, r) {
			marks++
		} else if r >= 0 {
			marks = 0
		}
		if r < 0 || marks > maxMarks {
			continue
		}
		b.WriteRune(r)
		prev = r
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	braillePattern     = '\u2800' // of no dots
	// maxMarks is more than any script puts on one letter.
	maxMarks = 8
)

// plainRune is what becomes of r after prev; -1: nothing.
func plainRune(prev, r rune) rune {
	switch {
	case r > ' ' && r < 0x7f:
		return r
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return onlyIf(joins(prev), r)
	case unicode.Is(unicode.Variation_Selector, r):
		return onlyIf(prev != ' ' && prev != zeroWidthJoiner && prev != zeroWidthNonJoiner && !unicode.Is(unicode.Variation_Selector, prev), r)
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r): // bidirectional marks, zero-width spaces, tags, fillers
		return -1
	case unicode.IsControl(r), unicode.IsSpace(r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), r == braillePattern:
		return ' '
	case unicode.Is(unicode.Co, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
		return '\ufffd'
	}
	return r
}

func onlyIf(keep bool, r rune) rune {
	if keep {
		return r
	}
	return -1
}

// joins reports what a joiner can mean something after: a letter of a script that
// joins, a mark, an emoji.
func joins(r rune) bool {
	return unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) || unicode.IsMark(r) || unicode.Is(unicode.So, r) || unicode.Is(unicode.Sk, r)
}

// Units counts a rune in UTF-16 units, the strictest reading of "characters".
func Units(r rune) int { return max(utf16.RuneLen(r), 1) }

// Bytes counts a rune in bytes of UTF-8.
func Bytes(r rune) int { return len(string(r)) }

// Size adds up what a text costs.
func Size(s string, cost func(rune) int) int {
	n := 0
	for _, r := range s {
		n += cost(r)
	}
	return n
}

// Cut shortens a text to a limit, in units of cost, and puts Marker at the end of
// what it shortened. It cuts between whole characters as a reader sees them:
// combining marks, joined emoji, flags and conjuncts stay together, unless a
// single one is longer than the limit. A limit too small for Marker gives "".
func Cut(s string, limit int, cost func(rune) int) string {
	if Size(s, cost) <= limit {
		return s
	}
	budget := limit - Size(Marker, cost)
	if budget < 0 {
		return ""
	}
	var c clusters
	spent, hard, soft := 0, 0, 0
	for i, r := range s {
		if c.breaksBefore(r) {
			soft = i
		}
		if spent += cost(r); spent > budget {
			break
		}
		hard = i + len(string(r))
	}
	end := min(soft, hard)
	if end == 0 {
		end = hard
	}
	return strings.TrimRight(s[:end], " \u200c\u200d") + Marker
}

// clusters finds the borders of characters as readers see them: the rules of
// Unicode's text segmentation that matter for not tearing a character apart.
type clusters struct {
	prev  rune
	flags int // regional indicators in a row
	any   bool
}

func (c *clusters) breaksBefore(r rune) bool {
	breaks := !c.any || !c.glued(r)
	if isFlag(r) {
		c.flags++
	} else {
		c.flags = 0
	}
	c.prev, c.any = r, true
	return breaks
}

func (c *clusters) glued(r rune) bool {
	switch {
	case unicode.Is(unicode.M, r), r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return true
	case c.prev == zeroWidthJoiner:
		return true
	case r >= 0x1f3fb && r <= 0x1f3ff: // skin tones
		return true
	case isFlag(r):
		return c.flags%2 == 1
	case isVirama(c.prev):
		return unicode.IsLetter(r)
	case isHangulVowelOrTail(r):
		return true
	case isHangulLead(c.prev):
		return isHangulLead(r) || r >= 0xac00 && r <= 0xd7a3
	}
	return false
}

func isFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

func isHangulLead(r rune) bool { return r >= 0x1100 && r <= 0x115f || r >= 0xa960 && r <= 0xa97c }

func isHangulVowelOrTail(r rune) bool {
	return r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7fb
}

// isVirama reports the signs that join the consonant before with the one after.
func isVirama(r rune) bool {
	switch r {
	case 0x094d, 0x09cd, 0x0a4d, 0x0acd, 0x0b4d, 0x0bcd, 0x0c4d, 0x0ccd, 0x0d4d, 0x0dca, 0x1039, 0x17d2:
		return true
	}
	return false
}

// List joins names with commas and counts what does not fit into n.
func List(names []string, n int) string {
	rest := len(names) - n
	if rest <= 0 {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:n], ", ") + " and " + digits(int64(rest)) + " more"
}
