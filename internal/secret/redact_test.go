package secret_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/secret"
)

func TestRedactTextFindsEverySpelling(t *testing.T) {
	quoted, _ := json.Marshal(canary)
	for _, spelling := range []string{
		canary, url.QueryEscape(canary), url.PathEscape(canary), string(quoted), fmt.Sprintf("%q", canary),
		(&url.URL{Scheme: "https", Host: "h", Path: "/" + canary}).String(), url.UserPassword("u", canary).String(),
		base64.StdEncoding.EncodeToString([]byte(canary)),
	} {
		got := secret.RedactText("before "+spelling+" after", secret.New("other"), secret.New(canary))
		if strings.Contains(got, "w0rd") || !strings.Contains(got, secret.Redacted) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s became %s", spelling, got)
		}
	}
	if got := secret.RedactText("plain", secret.Value{}); got != "plain" {
		t.Errorf("no secret: %s", got)
	}
	if got := secret.RedactText("abcdef", secret.New("abc"), secret.New("abcdef")); got != secret.Redacted {
		t.Errorf("one secret inside another: %s", got)
	}
}

func TestB39_AddressesAreTakenOutOfErrors(t *testing.T) {
	const address = "http://user:canary1@127.0.0.1:1/canary2?key=canary3"
	_, refused := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(mustRequest(t, address))
	cause := &url.Error{Op: "Post", URL: address, Err: refused}
	for name, err := range map[string]error{
		"bare":    cause,
		"wrapped": fmt.Errorf("send: %w", cause),
		"twice":   &url.Error{Op: "Get", URL: address, Err: fmt.Errorf("inner: %w", cause)},
		"joined":  errors.Join(io.EOF, fmt.Errorf("a: %w", cause)),
		"quoted":  fmt.Errorf("%s: %w", address, cause),
		"no URL":  &url.Error{Op: "parse", URL: address},
	} {
		t.Run(name, func(t *testing.T) {
			got := secret.CleanError(err)
			if strings.Contains(got.Error(), "canary") {
				t.Errorf("shows %s", got)
			}
			var asURL *url.Error
			if errors.As(got, &asURL) {
				t.Errorf("gives the address away: %s", asURL.URL)
			}
			if name != "no URL" && !strings.Contains(got.Error(), "connection refused") {
				t.Errorf("hides the cause: %s", got)
			}
		})
	}
}

func TestCausesAreStillFound(t *testing.T) {
	slow := &url.Error{Op: "Get", URL: "http://canary", Err: context.DeadlineExceeded}
	for _, err := range []error{
		secret.CleanError(slow),
		secret.CleanError(fmt.Errorf("send: %w", slow)),
		secret.Redact(fmt.Errorf("canary: %w", slow), secret.New("canary")),
	} {
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "canary") {
			t.Errorf("error %v", err)
		}
		var t1 interface{ Timeout() bool }
		if !errors.As(err, &t1) || !t1.Timeout() {
			t.Errorf("%v is no time-out any more", err)
		}
	}
	if secret.CleanError(nil) != nil || secret.Redact(nil, secret.New("a")) != nil {
		t.Error("nil became an error")
	}
	plain := errors.New("plain")
	if got := secret.Redact(plain, secret.New("secret")); got != plain { //nolint:errorlint // the same error is wanted
		t.Errorf("a clean error was changed to %v", got)
	}
}

func mustRequest(t *testing.T, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
