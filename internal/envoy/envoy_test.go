package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	purchaseID = "pur_5b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c"
	otherID    = "pur_00000000000000000000000000000000"
	key        = "synthetic-intent-0001"
	token      = "tok_canary_5f1d2c3b4a59687706f5e4d3c2b1a09f"
	canary     = "CANARY4111"
)

// roundTrip is a transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answers gives a client whose every call gets this reply.
func answers(status int, body []byte) *Client {
	return client(roundTrip(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{
			StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1,
		}, nil
	}))
}

func client(rt http.RoundTripper) *Client { return clientAt("https://api.example.test", rt) }

func clientAt(base string, rt http.RoundTripper) *Client {
	return New(Options{BaseURL: base, Token: bearer, HTTP: &http.Client{Transport: rt}, Version: "1.2.3"})
}

func bearer(context.Context) (secret.Value, error) { return secret.New(token), nil }

// ask makes the call of a tool and gives its result as any.
func ask(c *Client, tool Tool) (any, error) {
	ctx := context.Background()
	switch tool {
	case ToolStatus:
		return result(c.Status(ctx, StatusRequest{Purchase: purchaseID}))
	case ToolAccount:
		return result(c.Look(ctx, true))
	case ToolList:
		return result(c.List(ctx))
	}
	panic("no such tool")
}

func result[T any](v *T, err error) (any, error) {
	if v == nil {
		return nil, err
	}
	return v, err
}

func outageOf(t *testing.T, err error) *Outage {
	t.Helper()
	var o *Outage
	if !errors.As(err, &o) {
		t.Fatalf("error is %v (%T), want an outage", err, err)
	}
	return o
}

func wantOutage(t *testing.T, got any, err error, kind OutageKind) *Outage {
	t.Helper()
	if got != nil {
		t.Fatalf("a result came with it: %+v", got)
	}
	o := outageOf(t, err)
	if o.Kind != kind {
		t.Fatalf("outage is %v, want kind %s", err, kind)
	}
	return o
}

// node is a JSON Schema, as far as the contract uses it.
type node struct {
	Type       any              `json:"type"`
	Properties map[string]*node `json:"properties"`
	Items      *node            `json:"items"`
	Required   []string         `json:"required"`
	Enum       []any            `json:"enum"`
	Format     string           `json:"format"`
	Pattern    string           `json:"pattern"`
	Secret     bool             `json:"x-envoy-secret"`
}

func (n *node) types() []string {
	switch t := n.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, v := range t {
			out = append(out, v.(string))
		}
		return out
	}
	return nil
}

func (n *node) is(t string) bool { return slices.Contains(n.types(), t) }

var tools = []Tool{ToolStatus, ToolList, ToolAccount}

// schemas are parsed once; nothing changes them.
var schemas sync.Map

func schema(t testing.TB, tool Tool) *node {
	t.Helper()
	if n, ok := schemas.Load(tool); ok {
		return n.(*node)
	}
	raw, err := os.ReadFile("testdata/" + string(tool) + ".output.json")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{}
	if err := json.Unmarshal(raw, n); err != nil {
		t.Fatal(err)
	}
	schemas.Store(tool, n)
	return n
}

// sample makes a reply that has every field of the schema, none of them null.
// Where secret says so, and below there, every text is a canary.
func sample(n *node, path string, planted bool) any {
	planted = planted || n.Secret || never[strings.TrimPrefix(path, ".")]
	switch {
	case n.is("object"):
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			out[name] = sample(n.Properties[name], path+"."+name, planted)
		}
		return out
	case n.is("array"):
		return []any{sample(n.Items, path+"[]", planted)}
	case n.is("boolean"):
		return true
	case n.is("integer"):
		return 7
	case planted:
		return canary + path
	case len(n.Enum) > 0:
		return n.Enum[0]
	case n.Format == "date-time":
		return "2026-09-29T12:00:00Z"
	case n.Pattern == "^pur_[a-f0-9]{32}$":
		return purchaseID
	case n.Pattern == "^[0-9]{4}$":
		return "4242"
	case n.Format == "uri":
		return "https://shop.example.test/path"
	default:
		return "synthetic-intent-0001"
	}
}

// never are the places that are not decoded although the contract does not mark
// them as secret; the three of a purchase stand for each place of a purchase.
var never = func() map[string]bool {
	m := map[string]bool{
		"user_action.url": true, "next.instruction": true, "follow_ups": true, "data.payment_details": true,
		"error.message": true,
	}
	for _, p := range []string{"purchase", "data.account.active_purchase"} {
		m[p+".funding.url"], m[p+".approval.approval_url"], m[p+".follow_up"] = true, true, true
	}
	return m
}()

// reply makes a full reply of a tool, with ok true or false, and lets change alter it.
func reply(t testing.TB, tool Tool, ok bool, change func(map[string]any)) []byte {
	t.Helper()
	m := sample(schema(t, tool), "", false).(map[string]any)
	m["ok"], m["tool"] = ok, string(tool)
	delete(m, "origin")
	if ok {
		m["error"] = nil
	}
	if n := m["next"].(map[string]any); n["tool"] != nil {
		n["tool"], n["args"] = "get_purchase_status", map[string]any{"purchase": purchaseID}
	}
	if change != nil {
		change(m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// in gives the object at a path of names and element numbers zero ("[]").
func in(m map[string]any, path ...string) map[string]any {
	var v any = m
	for _, p := range path {
		if name, ok := strings.CutSuffix(p, "[]"); ok {
			v = v.(map[string]any)[name].([]any)[0]
			continue
		}
		v = v.(map[string]any)[p]
	}
	return v.(map[string]any)
}

// texts gives every text and byte slice that can be reached from a value.
func texts(v any) []string {
	var out []string
	seen := map[uintptr]bool{}
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			out = append(out, v.String())
		case reflect.Pointer:
			if v.IsNil() || seen[v.Pointer()] {
				return
			}
			seen[v.Pointer()] = true
			walk(v.Elem())
		case reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
				out = append(out, string(v.Bytes()))
				return
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for _, k := range v.MapKeys() {
				walk(k)
				walk(v.MapIndex(k))
			}
		default: // numbers and the like hold no text
		}
	}
	walk(reflect.ValueOf(v))
	return out
}

func wantNoText(t testing.TB, v any, unwanted string) {
	t.Helper()
	for _, s := range texts(v) {
		if strings.Contains(s, unwanted) {
			t.Fatalf("%q is kept in %T: %q", unwanted, v, s)
		}
	}
}
