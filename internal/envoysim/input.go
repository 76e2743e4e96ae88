package envoysim

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

type inputSchema struct{ *jsonschema.Schema }

func loadInputs() (map[string]*inputSchema, error) {
	out := make(map[string]*inputSchema, len(Tools()))
	for _, tool := range Tools() {
		sch, err := compileSchema(tool + ".input.json")
		if err != nil {
			return nil, err
		}
		out[tool] = &inputSchema{sch}
	}
	return out, nil
}

func compileSchema(name string) (*jsonschema.Schema, error) {
	raw, err := schemaFiles.ReadFile("schemas/" + name)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("decode schema %s: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///"+name, doc); err != nil {
		return nil, fmt.Errorf("add schema %s: %w", name, err)
	}
	sch, err := c.Compile("mem:///" + name)
	if err != nil {
		return nil, fmt.Errorf("compile schema %s: %w", name, err)
	}
	return sch, nil
}

// parse checks a body strictly and returns it, or the fields that are wrong.
func (in *inputSchema) parse(tool string, body []byte) (map[string]any, []wireField) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return nil, []wireField{{Path: "", Problem: "is not valid JSON", Expected: "an object"}}
	}
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, []wireField{{Path: "", Problem: "has the wrong type", Expected: "an object"}}
	}
	if one, single := obj["include"].(string); single && tool == toolAccount {
		obj["include"] = []any{one} // the contract takes one section without its brackets
	}
	if err := in.Validate(obj); err != nil {
		return nil, fieldsOf(err)
	}
	return obj, nil
}

// fieldsOf turns a validation error into at most ten fields. Values are never repeated: they may be secrets.
func fieldsOf(err error) []wireField {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return []wireField{{Path: "", Problem: "is not valid"}}
	}
	var out []wireField
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			out = append(out, fieldsAt(e)...)
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(v)
	return out[:min(len(out), 10)]
}

func fieldsAt(e *jsonschema.ValidationError) []wireField {
	at := pointer(e.InstanceLocation)
	var out []wireField
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, wireField{Path: cut(at+pointer([]string{name}), 128), Problem: "is not a known field"})
		}
	case *kind.Required:
		for _, name := range k.Missing {
			out = append(out, wireField{Path: cut(at+pointer([]string{name}), 128), Problem: "is missing"})
		}
	case *kind.Type:
		out = append(out, wireField{Path: at, Problem: "has the wrong type", Expected: word(strings.Join(k.Want, " or "))})
	case *kind.Enum:
		out = append(out, wireField{Path: at, Problem: "is none of the allowed words"})
	case *kind.Pattern:
		out = append(out, wireField{Path: at, Problem: "does not have the required form"})
	case *kind.Format:
		out = append(out, wireField{Path: at, Problem: "does not have the required form", Expected: word(k.Want)})
	default:
		out = append(out, wireField{Path: at, Problem: "is out of range"})
	}
	for i := range out {
		out[i].Path = cut(out[i].Path, 128)
	}
	return out
}

func pointer(path []string) string {
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(p))
	}
	return b.String()
}

// cut shortens a string to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n])
}

// str reads an optional string of a checked input.
func (c *call) str(name string) string {
	v, _ := c.input[name].(string)
	return v
}

// num reads an optional integer of a checked input; 3.0 is one.
func (c *call) num(name string) (int, bool) {
	v, ok := c.input[name].(json.Number)
	if !ok {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(v.String())
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return int(r.Num().Int64()), true
}
