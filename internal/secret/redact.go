package secret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// RedactText replaces every occurrence of the secrets in a text, as they are and as they look when escaped for a
// URL, in JSON, quoted by Go or in base64.
func RedactText(text string, secrets ...Value) string {
	var forms []string
	for _, s := range secrets {
		if !s.IsZero() {
			forms = append(forms, spellings(s.Reveal())...)
		}
	}
	// The longest first: a short secret must not break up a longer one that holds it.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, Redacted)
	}
	return text
}

func spellings(secret string) []string {
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: secret}).EscapedPath(),
		url.UserPassword("", secret).String()[1:],
		strings.Trim(strconv.Quote(secret), `"`),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	if quoted, err := json.Marshal(secret); err == nil {
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	return slices.DeleteFunc(forms, func(form string) bool { return form == "" })
}

// Redact cleans an error of addresses like [CleanError] and of the given secrets like [RedactText]. errors.Is and
// errors.As still find the causes; the text of the result is safe, that of a cause found by errors.As need not be.
// A nil error stays nil.
func Redact(err error, secrets ...Value) error {
	if err == nil {
		return nil
	}
	err = CleanError(err)
	text := err.Error()
	if safe := RedactText(text, secrets...); safe != text {
		return &cleaned{text: safe, cause: err}
	}
	return err
}

// CleanError takes the addresses out of an error of net/http and net/url: a *url.Error becomes its cause, also when it
// is wrapped. errors.Is and errors.As still find the causes, except *url.Error itself. A nil error stays nil.
func CleanError(err error) error {
	if outer, ok := err.(*url.Error); ok { //nolint:errorlint // only the outermost error may be replaced whole
		if outer.Err == nil {
			return errors.New("request failed")
		}
		return CleanError(outer.Err)
	}
	found := urlErrors(err, nil)
	if len(found) == 0 {
		return err
	}
	text := err.Error()
	for _, inner := range found {
		cause := "request failed"
		if inner.Err != nil {
			cause = inner.Err.Error()
		}
		text = strings.ReplaceAll(text, inner.Error(), cause)
	}
	for _, inner := range found { // the address may be quoted elsewhere in the text
		if inner.URL != "" {
			text = strings.ReplaceAll(text, inner.URL, "[url]")
		}
	}
	return &cleaned{text: text, cause: err}
}

// urlErrors gathers the *url.Error values of a tree of errors, the outer ones before the inner ones.
func urlErrors(err error, found []*url.Error) []*url.Error {
	if u, ok := err.(*url.Error); ok { //nolint:errorlint // the tree is walked by hand
		found = append(found, u)
	}
	switch wrapper := err.(type) { //nolint:errorlint // the tree is walked by hand
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			found = urlErrors(inner, found)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			found = urlErrors(inner, found)
		}
	}
	return found
}

// cleaned shows a safe text for an unsafe error. It has no Unwrap, so that nobody prints the cause by accident.
type cleaned struct {
	text  string
	cause error
}

func (c *cleaned) Error() string { return c.text }

// Is finds the causes that errors.Is would find behind an Unwrap.
func (c *cleaned) Is(target error) bool { return errors.Is(c.cause, target) }

// As finds the causes that errors.As would find behind an Unwrap, except the one that shows the address.
func (c *cleaned) As(target any) bool {
	if _, address := target.(**url.Error); address {
		return false
	}
	return errors.As(c.cause, target)
}

// Timeout lets callers recognise a time-out without unwrapping.
func (c *cleaned) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(c.cause, &t) && t.Timeout()
}
