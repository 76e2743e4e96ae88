package envoy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// plant puts canaries into a reply of any shape, wherever nothing is decoded.
func plant(m map[string]any) {
	into := func(v any, name string, what any) {
		if o, ok := v.(map[string]any); ok {
			o[name] = what
		}
	}
	purchase := func(v any) {
		p, ok := v.(map[string]any)
		if !ok {
			return
		}
		into(p["funding"], "url", canary)
		into(p["approval"], "approval_url", canary)
		into(p, "follow_up", map[string]any{"id": canary, "kind": canary, "prompt": canary})
		into(p, "payment_details", canary)
	}
	purchase(m["purchase"])
	into(m["next"], "instruction", canary)
	into(m["user_action"], "url", canary)
	into(m["error"], "message", canary)
	m["follow_ups"] = []any{map[string]any{"tool": canary, "args": canary, "why": canary}}
	m[canary] = canary
	data, ok := m["data"].(map[string]any)
	if !ok {
		return
	}
	data["payment_details"] = map[string]any{"card": map[string]any{"number": canary, "cvv": canary}}
	if account, ok := data["account"].(map[string]any); ok {
		purchase(account["active_purchase"])
		account["profile"] = map[string]any{"name": canary, "mobile": canary}
		account["addresses"] = []any{map[string]any{"line": canary}}
		account["balance"] = canary
		account["services"] = []any{canary}
	}
}

func FuzzDecode(f *testing.F) {
	for _, tool := range tools {
		for _, ok := range []bool{true, false} {
			f.Add(reply(f, tool, ok, nil))
			f.Add(planted(f, tool, ok))
		}
		f.Add([]byte(`{"ok":true}`))
	}
	f.Add([]byte("<html>"))
	f.Add([]byte(`{"ok":true,"purchase":{"revision":-0,"\u0061":[[[{}]]]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bodies := [][]byte{raw}
		var m map[string]any
		if json.Unmarshal(raw, &m) == nil && m != nil {
			// Escapes are gone here: a canary that the fuzzer wrote itself is seen.
			clean, err := json.Marshal(m)
			if plant(m); err == nil && !bytes.Contains(clean, []byte(canary)) {
				if again, err := json.Marshal(m); err == nil {
					bodies = append(bodies, again)
				}
			}
		}
		for i, body := range bodies {
			for _, tool := range tools {
				for _, status := range []int{200, 502} {
					got, err := ask(answers(status, body), tool)
					var (
						refusal *Error
						outage  *Outage
					)
					if (got == nil) == (err == nil) || err != nil && !errors.As(err, &refusal) && !errors.As(err, &outage) {
						t.Fatalf("%v, %v", got, err)
					}
					if i == 1 {
						wantNoText(t, got, canary)
						wantNoText(t, err, canary)
					}
				}
			}
		}
	})
}

// FuzzScan holds the walk in place against encoding/json.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		` {"a" : [1, {"b\"":"\\"} ,null],"c":-1.5e3,"d":"}","":{}} `, `[ [], {"x":"]"} , "\"", true ]`, `{}`, ``, ` `,
		`01`, `-`, `-0`, `0.`, `1e`, `1E+5`, `.5`, `tru`, `nulll`, `[1,]`, `{"a":1,}`, `{"a"}`, `{1:2}`, `[1 2]`, `"\u12G4"`, `"\x"`,
		"\"\n\"", "\"\xff\"", `"\ud800"`, `{}{}`, `[`, `"`, `"\`, `"\u12`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d decoder
		if ok := d.read(raw); ok != json.Valid(raw) {
			t.Fatalf("it is JSON: %v", ok)
		} else if !ok {
			return
		}
		if v := d.raw(root); string(v) != string(bytes.Trim(raw, " \t\r\n")) {
			t.Fatalf("the value is %s", v)
		}
		switch d.values[root].kind {
		case kindObject:
			want := map[string]json.RawMessage{}
			if json.Unmarshal(raw, &want) != nil {
				return
			}
			got := map[string]string{}
			for n := root + 1; n < d.past(root); n = d.past(n + 1) {
				name := d.unquote(n)
				if !d.is(n, name) && !strings.ContainsRune(name, '\uFFFD') {
					t.Errorf("%s is not %q", d.raw(n), name)
				}
				got[name] = string(d.raw(n + 1))
			}
			if len(got) != len(want) {
				t.Fatalf("%d members, want %d", len(got), len(want))
			}
			for name, value := range want {
				if got[name] != string(bytes.TrimSpace(value)) {
					t.Errorf("%q is %s, want %s", name, got[name], value)
				}
			}
		case kindArray:
			var want []json.RawMessage
			if json.Unmarshal(raw, &want) != nil {
				return
			}
			i := 0
			d.elements(root, func(v int) {
				if i >= len(want) || string(d.raw(v)) != string(want[i]) {
					t.Fatalf("element %d is %s", i, d.raw(v))
				}
				i++
			})
			if i != len(want) {
				t.Fatalf("%d elements, want %d", i, len(want))
			}
		case kindString:
			var want string
			if json.Unmarshal(raw, &want) != nil || d.unquote(root) != want {
				t.Fatalf("%q, want %q", d.unquote(root), want)
			}
		default:
		}
	})
}

// Values may lie in each other exactly as deep as in encoding/json.
func TestDepthIsBounded(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		for _, pair := range []string{"[]", `{"a":1}`} {
			text := strings.Repeat(pair[:1], depth) + strings.Repeat(pair[len(pair)-1:], depth)
			if pair != "[]" {
				text = strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
			}
			var d decoder
			if got, want := d.read([]byte(text)), json.Valid([]byte(text)); got != want || got != (depth == maxDepth) {
				t.Errorf("%d of %s: %v, want %v", depth, pair, got, want)
			}
		}
	}
}
