package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// functions are few and total: a template that needs more should be a receiver
// of the event itself. Those of Go's templates that make text are replaced by ones
// that say the same and are charged for it.
//
//	json V        V as JSON, strings with their quotes
//	amount A      an amount as Envoy displays it
//	major N       minor units as a decimal number: 249900 is 2499.00
//	time T        T as RFC 3339 in the configured time zone; "" for no time
//	upper, lower, plain (one line without invisible characters)
//	trunc N S     at most N characters of S, cut between whole ones
//	join SEP L    the items of L with SEP between them
func functions(loc *time.Location, m *meter) template.FuncMap {
	if loc == nil {
		loc = time.UTC
	}
	return template.FuncMap{
		step:       m.step,
		"json":     func(v any) (string, error) { return m.made(marshal(v)) },
		"amount":   func(v any) (string, error) { return m.made(amount(v)) },
		"major":    func(n int64) (string, error) { return m.made(words.Major(n), nil) },
		"time":     func(v any) (string, error) { return m.made(formatTime(v, loc)) },
		"upper":    func(s string) (string, error) { return m.made(strings.ToUpper(s), nil) },
		"lower":    func(s string) (string, error) { return m.made(strings.ToLower(s), nil) },
		"plain":    func(s string) (string, error) { return m.made(words.Plain(s), nil) },
		"trunc":    func(n int, s string) (string, error) { return m.made(words.Cut(s, n, words.Units), nil) },
		"join":     m.join,
		"print":    m.print,
		"println":  m.println,
		"printf":   m.printf,
		"html":     m.escaped(template.HTMLEscapeString),
		"js":       m.escaped(template.JSEscapeString),
		"urlquery": m.escaped(func(s string) string { return template.URLQueryEscaper(s) }),
	}
}

// made charges for a text.
func (m *meter) made(s string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return s, m.spend(len(s))
}

func (m *meter) join(sep string, list []string) (string, error) {
	size := len(sep) * len(list)
	for _, s := range list {
		size += len(s)
	}
	if err := m.spend(size); err != nil {
		return "", err
	}
	return strings.Join(list, sep), nil
}

// print puts spaces between values of which neither is a text, as fmt.Sprint does.
func (m *meter) print(values ...any) (string, error) {
	b := bounded{limit: m.text}
	text := true
	for _, v := range values {
		_, isText := v.(string)
		if !text && !isText {
			_ = b.WriteByte(' ')
		}
		text = isText
		if _, err := fmt.Fprint(&b, v); err != nil {
			return "", err
		}
	}
	return m.made(b.String(), nil)
}

func (m *meter) println(values ...any) (string, error) {
	var spaced []any
	for i, v := range values {
		if i > 0 {
			spaced = append(spaced, " ")
		}
		spaced = append(spaced, v)
	}
	return m.print(append(spaced, "\n")...)
}

// printf takes no widths from values. Beforehand it can only say what the text has
// at most: the longest value for every verb, and every width that is written.
func (m *meter) printf(format string, values ...any) (string, error) {
	longest := 0
	for _, v := range values {
		longest = max(longest, size(v))
	}
	most := len(format)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		width, end := widths(format[i+1:])
		if width < 0 {
			return "", errors.New("printf: write widths as numbers")
		}
		most += longest + width
		i += end + 1
	}
	if most > m.text {
		return "", errors.New("printf: the template makes too much text")
	}
	return m.made(fmt.Sprintf(format, values...), nil)
}

// widths adds up the numbers between a percent sign and its verb, and says where
// the verb is; -1 for a width that is taken from a value.
func widths(s string) (sum, verb int) {
	const enough = maxText
	number := 0
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			number = min(number*10+int(r-'0'), enough)
		case r == '*':
			return -1, i
		case strings.ContainsRune("+-# .[]", r):
			sum, number = sum+number, 0
		default:
			return sum + number, i
		}
	}
	return sum + number, len(s)
}

func size(v any) int {
	if s, ok := v.(string); ok {
		return len(s)
	}
	return len(fmt.Sprint(v))
}

func (m *meter) escaped(escape func(string) string) func(...any) (string, error) {
	return func(values ...any) (string, error) {
		s, err := m.print(values...)
		if err != nil {
			return "", err
		}
		return m.made(escape(s), nil)
	}
}

func marshal(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("encode value: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func amount(v any) (string, error) {
	switch a := v.(type) {
	case events.Amount:
		return words.Amount(a), nil
	case *events.Amount:
		if a == nil {
			return "", nil
		}
		return words.Amount(*a), nil
	}
	return "", errors.New("amount wants an amount")
}

func formatTime(v any, loc *time.Location) (string, error) {
	switch t := v.(type) {
	case time.Time:
		if t.IsZero() {
			return "", nil
		}
		return t.In(loc).Format(time.RFC3339), nil
	case *time.Time:
		if t == nil {
			return "", nil
		}
		return formatTime(*t, loc)
	}
	return "", errors.New("time wants a time")
}
