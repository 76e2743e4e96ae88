package events

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

//go:generate go test -run ^TestGenerated$ -update .

var update = flag.Bool("update", false, "write the generated documents")

// TestGenerated compares the documents that are checked in with those that the
// types give; with -update it writes them.
func TestGenerated(t *testing.T) {
	for file, generate := range map[string]func() ([]byte, error){
		"schema/events.schema.json": Schema,
		"schema/asyncapi.json":      AsyncAPI,
	} {
		want, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run go generate ./internal/events", file)
		}
	}
}

// compiled is the schema of all events, as a validator sees it.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	b, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(s *jsonschema.Schema, b []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestSamplesAreValid(t *testing.T) {
	s := compiled(t)
	seen := map[Situation]bool{}
	for _, e := range Samples() {
		if err := valid(s, encoded(t, e)); err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
		if e.Purchase != nil {
			seen[e.Purchase.Situation] = true
			if e.Purchase.Masked != 0 || e.Purchase.Inconsistent {
				t.Errorf("%s: masked %d, inconsistent %v", e.ID, e.Purchase.Masked, e.Purchase.Inconsistent)
			}
		}
	}
	for _, want := range []Situation{SituationConfirming, SituationNeedsSupport, SituationWaitingForUser, SituationDone, SituationStopped, SituationReady} {
		if !seen[want] {
			t.Errorf("no sample is %s", want)
		}
	}
	if a, b := Samples(), Samples(); !reflect.DeepEqual(a, b) || a[0].Purchase == b[0].Purchase {
		t.Error("samples differ or are shared")
	}
}

// TestEveryEventIsValid: whatever Envoy says, the event fits the schema.
func TestEveryEventIsValid(t *testing.T) {
	s := compiled(t)
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEvent(rt, Options{Personal: true})
		if e.Time.IsZero() {
			e.Time = at(1) // a reply without any time is no reply
		}
		list := []Event{e, Still(e, Position{1, 2, 3}), NewOverdue(e, DeadlineNext, at(1)),
			NewNotice(e.Purchase.Connection, NoticeBlind, at(1), Notice{Text: rapid.String().Draw(rt, "text"), Code: rapid.String().Draw(rt, "code")})}
		for _, e := range list {
			b, err := Encode(e)
			if err != nil {
				rt.Fatal(err)
			}
			if err := valid(s, b); err != nil {
				rt.Fatalf("%v\n%s", err, b)
			}
		}
	})
}

func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	good := string(encoded(t, sampleConfirming()))
	for name, w := range map[string][2]string{
		"unknown situation": {`"situation":"confirming"`, `"situation":"confirmed"`},
		"unknown money":     {`"money":"set_aside"`, `"money":"lost"`},
		"no previous":       {`"previous":`, `"before":`},
		"id with a dot":     {`"id":"pur_`, `"id":"pur.`},
		"fraction":          {`"minor":249900`, `"minor":2499.5`},
		"other type":        {`purchase.changed.v1`, `purchase.changed.v2`},
		"no unsettled":      {`"unsettled":true,`, ``},
	} {
		bad := strings.Replace(good, w[0], w[1], 1)
		if bad == good {
			t.Fatalf("%s: nothing replaced in %s", name, good)
		}
		if err := valid(s, []byte(bad)); err == nil {
			t.Errorf("%s is valid", name)
		}
	}
}

// TestSchemaWordsAreTheConstants reads the constants out of the source, so that
// a new word cannot be forgotten in the schema.
func TestSchemaWordsAreTheConstants(t *testing.T) {
	b, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	source := string(b) + readFile(t, "snapshot.go")
	for _, typ := range []reflect.Type{reflect.TypeFor[Situation](), reflect.TypeFor[Money](), reflect.TypeFor[Cause](),
		reflect.TypeFor[Source](), reflect.TypeFor[NoticeKind]()} {
		var declared []string
		for line := range strings.Lines(source) {
			if fields := strings.Fields(line); len(fields) >= 4 && fields[1] == typ.Name() && fields[2] == "=" {
				declared = append(declared, strings.Trim(fields[3], `"`))
			}
		}
		if words := typeWords(typ); !slices.Equal(words, declared) || len(words) == 0 {
			t.Errorf("%s: the schema has %v, the source %v", typ.Name(), words, declared)
		}
	}
}

// TestEveryFieldHasANote: a field of data is explained where authors look.
func TestEveryFieldHasANote(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[Purchase](), reflect.TypeFor[Notice]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if fieldNote(typ.Name()+"."+name) == "" {
				t.Errorf("%s.%s has no note", typ.Name(), name)
			}
		}
	}
}

func TestAsyncAPIRefersToWhatIsThere(t *testing.T) {
	var schema struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(readFile(t, "schema/events.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal([]byte(readFile(t, "schema/asyncapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	found := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if to, ok := v["$ref"].(string); ok {
				found++
				if name, ours := strings.CutPrefix(to, "./events.schema.json#/$defs/"); ours {
					if schema.Defs[name] == nil {
						t.Errorf("%s leads nowhere", to)
					}
				} else if resolve(doc, strings.Split(strings.TrimPrefix(to, "#/"), "/")) == nil {
					t.Errorf("%s leads nowhere", to)
				}
			}
			for _, m := range v {
				walk(m)
			}
		case []any:
			for _, m := range v {
				walk(m)
			}
		}
	}
	walk(doc)
	if found < 8 {
		t.Errorf("only %d references", found)
	}
}

// resolve follows a JSON pointer.
func resolve(v any, path []string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
