package words_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/rivo/uniseg"

	"github.com/heraldbridge/herald/internal/sinks/words"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"Acme\r\nBcc: x":                               "Acme Bcc: x",
		"a\u2028b\u2029c\u0085d\ve":                    "a b c d e",
		"\u202eevil\u202c \u200fx":                     "evil x",
		"a\x00b\x1bc\x7f":                              "a b c",
		"  a   b  ":                                    "a b",
		"a\xffb":                                       "a\ufffdb",
		"क्ष\u200dत्र\u200c":                           "क्ष\u200dत्र\u200c",
		"\U0001f468\u200d\U0001f469":                   "\U0001f468\u200d\U0001f469",
		"a\u200bb\ufeffc\u00add\u2060e":                "abcde",
		"\ue000":                                       "\ufffd",
		"pay\u200dp\u200cal \u200d\u200c \u200d":       "paypal",
		"a\u3164b\uffa0c\u115fd\u034fe\u2800f":         "abcde f",
		"\u2764\ufe0f\ufe0f\ufe01 \ufe0f1\ufe0f\u20e3": "\u2764\ufe0f 1\ufe0f\u20e3",
		"\U0001f44d\U0001f3fd\u200d\u200d\U0001f469":   "\U0001f44d\U0001f3fd\u200d\U0001f469",
		"Z" + strings.Repeat("\u0300", 100) + "a":      "Z" + strings.Repeat("\u0300", 8) + "a",
		"": "",
	} {
		if got := words.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCutKeepsCharactersWhole(t *testing.T) {
	marker := words.Size(words.Marker, words.Units)
	for name, test := range map[string]struct {
		text, want string
		room       int
	}{
		"letters":        {"abcdef" + strings.Repeat("g", 20), "abc", 3},
		"surrogate pair": {strings.Repeat("\U0001f600", 20), "\U0001f600", 3},
		"combining mark": {"abe\u0301" + strings.Repeat("x", 20), "ab", 3},
		"family":         {"ab\U0001f468\u200d\U0001f469\u200d\U0001f467" + strings.Repeat("x", 20), "ab", 9},
		"skin tone":      {"ab\U0001f44d\U0001f3fd" + strings.Repeat("x", 20), "ab", 5},
		"flag":           {"\U0001f1ee\U0001f1f3\U0001f1ee\U0001f1f3" + strings.Repeat("x", 20), "\U0001f1ee\U0001f1f3", 7},
		"conjunct":       {"कक्ष" + strings.Repeat("x", 20), "क", 3},
		"vowel sign":     {"ककि" + strings.Repeat("x", 20), "क", 2},
		"hangul":         {"a\u1100\u1161\u11a8" + strings.Repeat("x", 20), "a", 3},
		"one too long":   {"Z" + strings.Repeat("\u0300", 50), "Z\u0300\u0300", 3},
		"no space left":  {"ab " + strings.Repeat("c", 30), "ab", 3},
	} {
		if got := words.Cut(test.text, test.room+marker, words.Units); got != test.want+words.Marker {
			t.Errorf("%s: %q, want %q", name, got, test.want+words.Marker)
		}
	}
	if words.Cut("short", 5, words.Units) != "short" || words.Cut("short", 4, words.Units) != "" {
		t.Error("a text that fits was cut, or one without room was not dropped")
	}
}

func TestCutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := words.Plain(rapid.String().Draw(t, "text"))
		limit := rapid.IntRange(0, 60).Draw(t, "limit")
		for _, cost := range []func(rune) int{words.Units, words.Bytes} {
			got := words.Cut(text, limit, cost)
			if words.Size(got, cost) > limit {
				t.Fatalf("%q is longer than %d", got, limit)
			}
			if !utf8.ValidString(got) {
				t.Fatalf("%q is not valid", got)
			}
			kept, cut := strings.CutSuffix(got, words.Marker)
			if got != "" && !strings.HasPrefix(text, kept) || !cut && got != text && got != "" {
				t.Fatalf("%q is not the beginning of %q", got, text)
			}
		}
	})
}

func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"", "a\r\nb", "\u202e", "क्ष", "\xff\xfe", "\U0001f468\u200d\U0001f469", "a\u200d\u3164\ufe0f\ufe0f", "e" + strings.Repeat("\u0301", 20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := words.Plain(s)
		if !utf8.ValidString(got) || words.Plain(got) != got {
			t.Fatalf("Plain(%q) = %q is not valid or not final", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
				t.Fatalf("Plain(%q) holds %U", s, r)
			}
		}
	})
}

func TestList(t *testing.T) {
	for n, want := range map[int]string{3: "a, b, c", 2: "a, b and 1 more", 1: "a and 2 more"} {
		if got := words.List([]string{"a", "b", "c"}, n); got != want {
			t.Errorf("List of %d = %q, want %q", n, got, want)
		}
	}
}

// The borders of characters are those of a segmenter that is not ours.
func TestCutsAreBordersOfCharacters(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pieces := []string{
		"a", " ", "क्षत्रिय", "क्\u200dष", "ก็", "e\u0301\u0302", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1ee\U0001f1f3",
		"\U0001f1ee", "한", "\u1112\u1161\u11ab", "नि", "ரா", "కా", "ක්\u200dෂ", "\u2764\ufe0f", "1\ufe0f\u20e3", "ẞ", "漢",
	}
	for range 5000 {
		var b strings.Builder
		for range 1 + random.IntN(30) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		text := b.String()
		got := words.Cut(text, len(words.Marker)+random.IntN(60), words.Units)
		kept, cut := strings.CutSuffix(got, words.Marker)
		if !cut || kept == "" {
			continue
		}
		borders := map[int]bool{}
		first, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
		if len(kept) < len(first) { // one character that is longer than the limit
			continue
		}
		for g := uniseg.NewGraphemes(text); g.Next(); {
			_, to := g.Positions()
			borders[to] = true
		}
		// Spaces before the marker go, and are borders themselves.
		if end := len(kept); !strings.HasPrefix(text, kept) || !borders[end] {
			t.Fatalf("Cut(%q) leaves %q, which ends inside a character", text, kept)
		}
	}
}
