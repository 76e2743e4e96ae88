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
	f.Add([]byte(` {"a" : [1, {"b\"":"\\"} ,null],"c":-1.5e3,"d":"}","":{}} `))
	f.Add([]byte(`[ [], {"x":"]"} , "\"", true ]`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		v := trimSpace(raw)
		if e := end(v, 0); e != len(v) {
			t.Fatalf("the value ends at %d of %d", e, len(v))
		}
		switch kindOf(v) {
		case kindObject:
			want := map[string]json.RawMessage{}
			if json.Unmarshal(v, &want) != nil {
				return
			}
			got := map[string]string{}
			for _, m := range members(v) {
				name := unquote(m.key)
				if !m.is(name) && !strings.ContainsRune(name, '\uFFFD') {
					t.Errorf("%s is not %q", m.key, name)
				}
				got[name] = string(m.value)
			}
			if len(got) != len(want) {
				t.Fatalf("%d members, want %d", len(got), len(want))
			}
			for name, value := range want {
				if got[name] != string(trimSpace(value)) {
					t.Errorf("%q is %s, want %s", name, got[name], value)
				}
			}
		case kindArray:
			var want []json.RawMessage
			if json.Unmarshal(v, &want) != nil {
				return
			}
			i := 0
			elements(v, func(value []byte) {
				if i >= len(want) || string(value) != string(want[i]) {
					t.Fatalf("element %d is %s", i, value)
				}
				i++
			})
			if i != len(want) {
				t.Fatalf("%d elements, want %d", i, len(want))
			}
		default:
			if string(v) == "" {
				t.Fatal("an empty value")
			}
		}
	})
}
