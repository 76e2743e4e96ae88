package config

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/heraldbridge/herald/internal/secret"
)

// decoder walks the syntax tree of a document and the Go value at the same time. It does not stop at a mistake: it
// notes the mistake and the path, leaves the value as it was and goes on.
type decoder struct {
	file   string
	dir    string // relative paths are joined to it
	lines  []string
	places map[string]Pos
	failed map[string]bool
	errs   Errors
}

func newDecoder(file string, data string) *decoder {
	return &decoder{
		file: file, dir: filepath.Dir(file), lines: strings.Split(data, "\n"),
		places: map[string]Pos{}, failed: map[string]bool{},
	}
}

func (d *decoder) pos(n ast.Node) Pos { return d.tokenPos(n.GetToken()) }

func (d *decoder) tokenPos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{File: d.file}
	}
	return Pos{File: d.file, Line: max(t.Position.Line, 1), Column: max(t.Position.Column, 1)}
}

// refuse notes that the value at the path cannot be used.
func (d *decoder) refuse(at Pos, path, problem, hint string) {
	d.failed[path] = true
	d.note(at, path, problem, hint)
}

func (d *decoder) note(at Pos, path, problem, hint string) {
	d.errs = append(d.errs, Error{
		File: at.File, Line: at.Line, Column: at.Column, Path: path, Problem: problem, Hint: hint,
	})
}

// value decodes a node into v. The place of v has been noted.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.refuse(d.pos(n), path, "anchors, aliases and tags are not used here", "write the value out")
		return
	case *ast.NullNode:
		d.null(n, v, path)
		return
	}
	if d.special(n, v, path) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	case reflect.Map:
		d.table(n, v, path)
	case reflect.String:
		d.word(n, v, path)
	case reflect.Bool:
		d.boolean(n, v, path)
	case reflect.Int:
		d.integer(n, v, path)
	case reflect.Float64:
		d.float(n, v, path)
	default:
		panic("config: no decoder for " + v.Type().String())
	}
}

// null decides about a key without a value. A section or a list whose lines are all commented out is an empty one;
// anything else was meant to have a value.
func (d *decoder) null(n ast.Node, v reflect.Value, path string) {
	scalar := isScalar(v.Type())
	if !scalar && (v.Kind() == reflect.Struct || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) {
		return
	}
	at := d.pos(n)
	if known, ok := d.places[path]; ok {
		at = known
	}
	hint := `write "" for an empty text, or leave the key out`
	if at.Line >= 1 && at.Line <= len(d.lines) {
		if before, comment, ok := strings.Cut(d.lines[at.Line-1], "#"); ok && strings.HasSuffix(strings.TrimSpace(before), ":") {
			hint = fmt.Sprintf("# begins a comment; put the value in quotes: %q", "#"+strings.TrimSpace(comment))
			if t := v.Type(); t == reflect.TypeFor[secret.Source]() || t == reflect.TypeFor[Text]() {
				hint = "# begins a comment; put the value in quotes"
			}
		}
	}
	d.refuse(at, path, "is empty", hint)
}

// mapping decodes a section.
func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	fields := fieldsOf(v.Type())
	for _, e := range entries {
		field, known := fields[e.key]
		if !known {
			d.unknown(e, v.Type(), path)
			continue
		}
		child := join(path, e.key)
		d.places[child] = d.placeOf(e.value, e.at)
		target := v.FieldByIndex(field.Index)
		if target.Kind() == reflect.Pointer {
			if _, null := e.value.(*ast.NullNode); null {
				d.refuse(e.at, child, "is empty", "leave the key out if it is not wanted")
				continue
			}
			target.Set(fresh(target.Type().Elem()))
		}
		d.value(e.value, target, child)
	}
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	at    Pos
	value ast.Node
}

// entries gives the keys of a mapping in their order, each once.
func (d *decoder) entries(n ast.Node, path string) ([]entry, bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.mismatch(n, path, "a section with keys")
		return nil, false
	}
	seen := map[string]Pos{}
	var all []entry
	for _, kv := range m.Values {
		at := d.pos(kv.Key)
		switch kv.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		default:
			d.note(at, path, "a key must be a plain word", "")
			continue
		}
		key := kv.Key.GetToken().Value
		if first, again := seen[key]; again {
			d.note(at, path, fmt.Sprintf("key %s is written twice", quote(key)), fmt.Sprintf("the first is in line %d", first.Line))
			continue
		}
		seen[key] = at
		all = append(all, entry{key: key, at: at, value: kv.Value})
	}
	return all, true
}

// placeOf is where a value is said to be: a section or a list at its key, anything else where it starts.
func (d *decoder) placeOf(n ast.Node, key Pos) Pos {
	switch n.(type) {
	case *ast.MappingNode, *ast.SequenceNode, *ast.NullNode:
		return key
	}
	return d.pos(n)
}

func (d *decoder) sequence(n ast.Node, v reflect.Value, path string) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.mismatch(n, path, "a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(s.Values))
	for i, item := range s.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		at := d.itemPos(item)
		d.places[child] = at
		element := fresh(v.Type().Elem()).Elem()
		if _, null := item.(*ast.NullNode); null {
			d.refuse(at, child, "is empty", "")
		} else {
			d.value(item, element, child)
		}
		if placed, ok := element.Addr().Interface().(interface{ setPlace(Pos) }); ok {
			placed.setPlace(at)
		}
		list = reflect.Append(list, element)
	}
	v.Set(list)
}

