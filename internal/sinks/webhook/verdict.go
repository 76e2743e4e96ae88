package webhook

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// verdict reads an answer; nil: accepted. The table is in the package comment.
func verdict(a sinks.Answer, now time.Time, mask func() []secret.Value) *sinks.Failure {
	if a.Status >= 200 && a.Status < 300 {
		return nil
	}
	f := &sinks.Failure{Status: a.Status, Verdict: sinks.Refused, Reason: sinks.ReasonStatus}
	wait := sinks.RetryAfter(a.Header, now)
	text := strings.ToLower(http.StatusText(a.Status))
	switch {
	case a.Status >= 300 && a.Status < 400:
		f.Reason = sinks.ReasonRedirect
		text = "redirects are not followed"
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusProxyAuthRequired,
		a.Status == http.StatusForbidden && namesAuthentication(a):
		f.Verdict, f.Reason = sinks.Paused, sinks.ReasonAuth
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly:
		f.Verdict = sinks.Temporary
	case a.Status == http.StatusGone:
		f.Verdict, f.Reason = sinks.Gone, sinks.ReasonGone
	case a.Status == http.StatusTooManyRequests:
		f.Verdict, f.Reason, f.After = sinks.Down, sinks.ReasonRateLimit, wait
	case a.Status >= 500:
		f.Verdict, f.Reason = sinks.Temporary, sinks.ReasonServer
		if wait > 0 {
			f.Verdict, f.After = sinks.Down, wait
		}
	}
	if text == "" {
		text = "unexpected status"
	}
	if excerpt := sinks.Excerpt(a.Body, mask()...); excerpt != "" && f.Reason != sinks.ReasonRedirect {
		text += ": " + excerpt
	}
	f.Err = errors.New(text)
	return f
}

// namesAuthentication tells a 403 about who we are from one about what we sent.
func namesAuthentication(a sinks.Answer) bool {
	if a.Header.Get("WWW-Authenticate") != "" {
		return true
	}
	body := bytes.ToLower(a.Body)
	for _, word := range []string{
		"authenticat", "unauthorized", "unauthorised", "credential", "invalid token", "invalid_token", "expired token",
		"api key", "api_key", "apikey", "invalid signature", "invalid_signature", "invalid_auth",
	} {
		if bytes.Contains(body, []byte(word)) {
			return true
		}
	}
	return false
}

func parseURL(v secret.Value) (*url.URL, error) {
	u, err := url.Parse(v.Reveal())
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("read url: want http:// or https:// and a host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// checkHeaders refuses names that the sink sets itself and values that would end
// the header.
func checkHeaders(headers map[string]secret.Value) error {
	var problems []error
	for name, value := range headers {
		lower := strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			problems = append(problems, errors.New("read headers: a name is not a header name"))
		case !httpguts.ValidHeaderFieldValue(value.Reveal()):
			problems = append(problems, errors.New("read headers: the value of "+name+" holds a control character"))
		case lower == "content-type", lower == "content-length", lower == "transfer-encoding", lower == "connection",
			lower == "traceparent", strings.HasPrefix(lower, "webhook-"), strings.HasPrefix(lower, "herald-"),
			strings.HasPrefix(lower, "ce-"):
			problems = append(problems, errors.New("read headers: "+name+" is set by Herald"))
		}
	}
	return errors.Join(problems...)
}

// masked gathers what an answer might echo: the URL, its parts that can be
// credentials, and the header values. Very short parts are left, since masking
// them would garble every text and they protect nothing.
func masked(u *url.URL, c Config) []secret.Value {
	const short = 5
	var out []secret.Value
	add := func(text string) {
		if len(text) > short {
			out = append(out, secret.New(text))
		}
	}
	add(c.URL.Reveal())
	add(u.String())
	add(u.RequestURI())
	add(u.EscapedPath())
	for segment := range strings.SplitSeq(u.Path, "/") {
		add(segment)
	}
	add(u.RawQuery)
	for key, values := range u.Query() {
		add(key)
		for _, value := range values {
			add(value)
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		add(u.User.Username())
		add(password)
		add(u.User.Username() + ":" + password) // its base64 is the Authorization header
	}
	for _, value := range c.Headers {
		add(value.Reveal())
		if _, credential, ok := strings.Cut(value.Reveal(), " "); ok { // "Bearer ..."
			add(credential)
		}
	}
	return out
}
