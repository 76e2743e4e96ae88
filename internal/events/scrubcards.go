package events

import (
	"slices"
	"strings"
	"unicode"
)

const (
	cardLeast = 12
	cardMost  = 19
	// separatorsMost is how many spaces and dashes may stand between two digits of one number.
	separatorsMost = 3
)

// group is a run of digits with nothing between them: its place in the text and
// its values.
type group struct {
	from, to int // bytes
	first    int // index of its first digit in the values of the run
	size     int
}

// maskCardNumbers masks card numbers, however their digits are grouped.
func maskCardNumbers(text string) (string, int) {
	if !enoughDigits(text) {
		return text, 0
	}
	var b strings.Builder
	n, done := 0, 0
	for _, run := range digitRuns(text) {
		for _, card := range run.cards() {
			b.WriteString(text[done:card[0]])
			b.WriteString(mask)
			done = card[1]
			n++
		}
	}
	if n == 0 {
		return text, 0
	}
	b.WriteString(text[done:])
	return b.String(), n
}

// hasCard tells whether text holds a card number.
func hasCard(text string) bool {
	_, n := maskCardNumbers(text)
	return n > 0
}

// enoughDigits tells whether text can hold a card number at all.
func enoughDigits(text string) bool {
	n := 0
	for _, r := range text {
		if _, ok := digitValue(r); ok {
			n++
		}
	}
	return n >= cardLeast
}

// digitRun is a row of groups that separators join.
type digitRun struct {
	values []byte
	groups []group
}

// digitRuns finds the rows of digit groups of a text.
func digitRuns(text string) []digitRun {
	var runs []digitRun
	var run digitRun
	gap := separatorsMost + 1 // since the last digit
	flush := func() {
		if len(run.values) >= cardLeast {
			runs = append(runs, run)
		}
		run = digitRun{}
	}
	for i, r := range text {
		v, ok := digitValue(r)
		if !ok {
			gap++
			if !separates(r) || gap > separatorsMost {
				gap = separatorsMost + 1
				flush()
			}
			continue
		}
		if gap != 0 || len(run.groups) == 0 {
			run.groups = append(run.groups, group{from: i, first: len(run.values)})
		}
		gap = 0
		run.values = append(run.values, v)
		g := &run.groups[len(run.groups)-1]
		g.size++
		g.to = i + len(string(r))
	}
	flush()
	return runs
}

// cards gives the places of card numbers: neighbouring groups that together have
// the length and pass Luhn, the most of them first; and inside a group that is
// too long for a number by itself, any stretch that does.
func (d digitRun) cards() [][2]int {
	var found [][2]int
	for i := 0; i < len(d.groups); {
		last := d.lastOf(i)
		switch {
		case last >= 0:
			found = append(found, [2]int{d.groups[i].from, d.groups[last].to})
			i = last + 1
		case d.groups[i].size > 16 && d.hides(d.groups[i]):
			found = append(found, [2]int{d.groups[i].from, d.groups[i].to})
			i++
		default:
			i++
		}
	}
	return found
}

// lastOf gives the last group of the longest number that begins with group i,
// or -1.
func (d digitRun) lastOf(i int) int {
	best, size := -1, 0
	for k := i; k < len(d.groups); k++ {
		size += d.groups[k].size
		if size > cardMost {
			break
		}
		first := d.groups[i].first
		if size >= cardLeast && luhn(d.values[first:first+size]) {
			best = k
		}
	}
	return best
}

// hides tells whether a long group holds a number of the usual 16 digits with
// others glued to it.
func (d digitRun) hides(g group) bool {
	values := d.values[g.first : g.first+g.size]
	return slices.ContainsFunc(slices.Collect(windows(values, 16)), luhn)
}

func windows(values []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for i := 0; i+size <= len(values); i++ {
			if !yield(values[i : i+size]) {
				return
			}
		}
	}
}

// luhn tells whether digits pass the check that every card number passes.
func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		v := int(d)
		if (len(digits)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// separates tells whether r may stand between two digits of one number.
func separates(r rune) bool {
	switch r {
	case ' ', '-', '_', '.', '·', '•', '−', '⁃', '~', '*':
		return true
	}
	return r > 0x7f && (unicode.IsSpace(r) || unicode.In(r, unicode.Pd, unicode.Zs, unicode.Mn, unicode.Me))
}

// digitValue is the value of a decimal digit of any script, of superscripts,
// subscripts and digits in circles.
func digitValue(r rune) (byte, bool) {
	if r < 0x80 {
		return byte(r - '0'), r >= '0' && r <= '9'
	}
	switch {
	case r == 0xb2, r == 0xb3:
		return byte(r - 0xb0), true
	case r == 0xb9:
		return 1, true
	case r == 0x2070, r >= 0x2074 && r <= 0x2079:
		return byte(r - 0x2070), true
	case r >= 0x2080 && r <= 0x2089:
		return byte(r - 0x2080), true
	case r >= 0x2460 && r <= 0x2468:
		return byte(r-0x2460) + 1, true
	case r == 0x24ea, r == 0x24ff:
		return 0, true
	case r >= 0x2776 && r <= 0x277e:
		return byte(r-0x2776) + 1, true
	}
	if !unicode.IsDigit(r) {
		return 0, false
	}
	// Decimal digits come in unbroken tens, the first of which is zero.
	for _, t := range unicode.Nd.R16 {
		if uint32(r) >= uint32(t.Lo) && uint32(r) <= uint32(t.Hi) {
			return byte((r - rune(t.Lo)) % 10), true
		}
	}
	for _, t := range unicode.Nd.R32 {
		if uint32(r) >= t.Lo && uint32(r) <= t.Hi {
			return byte((r - rune(t.Lo)) % 10), true
		}
	}
	return 0, false
}
