package slack

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/heraldbridge/herald/internal/sinks/words"
)

// escape makes text that Slack shows as it is, within a limit of UTF-16 units:
// & < > once each, which disarms mentions, links and dates; the signs of Slack's
// formatting where they would format; addresses and @here without their effect.
func escape(s string, limit int) string {
	s = disarm(words.Plain(s))
	s = words.Cut(s, limit, escapedUnits)
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func escapedUnits(r rune) int {
	switch r {
	case '&':
		return len("&amp;")
	case '<', '>':
		return len("&lt;")
	}
	return words.Units(r)
}

// joiner is a word joiner: nothing to see, and no word goes on over it.
const joiner = "\u2060"

// disarm replaces signs that Slack would format by ones that look alike, and takes
// the effect from addresses and @names. Verbatim text objects do part of that, but
// the text of notifications and old clients do not. Signs inside a word, such as
// the _ of an id, do not format and stay, as does the colon of a time of day.
func disarm(s string) string {
	s = strings.ReplaceAll(s, "://", ":"+joiner+"//")
	var b strings.Builder
	if strings.HasPrefix(s, ">") { // escaped or not, at the beginning of a line it quotes
		b.WriteString(joiner)
	}
	prev := ' '
	for i, r := range s {
		next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		b.WriteString(disarmRune(prev, r, next))
		prev = r
	}
	return b.String()
}

func disarmRune(prev, r, next rune) string {
	inside := isWord(prev) && isWord(next)
	switch {
	case r == '*' && !inside:
		return "\u2217" // asterisk operator
	case r == '_' && !inside:
		return "\u02cd" // modifier letter low macron
	case r == '~' && !inside:
		return "\u223c" // tilde operator
	case r == '`':
		return "\u02cb" // modifier letter grave accent
	case r == '@' && isWord(next), r == '#' && isWord(next):
		return string(r) + joiner
	case r == ':' && (isWord(next) || next == '+' || next == '-') && (!unicode.IsDigit(prev) || !unicode.IsDigit(next)):
		return "\ua789" // modifier letter colon: no emoji begins
	}
	return string(r)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
