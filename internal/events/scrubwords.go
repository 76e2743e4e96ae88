package events

import (
	"strings"
	"unicode"
)

// opaqueLength is from when a token of letters and digits is taken for a
// credential.
const opaqueLength = 32

// How many tokens after and before a word such as OTP a code is looked for.
const (
	codeAfter  = 6
	codeBefore = 4
)

// codeDigits is the least number of digits that a code has.
const codeDigits = 3

// tokens splits text into tokens and the white space before each: even entries
// are white space, odd ones tokens.
func tokens(text string) []string {
	var parts []string
	from, space := 0, true
	for i, r := range text {
		if unicode.IsSpace(r) != space {
			parts = append(parts, text[from:i])
			from, space = i, !space
		}
	}
	return append(parts, text[from:])
}

// maskAddresses masks every token that is or holds a link, whole: half a link
// may still be a link.
func maskAddresses(text string) (string, int) {
	if !strings.ContainsAny(text, ".:/\\。．｡：／") {
		return text, 0
	}
	parts := tokens(text)
	n := 0
	for i := 1; i < len(parts); i += 2 {
		if isLink(parts[i]) {
			parts[i] = mask
			n++
		}
	}
	if n == 0 {
		return text, 0
	}
	return strings.Join(parts, ""), n
}

// isLink tells whether a token would take a reader or a program somewhere. The
// name of a shop that is a bare domain of two labels, such as Example.in, is none.
func isLink(token string) bool {
	t := strings.ToLower(strings.Map(foldPunctuation, token))
	if strings.Contains(t, "://") || strings.Contains(t, `:\\`) {
		return true
	}
	for _, scheme := range []string{"www.", "http:", "https:", "javascript:", "data:", "vbscript:", "upi:", "intent:", "file:"} {
		if i := strings.Index(t, scheme); i >= 0 && len(t) > i+len(scheme) && (i == 0 || !letter(t[i-1])) {
			return true
		}
	}
	return holdsHost(t)
}

// holdsHost tells whether a token holds a host with something after it, or a
// host of three labels and more. The address of a mailbox is no link.
func holdsHost(t string) bool {
	from := -1
	runes := []rune(t)
	last := len(runes) - 1 // of the letters and digits
	for last >= 0 && !unicode.IsLetter(runes[last]) && !unicode.IsDigit(runes[last]) {
		last--
	}
	for i := 0; i <= len(runes); i++ {
		if i < len(runes) && hostRune(runes[i]) {
			if from < 0 {
				from = i
			}
			continue
		}
		if from < 0 {
			continue
		}
		mailbox := from > 0 && runes[from-1] == '@'
		if linkedHost(string(runes[from:i]), string(runes[i:min(i+2, len(runes))]), last > i, mailbox) {
			return true
		}
		from = -1
	}
	return false
}

// linkedHost judges one host by its labels and by what comes after it: the next
// two characters, and whether there is more to read at all.
func linkedHost(host, rest string, more, mailbox bool) bool {
	labels := strings.Split(strings.Trim(host, ".-"), ".")
	if len(labels) < 2 {
		return false
	}
	numeric := len(labels) == 4
	for _, l := range labels {
		if l == "" {
			return false
		}
		numeric = numeric && len(l) <= 3 && digitsOnly(l)
	}
	if !numeric && !isTop(labels[len(labels)-1]) {
		return false
	}
	switch {
	case rest != "" && strings.ContainsRune("/?#\\", rune(rest[0])):
		return more || len(labels) > 2
	case len(rest) > 1 && rest[0] == ':' && rest[1] >= '0' && rest[1] <= '9':
		return true
	default:
		return !mailbox && len(labels) >= 3 && !numeric && len(labels[len(labels)-2]) >= 2
	}
}

// isTop tells whether a label can be the last one of a host.
func isTop(label string) bool {
	return len(label) >= 2 && (strings.HasPrefix(label, "xn--") || lettersOnly(label))
}

