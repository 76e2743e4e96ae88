package slack

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/sinks/words"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"a < b > c & d &amp; e":    "a &lt; b &gt; c &amp; d &amp;amp; e",
		`"quoted" it's`:            `"quoted" it's`,
		"<!channel> @here":         "&lt;!channel&gt; @\u2060here",
		"#general":                 "#\u2060general",
		"https://a.test/x":         "https:\u2060//a.test/x",
		"*bold* 2*3 _it_ pur_1_2":  "\u2217bold\u2217 2*3 \u02cdit\u02cd pur_1_2",
		"~x~ `c` :tada: 12:30":     "\u223cx\u223c \u02cbc\u02cb \ua789tada: 12:30",
		":+1: :-1: :100: a1:tada:": "\ua789+1: \ua789-1: \ua789100: a1\ua789tada:",
		"12:30:45 at 1:5":          "12:30:45 at 1:5",
		"> quoted":                 "\u2060&gt; quoted",
		">>> all > of it":          "\u2060&gt;&gt;&gt; all &gt; of it",
		"राम & co":                 "राम &amp; co",
	} {
		if got := escape(in, 1000); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEscapeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[&<>@#*_:/a-z \x{200d}\x{0301}]{0,80}`)).Draw(t, "text")
		limit := rapid.IntRange(0, 100).Draw(t, "limit")
		got := escape(text, limit)
		if words.Size(got, words.Units) > limit || !utf8.ValidString(got) {
			t.Fatalf("%q is too long or not valid", got)
		}
		if strings.ContainsAny(got, "<>\r\n`") || strings.Contains(got, "://") {
			t.Fatalf("%q is not disarmed", got)
		}
		if strings.HasPrefix(got, "&gt;") {
			t.Fatalf("%q quotes", got)
		}
		rest := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(got)
		if strings.Contains(rest, "&") {
			t.Fatalf("%q holds an & that is not escaped, or a torn one", got)
		}
	})
}
