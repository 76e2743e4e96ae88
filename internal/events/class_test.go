package events

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// schemaNode is a published schema, as far as the walk needs it.
type schemaNode struct {
	Properties map[string]*schemaNode `json:"properties"`
	Items      *schemaNode            `json:"items"`
	Secret     bool                   `json:"x-envoy-secret"`
}

// walk calls f for each path of a schema, with whether it stands at or below a
// secret one.
func (n *schemaNode) walk(path string, secret bool, f func(path string, secret bool)) {
	secret = secret || n.Secret
	if path != "" {
		f(path, secret)
	}
	for name, p := range n.Properties {
		p.walk(strings.TrimPrefix(path+"."+name, "."), secret, f)
	}
	if n.Items != nil {
		n.Items.walk(path+"[]", secret, f)
	}
}

// publishedPaths gives each path of the replies of the three tools, and whether
// it is secret.
func publishedPaths(t *testing.T) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	for _, tool := range []string{"get_purchase_status", "get_account", "list_purchases"} {
		b, err := os.ReadFile("testdata/schemas/" + tool + ".output.json")
		if err != nil {
			t.Fatal(err)
		}
		var n schemaNode
		if err := json.Unmarshal(b, &n); err != nil {
			t.Fatal(err)
		}
		n.walk("", false, func(path string, secret bool) { paths[path] = paths[path] || secret })
	}
	if len(paths) < 200 {
		t.Fatalf("only %d paths", len(paths))
	}
	return paths
}

func TestEveryPublishedPathHasAClass(t *testing.T) {
	paths := publishedPaths(t)
	for path, secret := range paths {
		c, ok := ClassOf(path)
		if !ok {
			t.Errorf("%s has no class", path)
		}
		if secret && c != ClassNeverDecoded {
			t.Errorf("%s is secret and %s", path, c)
		}
	}
	for path := range Classes() {
		if _, ok := paths[path]; !ok {
			t.Errorf("%s has a class and is in no schema", path)
		}
	}
	if c, ok := ClassOf("purchase.field_of_tomorrow"); ok {
		t.Errorf("an unknown path is %s", c)
	}
	if c, _ := ClassOf("data.payment_details.card.field_of_tomorrow"); c != ClassNeverDecoded {
		t.Errorf("below a secret: %q", c)
	}
}

// eventPaths gives each JSON path within data of a purchase event.
func eventPaths(t reflect.Type, path string, f func(string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Name() == "Time" {
		return
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		f(at)
		eventPaths(t.Field(i).Type, at, f)
	}
}

// TestNoEventFieldIsForbidden: no field of an event comes from a place that is
// never decoded or never sent, nor has it the name of a member of a secret.
func TestNoEventFieldIsForbidden(t *testing.T) {
	// Names that mean something else in an event than in a secret object.
	harmless := []string{"amount", "minor", "currency", "display", "kind", "name", "state", "id", "agent", "approval", "expires_at", "value"}
	forbidden := map[string]string{}
	for path, secret := range publishedPaths(t) {
		name := strings.TrimSuffix(path[strings.LastIndexByte(path, '.')+1:], "[]")
		if secret && !slices.Contains(harmless, name) {
			forbidden[name] = path
		}
	}
	for _, name := range []string{"number", "cvv", "pin", "code", "line1", "mobile", "email", "voucher", "redemption_url", "payment_details", "profile", "addresses"} {
		if forbidden[name] == "" {
			t.Fatalf("%s is not among the names of secrets", name)
		}
	}
	personal := map[string]bool{}
	eventPaths(reflect.TypeFor[Purchase](), "", func(path string) {
		name := path[strings.LastIndexByte(path, '.')+1:]
		if from := forbidden[name]; from != "" {
			t.Errorf("%s has the name of %s", path, from)
		}
		for _, prefix := range []string{"purchase.", "", "data."} {
			c, ok := ClassOf(prefix + path)
			if ok && (c == ClassNeverDecoded || c == ClassNeverSent) {
				t.Errorf("%s may not be sent: %s%s is %s", path, prefix, path, c)
			}
		}
		switch c := fieldClass(path); c {
		case ClassNeverDecoded, ClassNeverSent:
			t.Errorf("%s is %s", path, c)
		case ClassPersonal:
			personal[path] = true
		case ClassOperator, ClassPublic:
		}
	})
	want := map[string]bool{"description": true, "question.prompt": true, "receipt.card_last4": true, "merchant.url": true,
		"money_status.merchant_order_ref": true, "receipt.merchant_order_ref": true}
	if !reflect.DeepEqual(personal, want) {
		t.Errorf("personal fields %v, want %v", personal, want)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Snapshot](), reflect.TypeFor[Purchase](), reflect.TypeFor[Notice]()} {
		noRoom(t, typ, typ.Name())
	}
}

// noRoom fails on a Go type that could hold what its author did not foresee.
func noRoom(t *testing.T, typ reflect.Type, path string) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ.Elem().Kind() == reflect.Uint8 {
			t.Errorf("%s holds raw bytes", path)
		}
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
		t.Errorf("%s can hold anything", path)
	case reflect.Struct:
		if typ.Name() == "Time" {
			return
		}
		for i := range typ.NumField() {
			noRoom(t, typ.Field(i).Type, path+"."+typ.Field(i).Name)
		}
	default:
	}
}