// itemPos is the place of a list item; the token of a block mapping is the colon behind its first key.
func (d *decoder) itemPos(n ast.Node) Pos {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return d.pos(m.Values[0].Key)
	}
	return d.pos(n)
}

// table decodes a mapping with free keys.
func (d *decoder) table(n ast.Node, v reflect.Value, path string) {
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	table := reflect.MakeMap(v.Type())
	for _, e := range entries {
		child := join(path, e.key)
		d.places[child] = d.placeOf(e.value, e.at)
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, element, child)
		table.SetMapIndex(reflect.ValueOf(e.key), element)
	}
	v.Set(table)
}

// text gives the text of a node, or notes that it is something else.
func (d *decoder) text(n ast.Node, path string) (string, bool) {
	var text string
	switch s := n.(type) {
	case *ast.StringNode:
		text = s.Value
		if s.Token.Type != token.StringType || !numeric.MatchString(text) {
			return text, true
		}
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.MappingNode, *ast.SequenceNode:
		d.mismatch(n, path, "a text")
		return "", false
	default:
		text = n.GetToken().Value
	}
	d.refuse(d.pos(n), path, fmt.Sprintf("wants a text, and %s without quotes is not one", quote(text)), fmt.Sprintf("write %q", text))
	return "", false
}

// word decodes a text, or a word of an enumeration.
func (d *decoder) word(n ast.Node, v reflect.Value, path string) {
	text, ok := d.text(n, path)
	if !ok {
		return
	}
	if v.Type() == reflect.TypeFor[Path]() {
		text = d.join(text)
	}
	if enum, ok := v.Interface().(words); ok && !contains(enum.words(), text) {
		hint := "one of " + strings.Join(enum.words(), ", ")
		if near := nearest(text, enum.words()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		d.refuse(d.pos(n), path, fmt.Sprintf("%s is not known here", quote(text)), hint)
		return
	}
	v.SetString(text)
}

// join makes a path relative to the configuration file.
func (d *decoder) join(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.dir, path)
}

func (d *decoder) boolean(n ast.Node, v reflect.Value, path string) {
	text := n.GetToken().Value
	if _, plain := n.(*ast.BoolNode); plain && (text == "true" || text == "false") {
		v.SetBool(text == "true")
		return
	}
	switch n.(type) {
	case *ast.MappingNode, *ast.SequenceNode:
		d.mismatch(n, path, "true or false")
		return
	}
	hint := "write true or false"
	switch strings.ToLower(text) {
	case "yes", "on", "y", "true":
		hint = "write true"
	case "no", "off", "n", "false":
		hint = "write false"
	}
	d.refuse(d.pos(n), path, fmt.Sprintf("wants true or false, not %s", quote(text)), hint)
}

var (
	decimal    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	fractional = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	padded     = regexp.MustCompile(`^-?0[0-9]+$`)
)

func (d *decoder) integer(n ast.Node, v reflect.Value, path string) {
	text, ok := d.number(n, path, "a whole number")
	if !ok {
		return
	}
	if padded.MatchString(text) {
		d.refuse(d.pos(n), path, fmt.Sprintf("%s begins with 0, which some readers of YAML take for octal", text),
			"write it without the 0 in front")
		return
	}
	if !decimal.MatchString(text) {
		d.refuse(d.pos(n), path, fmt.Sprintf("wants a whole number in decimal digits, not %s", quote(text)), "")
		return
	}
	i, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		d.refuse(d.pos(n), path, fmt.Sprintf("%s is too large", quote(text)), "")
		return
	}
	v.SetInt(i)
}

func (d *decoder) float(n ast.Node, v reflect.Value, path string) {
	text, ok := d.number(n, path, "a number")
	if !ok {
		return
	}
	f, err := strconv.ParseFloat(text, 64)
	if !fractional.MatchString(text) || err != nil || math.IsInf(f, 0) {
		d.refuse(d.pos(n), path, fmt.Sprintf("wants a number in decimal digits, not %s", quote(text)), "")
		return
	}
	v.SetFloat(f)
}

// number gives the digits of an unquoted scalar.
func (d *decoder) number(n ast.Node, path, wanted string) (string, bool) {
	switch s := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	case *ast.StringNode:
		if s.Token.Type == token.StringType && numeric.MatchString(s.Value) {
			return s.Value, true
		}
	}
	d.mismatch(n, path, wanted)
	return "", false
}

// mismatch notes that a node is of another type than wanted.
func (d *decoder) mismatch(n ast.Node, path, wanted string) {
	found, hint := "something else", ""
	switch s := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		found = "a section with keys"
		if wanted == "a text" {
			hint = "a text with a colon may need quotes"
		}
	case *ast.SequenceNode:
		found = "a list"
	case *ast.StringNode, *ast.LiteralNode:
		found = "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		found = "a number"
	case *ast.BoolNode:
		found = s.Token.Value
	}
	d.refuse(d.pos(n), path, fmt.Sprintf("wants %s, not %s", wanted, found), hint)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
