package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
)

func secretOf(s string) secret.Value { return secret.New(s) }

// ServeHTTP verifies by hand, after Standard Webhooks.
func (h hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	stamp := r.Header.Get("webhook-timestamp")
	unix, err := strconv.ParseInt(stamp, 10, 64)
	off := time.Since(time.Unix(unix, 0)).Abs()
	if err != nil || off > 5*time.Minute && h.skip != "time" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	mac := hmac.New(sha256.New, []byte(hookSecret))
	_, _ = io.WriteString(mac, r.Header.Get("webhook-id")+"."+stamp+".")
	_, _ = mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	given := strings.Fields(r.Header.Get("webhook-signature"))
	if h.skip == "rotation" && len(given) > 1 {
		given = given[:1]
	}
	if !slices.Contains(given, want) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
