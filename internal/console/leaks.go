package console

import (
	"fmt"
	"net/http"
	"regexp"
	"sort"
)

// LeakReport is what a search of everything that is stored found.
type LeakReport struct {
	Records  map[string]int `json:"records"`  // by store
	Secrets  int            `json:"secrets"`  // that were searched for
	Unread   []string       `json:"unread"`   // references whose secrets this process could not read
	Findings []Finding      `json:"findings"` // never the value itself
	Total    int            `json:"total"`    // of findings, of which the first are shown
}

// Finding is a place that holds what it must not.
type Finding struct {
	Store    string `json:"store"`
	Place    string `json:"place"`
	Sequence uint64 `json:"sequence,omitempty"`
	Kind     string `json:"kind"`           // card, secret
	Name     string `json:"name,omitempty"` // of a secret: its reference
}

const mostFindings = 1000

// leakcheck searches for card numbers and for the secrets of this process.
func (c *console) leakcheck(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	known, unread := c.Vault.Secrets(r.Context())
	report := LeakReport{Records: map[string]int{}, Secrets: len(known), Unread: unread, Findings: []Finding{}}
	if report.Unread == nil {
		report.Unread = []string{}
	}
	numbers := newCards()
	for rec, err := range c.Vault.Records(r.Context()) {
		if err != nil {
			return fmt.Errorf("search stores: %w", err)
		}
		report.Records[rec.Store]++
		for _, f := range search(rec, numbers, known) {
			if report.Total++; len(report.Findings) < mostFindings {
				report.Findings = append(report.Findings, f)
			}
		}
	}
	sort.SliceStable(report.Findings, func(i, j int) bool { return report.Findings[i].Store < report.Findings[j].Store })
	return give(w, report)
}

func search(rec Record, numbers cards, known []Secret) []Finding {
	var out []Finding
	at := Finding{Store: rec.Store, Place: rec.Place, Sequence: rec.Sequence}
	if numbers.in(rec.Text) {
		at.Kind = "card"
		out = append(out, at)
	}
	for _, s := range known {
		if s.In(rec.Text) {
			at.Kind, at.Name = "secret", s.Name
			out = append(out, at)
		}
	}
	return out
}

// cards finds card numbers.
type cards struct{ trace, number *regexp.Regexp }

// newCards knows card numbers as 13 to 19 digits, in one piece or in groups,
// that begin as card numbers do. Trace contexts are long digits too.
func newCards() cards {
	return cards{
		trace: regexp.MustCompile(`00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}`),
		number: regexp.MustCompile(`(?:^|[^0-9A-Za-z_])(` +
			`[2-68][0-9]{3}(?:[ -][0-9]{4}){2}[ -][0-9]{1,7}|3[47][0-9]{2}[ -][0-9]{6}[ -][0-9]{5}|[2-68][0-9]{12,18})`),
	}
}

// in tells whether a text holds a card number that passes its check digit.
func (c cards) in(text string) bool {
	text = c.trace.ReplaceAllLiteralString(text, "")
	for _, at := range c.number.FindAllStringSubmatchIndex(text, -1) {
		begin, end := at[2], at[3]
		if end < len(text) && wordByte(text[end]) {
			continue
		}
		if luhn(text[begin:end]) {
			return true
		}
	}
	return false
}

func wordByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_'
}

// luhn checks the check digit; spaces and dashes are passed over.
func luhn(text string) bool {
	sum, double := 0, false
	for i := len(text) - 1; i >= 0; i-- {
		d := int(text[i]) - '0'
		if d < 0 || d > 9 {
			continue
		}
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}
