package slack

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// apiVerdict reads an answer of the Web API; nil: accepted. Status 200 alone is
// no success.
func apiVerdict(a sinks.Answer, err error, now time.Time, mask []secret.Value) *sinks.Failure {
	if f := statusVerdict(a, now, mask); f != nil {
		return f
	}
	var refusal api.SlackErrorResponse
	switch {
	case errors.As(err, &refusal):
		return wordVerdict(refusal.Err, a, now)
	case !saysOK(a.Body): // where it does, the message is there, whatever else the answer holds: err is about that
		return &sinks.Failure{
			Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol, Status: a.Status,
			Err: errors.New("the answer is not one of Slack's: " + sinks.Excerpt(a.Body, mask...)),
		}
	}
	return nil
}

func saysOK(body []byte) bool {
	var answer struct {
		OK bool `json:"ok"`
	}
	return json.Unmarshal(body, &answer) == nil && answer.OK
}

// statusVerdict reads the statuses that say it all; nil: look at the body.
func statusVerdict(a sinks.Answer, now time.Time, mask []secret.Value) *sinks.Failure {
	f := &sinks.Failure{Status: a.Status, Verdict: sinks.Refused, Reason: sinks.ReasonStatus}
	wait := sinks.RetryAfter(a.Header, now)
	switch {
	case a.Status == http.StatusOK:
		return nil
	case a.Status == http.StatusTooManyRequests:
		f.Verdict, f.Reason, f.After = sinks.Down, sinks.ReasonRateLimit, wait
	case a.Status >= 300 && a.Status < 400:
		f.Reason = sinks.ReasonRedirect
		f.Err = errors.New("redirects are not followed")
		return f
	case a.Status >= 500:
		f.Verdict, f.Reason = sinks.Temporary, sinks.ReasonServer
		if wait > 0 {
			f.Verdict, f.After = sinks.Down, wait
		}
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusProxyAuthRequired:
		f.Verdict, f.Reason = sinks.Paused, sinks.ReasonAuth
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly:
		f.Verdict = sinks.Temporary
	case a.Status < 300: // 2xx but 200: not a Slack that we know
		f.Verdict, f.Reason = sinks.Temporary, sinks.ReasonProtocol
	}
	text := strings.ToLower(http.StatusText(a.Status))
	if excerpt := sinks.Excerpt(a.Body, mask...); excerpt != "" {
		text += ": " + excerpt
	}
	f.Err = errors.New(text)
	return f
}

// wordVerdict turns one of Slack's error words into an instruction. A word that is
// not known is a plain refusal.
func wordVerdict(word string, a sinks.Answer, now time.Time) *sinks.Failure {
	f := &sinks.Failure{Verdict: sinks.Refused, Reason: sinks.ReasonStatus, Err: errors.New(said + safeWord(word))}
	if a.Status != http.StatusOK {
		f.Status = a.Status
	}
	switch word {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		f.Verdict, f.Reason, f.After = sinks.Down, sinks.ReasonRateLimit, sinks.RetryAfter(a.Header, now)
	case "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "missing_scope",
		"not_allowed_token_type", "org_login_required", "access_denied", "team_access_not_granted", "two_factor_setup_required",
		"invalid_token", "no_service", "no_service_id", "no_team", "team_disabled":
		f.Verdict, f.Reason = sinks.Paused, sinks.ReasonAuth
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "rollup_error":
		f.Verdict, f.Reason = sinks.Temporary, sinks.ReasonServer
	}
	return f
}

// said is how Slack's own words begin.
const said = "slack says "

// lost reports that Slack refuses to touch the living message or its thread: it
// is deleted, closed, in a channel that is gone, or what was remembered of it is
// wrong. What Slack would refuse anywhere is refused again with the new message.
func lost(f *sinks.Failure) bool {
	return f != nil && f.Err != nil && f.Verdict == sinks.Refused && strings.HasPrefix(f.Err.Error(), said)
}

// safeWord keeps a word of Slack and nothing else that may stand in its place.
func safeWord(word string) string {
	if word == "" || len(word) > 64 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return "something that is not an error word"
	}
	return word
}

// webhookVerdict reads an answer of an incoming webhook: "ok", or an error word
// with a status.
func webhookVerdict(a sinks.Answer, now time.Time, mask []secret.Value) *sinks.Failure {
	word := strings.TrimSpace(string(a.Body))
	switch a.Status {
	case http.StatusOK:
		if word == "ok" {
			return nil
		}
		return &sinks.Failure{
			Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol, Status: a.Status,
			Err: errors.New("the answer is not ok: " + sinks.Excerpt(a.Body, mask...)),
		}
	case http.StatusGone:
		return &sinks.Failure{Verdict: sinks.Gone, Reason: sinks.ReasonGone, Status: a.Status, Err: errors.New(said + safeWord(word))}
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		if safeWord(word) == word {
			return wordVerdict(word, a, now)
		}
	}
	return statusVerdict(a, now, mask)
}
