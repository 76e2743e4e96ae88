package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/secret"
)

// publishedPattern is the pattern of the purchase member, from the published schema.
func publishedPattern(t testing.TB) *regexp.Regexp {
	t.Helper()
	raw, err := os.ReadFile("testdata/get_purchase_status.input.json")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{}
	if err := json.Unmarshal(raw, n); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(n.Properties["purchase"].Pattern)
}

func TestValidReferenceIsThePublishedPattern(t *testing.T) {
	pattern := publishedPattern(t)
	agree := func(t interface{ Fatalf(string, ...any) }, s string) {
		want := pattern.MatchString(s) && len(s) >= 16 && len(s) <= 64 && !strings.HasSuffix(s, "\n")
		if got := ValidReference(s); got != want {
			t.Fatalf("ValidReference(%q) = %v, the published pattern says %v", s, got, want)
		}
	}
	for _, s := range []string{
		"", purchaseID, key, purchaseID + "0", strings.ToUpper(purchaseID), "pur_synthetic-intent-1", "pur-synthetic-intent-1",
		"007012", "1e3", "a.b.c.d.e.f.g.h.i.j", "synthetic intent 0001", "synthetic-intent-ü001", "synthetic-intent-0001\n",
		strings.Repeat("a", 15), strings.Repeat("a", 16), strings.Repeat("a", 64), strings.Repeat("a", 65), "puurpuurpuurpuur", "pppppppppppppppp",
	} {
		agree(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		agree(t, rapid.OneOf(
			rapid.StringMatching(`(p|pu|pur|pur_|a)?[A-Za-z0-9_-]{10,66}`),
			rapid.StringMatching(`pur_[a-f0-9]{30,34}`),
			rapid.String(),
		).Draw(t, "reference"))
	})
}