func hostRune(r rune) bool {
	return r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' }

func lettersOnly(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
}

// foldPunctuation makes plain ASCII of the forms that browsers read as such.
func foldPunctuation(r rune) rune {
	switch r {
	case '。', '．', '｡':
		return '.'
	case '：', '︓':
		return ':'
	case '／', '⁄', '∕':
		return '/'
	}
	return r
}

// maskSecretWords masks codes near the words that announce them, and tokens so
// long that nobody reads them.
func maskSecretWords(text string) (string, int) {
	parts := tokens(text)
	near := make([]bool, len(parts))
	for i := 1; i < len(parts); i += 2 {
		if !announces(parts[i]) {
			continue
		}
		for k := max(1, i-2*codeBefore); k <= min(len(parts)-1, i+2*codeAfter); k += 2 {
			near[k] = true
		}
	}
	for k := 3; k < len(parts); k += 2 { // a code written digit by digit goes on
		near[k] = near[k] || near[k-2] && bareDigits(parts[k-2]) && bareDigits(parts[k])
	}
	for k := len(parts) - 3; k > 0; k-- {
		near[k] = near[k] || near[k+2] && bareDigits(parts[k+2]) && bareDigits(parts[k])
	}
	var found []int // judged by their neighbours, so nothing is masked before all are judged
	for i := 1; i < len(parts); i += 2 {
		if opaque(parts[i]) || near[i] && !isAmount(parts, i) && isCode(parts, i) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return text, 0
	}
	for _, i := range found {
		parts[i] = mask
	}
	return strings.Join(parts, ""), len(found)
}

// announces tells whether a token has a word in it after or before which a code
// is to be expected.
func announces(token string) bool {
	for _, word := range strings.FieldsFunc(strings.ToLower(token), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r)
	}) {
		switch word {
		case "otp", "otps", "code", "codes", "pin", "pins", "mpin", "tpin", "upin", "cvv", "cvc", "cvn", "passcode",
			"passcodes", "password", "passwords", "pwd", "token", "bearer", "secret", "voucher",
			"ओटीपी", "पिन", "कोड":
			return true
		}
	}
	return false
}

// isCode tells whether a token near such a word can be the code: it has three
// digits, by itself or together with the bare digits beside it.
func isCode(parts []string, i int) bool {
	own := countDigits(parts[i])
	if own == 0 || isClock(parts[i]) {
		return false
	}
	total := own
	if bareDigits(parts[i]) {
		for k := i - 2; k > 0 && total < codeDigits && bareDigits(parts[k]); k -= 2 {
			total += countDigits(parts[k])
		}
		for k := i + 2; k < len(parts) && total < codeDigits && bareDigits(parts[k]); k += 2 {
			total += countDigits(parts[k])
		}
	}
	return total >= codeDigits
}

// isAmount tells whether a token is a sum of money, by the sign before it.
func isAmount(parts []string, i int) bool {
	t := strings.ToLower(strings.TrimLeft(parts[i], "([{\"'"))
	for _, sign := range []string{"₹", "rs", "inr", "$", "€", "£"} {
		if strings.HasPrefix(t, sign) && countDigits(t) <= 12 {
			return true
		}
		if i >= 2 && strings.Trim(strings.ToLower(parts[i-2]), ".([{\"'") == sign {
			return true
		}
	}
	return false
}

// isClock tells whether a token is a time of day such as 12:30.
func isClock(token string) bool {
	h, m, ok := strings.Cut(strings.Trim(token, ".,;()"), ":")
	return ok && len(h) >= 1 && len(h) <= 2 && len(m) == 2 && digitsOnly(h) && digitsOnly(m)
}

// opaque tells whether a token looks like a credential. Ids of purchases do, and
// are known not to be.
func opaque(token string) bool {
	core := strings.TrimFunc(token, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(core) < opaqueLength || ValidPurchaseID(core) {
		return false
	}
	letters, digits := 0, 0
	for _, r := range core {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		case strings.ContainsRune("-_.+/=~", r):
		default:
			return false
		}
	}
	return digits >= 4 && letters >= 4
}

// bareDigits tells whether a token is digits and punctuation only.
func bareDigits(token string) bool {
	return countDigits(token) > 0 && !strings.ContainsFunc(token, unicode.IsLetter)
}

func countDigits(token string) int {
	n := 0
	for _, r := range token {
		if _, ok := digitValue(r); ok {
			n++
		}
	}
	return n
}
