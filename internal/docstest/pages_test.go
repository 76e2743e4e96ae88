package docstest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/events"
)

var update = flag.Bool("update", false, "write generated pages again")

// node is what a schema says of one value.
type node struct {
	Description string           `json:"description"`
	Ref         string           `json:"$ref"`
	Type        any              `json:"type"`
	Const       string           `json:"const"`
	Enum        []any            `json:"enum"`
	Pattern     string           `json:"pattern"`
	Format      string           `json:"format"`
	Default     any              `json:"default"`
	Minimum     *float64         `json:"minimum"`
	Maximum     *float64         `json:"maximum"`
	Class       string           `json:"x-herald-class"`
	Properties  map[string]*node `json:"properties"`
	Required    []string         `json:"required"`
	Items       *node            `json:"items"`
	AnyOf       []*node          `json:"anyOf"`
	Extra       json.RawMessage  `json:"additionalProperties"`
	Defs        map[string]*node `json:"$defs"`
}

func schema(t *testing.T, generate func() ([]byte, error)) *node {
	t.Helper()
	data, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{}
	if err := json.Unmarshal(data, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// kind names the type of a value in a word.
func (n *node) kind() string {
	switch {
	case n.Ref != "":
		return n.Ref[strings.LastIndexByte(n.Ref, '/')+1:]
	case n.Const != "":
		return "`" + n.Const + "`"
	case len(n.AnyOf) > 0:
		var all []string
		for _, one := range n.AnyOf {
			all = append(all, one.kind())
		}
		return strings.Join(all, " or ")
	case n.Format == "date-time":
		return "time"
	}
	if list, ok := n.Type.([]any); ok && len(list) > 0 {
		n = &node{Type: list[0], Items: n.Items, Extra: n.Extra}
	}
	word, _ := n.Type.(string)
	switch {
	case word == "array" && n.Items != nil:
		return "list of " + n.Items.kind()
	case word == "object" && len(n.Extra) > 0 && n.Extra[0] == '{':
		return "map"
	case word == "string":
		return "text"
	case word == "object":
		return "section"
	}
	return word
}

// cell makes a text fit into a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s)
}

func words(list []any) string {
	var out []string
	for _, w := range list {
		out = append(out, fmt.Sprintf("`%v`", w))
	}
	return strings.Join(out, ", ")
}

func (n *node) limits() string {
	var parts []string
	if len(n.Enum) > 0 {
		parts = append(parts, "One of "+words(n.Enum)+".")
	}
	if n.Minimum != nil && n.Maximum != nil {
		parts = append(parts, fmt.Sprintf("%v to %v.", *n.Minimum, *n.Maximum))
	} else if n.Minimum != nil {
		parts = append(parts, fmt.Sprintf("At least %v.", *n.Minimum))
	}
	if n.Pattern != "" && len(n.Pattern) < 40 {
		parts = append(parts, "`"+n.Pattern+"`")
	}
	return strings.Join(parts, " ")
}

// names gives the names of a struct's fields in the order of the source.
func names(t reflect.Type, tag string) []string {
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get(tag), ",")
		if name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}

// under finds the struct below pointers and slices, if there is one.
func under(t reflect.Type) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t, t.Kind() == reflect.Struct
}

func field(t reflect.Type, tag, name string) reflect.Type {
	for i := range t.NumField() {
		if got, _, _ := strings.Cut(t.Field(i).Tag.Get(tag), ","); got == name {
			return t.Field(i).Type
		}
	}
	return nil
}

// configSection writes the table of a section, and of those in it.
func configSection(b *bytes.Buffer, title string, t reflect.Type, n *node) {
	fmt.Fprintf(b, "\n## %s\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n", title)
	var inner []func()
	for _, name := range names(t, "yaml") {
		p := n.Properties[name]
		def := ""
		switch {
		case slices.Contains(n.Required, name):
			def = "required"
		case p.Default != nil:
			raw, _ := json.Marshal(p.Default)
			def = "`" + strings.ReplaceAll(strings.Trim(string(raw), `"`), `","`, `", "`) + "`"
		}
		path := strings.TrimPrefix(title+"."+name, "The file.")
		below, isStruct := under(field(t, "yaml", name))
		target := p
		if p.Items != nil && len(p.Items.Properties) > 0 {
			target, path = p.Items, path+"[]"
		}
		if isStruct && len(target.Properties) > 0 {
			inner = append(inner, func() { configSection(b, path, below, target) })
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, p.kind(), cell(def), cell(strings.TrimSpace(p.Description+" "+p.limits())))
	}
	for _, write := range inner {
		write()
	}
}

func configurationPage(t *testing.T) []byte {
	b := bytes.NewBufferString(head(t, "configuration"))
	configSection(b, "The file", reflect.TypeFor[config.Config](), schema(t, config.Schema))
	return b.Bytes()
}

func head(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".head.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// members writes a row for each member of data, and for those in it.
func members(b *bytes.Buffer, prefix string, t reflect.Type, n *node) {
	for _, name := range names(t, "json") {
		p := n.Properties[name]
		target, path := p, prefix+name
		for _, one := range p.AnyOf {
			if len(one.Properties) > 0 {
				target = one
			}
		}
		if p.Items != nil && len(p.Items.Properties) > 0 {
			target, path = p.Items, path+"[]"
		}
		kind := p.kind()
		if !slices.Contains(n.Required, name) {
			kind += ", may be absent"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", path, kind, p.Class, cell(strings.TrimSpace(p.Description+" "+p.limits())))
		if below, ok := under(field(t, "json", name)); ok && len(target.Properties) > 0 {
			members(b, path+".", below, target)
		}
	}
}

func eventsPage(t *testing.T) []byte {
	b := bytes.NewBufferString(head(t, "events"))
	root := schema(t, events.Schema)
	const table = "| member | type | class | meaning |\n| --- | --- | --- | --- |\n"
	b.WriteString("\n## data of purchase events\n\n" + table)
	members(b, "", reflect.TypeFor[events.Purchase](), root.Defs["Purchase"])
	b.WriteString("\n## data of notices\n\n" + table)
	members(b, "", reflect.TypeFor[events.Notice](), root.Defs["Notice"])
	b.WriteString("\n## Examples\n")
	seen := map[events.Type]bool{}
	for _, e := range events.Samples() {
		if seen[e.Type] {
			continue
		}
		seen[e.Type] = true
		raw, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "\n`%s`:\n\n```json\n", e.Type)
		if err := json.Indent(b, raw, "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n```\n")
	}
	return b.Bytes()
}

// TestGeneratedPagesAreCurrent holds each generated file against what it is made from.
func TestGeneratedPagesAreCurrent(t *testing.T) {
	for file, want := range map[string][]byte{
		"docs/configuration.md":                configurationPage(t),
		"docs/events.md":                       eventsPage(t),
		"deploy/helm/herald/files/rules.yaml":  []byte(read(t, "deploy/prometheus/rules.yaml")),
		"deploy/helm/herald/files/herald.json": []byte(read(t, "deploy/grafana/herald.json")),
	} {
		path := filepath.Join("..", "..", file)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current: run make generate (%v)", file, err)
		}
	}
}