func TestBodiesAreExact(t *testing.T) {
	zero, seven := int64(0), int64(7)
	for _, tc := range []struct {
		name string
		call func(*Client) error
		path string
		body string
	}{
		{"read", status(StatusRequest{Purchase: key}), "/v1/tools/get_purchase_status", `{"purchase":"` + key + `"}`},
		{"hold from zero", status(StatusRequest{Purchase: purchaseID, AfterRevision: &zero, Wait: 45 * time.Second}),
			"/v1/tools/get_purchase_status", `{"purchase":"` + purchaseID + `","after_revision":0,"wait_seconds":45}`},
		{"after without wait", status(StatusRequest{Purchase: purchaseID, AfterRevision: &seven}),
			"/v1/tools/get_purchase_status", `{"purchase":"` + purchaseID + `","after_revision":7}`},
		{"args as they came", status(StatusRequest{Purchase: purchaseID,
			Args: json.RawMessage("{ \"wait_seconds\":45,\n\"after_revision\": 0, \"purchase\":\"" + purchaseID + "\"}")}),
			"/v1/tools/get_purchase_status", "{ \"wait_seconds\":45,\n\"after_revision\": 0, \"purchase\":\"" + purchaseID + "\"}"},
		{"look", func(c *Client) error { _, err := c.Look(t.Context(), false); return err },
			"/v1/tools/get_account", `{"include":["active_purchase","held_purchases"]}`},
		{"look with agent", func(c *Client) error { _, err := c.Look(t.Context(), true); return err },
			"/v1/tools/get_account", `{"include":["active_purchase","held_purchases","agent"]}`},
		{"list", func(c *Client) error { _, err := c.List(t.Context()); return err },
			"/v1/tools/list_purchases", `{"limit":20}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := 0
			c := clientAt("https://api.example.test/v1/", roundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != tc.body || r.ContentLength != int64(len(tc.body)) {
					t.Errorf("body is %s (length %d, %v), want %s", body, r.ContentLength, err, tc.body)
				}
				wantValid(t, path.Base(r.URL.Path), body)
				if r.Method != http.MethodPost || r.URL.Path != tc.path {
					t.Errorf("request is %s %s", r.Method, r.URL.Path)
				}
				for name, want := range map[string]string{
					"Authorization": "Bearer " + token, "Content-Type": "application/json",
					"Accept": "application/json", "User-Agent": "herald/1.2.3",
				} {
					if got := r.Header.Get(name); got != want {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
				if r.GetBody != nil || r.Header.Get("Idempotency-Key") != "" || r.Header.Get("Envoy-Installation-Proof") != "" {
					t.Error("the request can be replayed, or carries a proof that nobody made")
				}
				return nil, errors.New("enough")
			}))
			if err := tc.call(c); outageOf(t, err) == nil || sent != 1 {
				t.Fatalf("sent %d requests, error %v", sent, err)
			}
		})
	}
}

// wantValid holds a body against the published input schema of a tool.
func wantValid(t *testing.T, tool string, body []byte) {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("testdata/" + tool + ".input.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Error(err)
	}
}

func status(r StatusRequest) func(*Client) error {
	return func(c *Client) error { _, err := c.Status(context.Background(), r); return err }
}

func TestRefusedBeforeAnyByte(t *testing.T) {
	minus := int64(-1)
	args := func(s string) StatusRequest {
		return StatusRequest{Purchase: purchaseID, Args: json.RawMessage(s)}
	}
	for name, r := range map[string]StatusRequest{
		"no reference":        {},
		"number":              {Purchase: "007012"},
		"float":               {Purchase: "1e3"},
		"broken id":           {Purchase: "pur_5b1e"},
		"upper case digits":   {Purchase: "pur_" + strings.ToUpper(purchaseID[4:])},
		"quote":               {Purchase: `synthetic","x":"0001`},
		"too long":            {Purchase: strings.Repeat("a", 65)},
		"negative wait":       {Purchase: purchaseID, Wait: -time.Second},
		"wait over 45 s":      {Purchase: purchaseID, Wait: 46 * time.Second},
		"negative revision":   {Purchase: purchaseID, AfterRevision: &minus},
		"args empty":          args(""),
		"args null":           args("null"),
		"args cut":            args(`{"purchase":"` + purchaseID),
		"args without":        args(`{"after_revision":0}`),
		"args other purchase": args(`{"purchase":"` + otherID + `"}`),
		"args other case":     args(`{"Purchase":"` + purchaseID + `"}`),
		"args twice":          args(`{"purchase":"` + purchaseID + `","purchase":"` + otherID + `"}`),
		"args twice, escaped": args(`{"purchase":"` + purchaseID + `","purch\u0061se":"` + otherID + `"}`),
		"args with more":      args(`{"purchase":"` + purchaseID + `","answer":"yes"}`),
		"args negative":       args(`{"purchase":"` + purchaseID + `","after_revision":-1}`),
		"args half":           args(`{"purchase":"` + purchaseID + `","after_revision":0.5}`),
		"args wait over 45":   args(`{"purchase":"` + purchaseID + `","wait_seconds":46}`),
		"args wait a text":    args(`{"purchase":"` + purchaseID + `","wait_seconds":"45"}`),
		"args huge":           args(`{"purchase":"` + purchaseID + `"` + strings.Repeat(" ", maxArgBytes) + `}`),
	} {
		t.Run(name, func(t *testing.T) {
			c := client(roundTrip(func(*http.Request) (*http.Response, error) {
				t.Error("a request went out")
				return nil, errors.New("no")
			}))
			c.options.Token = func(ctx context.Context) (secret.Value, error) {
				t.Error("the token was read")
				return bearer(ctx)
			}
			_, err := c.Status(t.Context(), r)
			var e *Error
			if !errors.Is(err, ErrRefused) || !errors.As(err, &e) || e.Code != CodeInvalidInput || len(e.Fields) != 1 {
				t.Fatalf("error is %v, want a refusal that names a field", err)
			}
		})
	}
}

func TestParseArgs(t *testing.T) {
	a, err := ParseArgs(json.RawMessage(` {"purchase":"` + key + `","after_revision":0,"wait_seconds":45} `))
	if err != nil || a.Purchase != key || a.AfterRevision == nil || *a.AfterRevision != 0 || a.Wait != 45*time.Second {
		t.Fatalf("%+v, %v", a, err)
	}
	a, err = ParseArgs(json.RawMessage(`{"purchase":"` + key + `"}`))
	if err != nil || a.AfterRevision != nil || a.Wait != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	_, err = ParseArgs(json.RawMessage(`{"purchase":"` + canary + ` not a reference","x` + canary + `":1}`))
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Fatalf("error is %v", err)
	}
}
