package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/heraldbridge/herald/internal/secret"
)

// Schema gives the JSON Schema (draft 2020-12) of the file, made from the Go types. Editors complete and check with it;
// it cannot say all that [Load] checks.
func Schema() ([]byte, error) {
	root := schemaOf(reflect.ValueOf(Defaults()).Elem())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Herald configuration"
	root["$defs"] = map[string]any{
		"duration": object{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, "description": "A time with its unit: 500ms, 30s, 2m, 168h."},
		"size":     object{"type": "string", "pattern": `^[0-9]+ *(B|[KMGT]iB|[kKMGT]B)$`, "description": "A size with its unit: 512MiB, 10GiB."},
		"secret":   secretSchema(),
		"text":     object{"anyOf": []any{object{"type": "string"}, object{"$ref": "#/$defs/secret"}}, "description": "A text, or a reference to it where it is a secret."},
		"expression": object{"type": []any{"string", "boolean"}, "maxLength": 4096,
			"description": "A CEL expression with a result of true or false."},
	}
	schema, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(schema, '\n'), nil
}

type object = map[string]any

func secretSchema() object {
	long := func(key string, value object) object {
		return object{"type": "object", "properties": object{key: value}, "required": []any{key}, "additionalProperties": false}
	}
	return object{
		"description": "A reference to a secret, never the secret itself.",
		"oneOf": []any{
			object{"type": "string", "pattern": `^(file:.+|env:[A-Za-z_][A-Za-z0-9_]*|command:\[.+\])$`},
			long("file", object{"type": "string", "minLength": 1}),
			long("env", object{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}),
			long("command", object{"type": "array", "items": object{"type": "string"}, "minItems": 1}),
		},
	}
}

// schemaOf describes a type; the value holds its defaults.
func schemaOf(v reflect.Value) object {
	switch v.Type() {
	case reflect.TypeFor[Duration]():
		return object{"$ref": "#/$defs/duration"}
	case reflect.TypeFor[Size]():
		return object{"$ref": "#/$defs/size"}
	case reflect.TypeFor[secret.Source]():
		return object{"$ref": "#/$defs/secret"}
	case reflect.TypeFor[Text]():
		return object{"$ref": "#/$defs/text"}
	case reflect.TypeFor[Expr]():
		return object{"$ref": "#/$defs/expression"}
	case reflect.TypeFor[netip.Prefix]():
		return object{"type": "string", "pattern": "^[0-9a-fA-F:.]+/[0-9]+$"}
	}
	if enum, ok := v.Interface().(words); ok {
		return object{"type": "string", "enum": enum.words()}
	}
	switch v.Kind() {
	case reflect.Struct:
		return sectionSchema(v)
	case reflect.Pointer:
		return schemaOf(fresh(v.Type().Elem()).Elem())
	case reflect.Slice:
		return object{"type": []any{"array", "null"}, "items": schemaOf(fresh(v.Type().Elem()).Elem())}
	case reflect.Map:
		return object{"type": []any{"object", "null"}, "additionalProperties": schemaOf(reflect.New(v.Type().Elem()).Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	default:
		panic("config: no schema for " + v.Type().String())
	}
}

func sectionSchema(v reflect.Value) object {
	properties, required := object{}, []any{}
	for field, value := range v.Fields() {
		key := field.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		property := schemaOf(value)
		property["description"] = field.Tag.Get("doc")
		describe(property, field.Tag)
		if def, ok := defaultOf(value); ok {
			property["default"] = def
		}
		properties[key] = property
		if field.Tag.Get("required") == "true" {
			required = append(required, key)
		}
	}
	// Only sections without required keys may be left empty.
	section := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		section["required"] = required
	} else {
		section["type"] = []any{"object", "null"}
	}
	return section
}

// describe adds the limits that the tags of a field give.
func describe(property object, tag reflect.StructTag) {
	if pattern := tag.Get("pattern"); pattern != "" {
		property["pattern"] = pattern
	}
	for _, limit := range []string{"minimum", "maximum"} {
		if n, err := strconv.ParseFloat(tag.Get(limit), 64); err == nil {
			property[limit] = n
		}
	}
	if enum := tag.Get("enum"); enum != "" {
		var numbers []any
		for word := range strings.SplitSeq(enum, ",") {
			if n, err := strconv.Atoi(word); err == nil {
				numbers = append(numbers, n)
			}
		}
		property["enum"] = numbers
	}
}

// defaultOf gives what a key has when it is left out, where that is more than nothing.
func defaultOf(v reflect.Value) (any, bool) {
	if v.IsZero() || v.Kind() == reflect.Pointer {
		return nil, false
	}
	switch value := v.Interface().(type) {
	case Duration:
		return value.String(), true
	case Size:
		return value.String(), true
	case []Duration:
		var list []any
		for _, d := range value {
			list = append(list, d.String())
		}
		return list, true
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Float64:
		return v.Interface(), true
	default:
		return nil, false
	}
}
