package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/heraldbridge/herald/internal/secret"
)

// isScalar reports whether a type is written as one value although it is a struct in Go.
func isScalar(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Duration](), reflect.TypeFor[Size](), reflect.TypeFor[Expr](), reflect.TypeFor[secret.Source](),
		reflect.TypeFor[Text](), reflect.TypeFor[netip.Prefix]():
		return true
	}
	return false
}

// special decodes the types that are written as one value. It reports false for any other type.
func (d *decoder) special(n ast.Node, v reflect.Value, path string) bool {
	if !v.CanAddr() {
		return false
	}
	switch target := v.Addr().Interface().(type) {
	case *Duration:
		d.duration(n, target, path)
	case *Size:
		d.size(n, target, path)
	case *Expr:
		d.expr(n, target, path)
	case *secret.Source:
		d.source(n, target, path)
	case *Text:
		d.maybeSecret(n, target, path)
	case *netip.Prefix:
		d.prefix(n, target, path)
	default:
		return false
	}
	return true
}

// plain gives the text of any scalar, a number included; those with units are judged by their own parsers.
func (d *decoder) plain(n ast.Node, path, wanted string) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	d.mismatch(n, path, wanted)
	return "", false
}

func (d *decoder) duration(n ast.Node, target *Duration, path string) {
	text, ok := d.plain(n, path, "a time with its unit")
	if !ok {
		return
	}
	parsed, hint, err := parseDuration(text)
	if err != nil {
		d.refuse(d.pos(n), path, err.Error(), hint)
		return
	}
	*target = parsed
}

func (d *decoder) size(n ast.Node, target *Size, path string) {
	text, ok := d.plain(n, path, "a size with its unit")
	if !ok {
		return
	}
	parsed, hint, err := parseSize(text)
	if err != nil {
		d.refuse(d.pos(n), path, err.Error(), hint)
		return
	}
	*target = parsed
}

// expr keeps an expression. true, false and numbers are expressions too.
func (d *decoder) expr(n ast.Node, target *Expr, path string) {
	switch s := n.(type) {
	case *ast.LiteralNode:
		*target = Expr{Text: strings.TrimSuffix(s.Value.Value, "\n"), Pos: d.pos(n)}
	case *ast.MappingNode, *ast.SequenceNode:
		d.mismatch(n, path, "an expression")
	case *ast.StringNode:
		*target = Expr{Text: s.Value, Pos: d.pos(n)}
	default:
		*target = Expr{Text: n.GetToken().Value, Pos: d.pos(n)}
	}
}

const referenceHint = "put it in a file and write file:PATH, or write env:NAME or command:[PROGRAM, ARGUMENT]"

// source decodes a reference to a secret. What is written is never repeated: it may be the secret itself.
func (d *decoder) source(n ast.Node, target *secret.Source, path string) {
	if m, ok := n.(*ast.MappingNode); ok {
		d.sourceMap(m, target, path)
		return
	}
	s, ok := n.(*ast.StringNode)
	if !ok {
		d.refuse(d.pos(n), path, "a secret is never written here itself", referenceHint)
		return
	}
	d.reference(s, s.Value, target, path)
}

func (d *decoder) reference(n ast.Node, text string, target *secret.Source, path string) {
	if file, ok := strings.CutPrefix(text, "file:"); ok && file != "" {
		text = "file:" + d.join(file)
	}
	source, err := secret.ParseSource(text)
	switch {
	case err == nil:
		*target = source
	case isReference(text):
		d.refuse(d.pos(n), path, err.Error(), "")
	default:
		d.refuse(d.pos(n), path, "a secret is never written here itself", referenceHint)
	}
}

// sourceMap decodes the long form: { file: PATH }, { env: NAME } or { command: [PROGRAM, ARGUMENT] }.
func (d *decoder) sourceMap(m *ast.MappingNode, target *secret.Source, path string) {
	var long struct {
		File    string   `yaml:"file"`
		Env     string   `yaml:"env"`
		Command []string `yaml:"command"`
	}
	before := len(d.errs)
	d.mapping(m, reflect.ValueOf(&long).Elem(), path)
	if len(d.errs) > before {
		d.failed[path] = true
		return
	}
	if len(m.Values) != 1 {
		d.refuse(d.itemPos(m), path, "wants exactly one of file, env and command", "")
		return
	}
	reference := any("env:" + long.Env)
	switch {
	case long.File != "":
		reference = "file:" + d.join(long.File)
	case long.Command != nil:
		reference = long.Command
	}
	source, err := secret.ParseSource(reference)
	if err != nil {
		d.refuse(d.itemPos(m), path, err.Error(), "")
		return
	}
	*target = source
}

// maybeSecret decodes a value that is either plain text or a reference.
func (d *decoder) maybeSecret(n ast.Node, target *Text, path string) {
	if m, ok := n.(*ast.MappingNode); ok {
		d.sourceMap(m, &target.Source, path)
		return
	}
	// Not d.text, which shows what it refuses.
	s, ok := n.(*ast.StringNode)
	if !ok || s.Token.Type == token.StringType && numeric.MatchString(s.Value) {
		d.refuse(d.pos(n), path, "wants a text", "put it in quotes")
		return
	}
	text := s.Value
	if isReference(text) {
		d.reference(n, text, &target.Source, path)
		return
	}
	target.Plain = text
}

func isReference(text string) bool {
	for _, kind := range []secret.Kind{secret.KindFile, secret.KindEnv, secret.KindCommand} {
		if strings.HasPrefix(text, string(kind)+":") {
			return true
		}
	}
	return false
}

func (d *decoder) prefix(n ast.Node, target *netip.Prefix, path string) {
	text, ok := d.text(n, path)
	if !ok {
		return
	}
	prefix, err := netip.ParsePrefix(text)
	if err == nil && prefix == prefix.Masked() {
		*target = prefix
		return
	}
	hint := "write an address and a length: 10.0.0.0/8, fd00::/8"
	if addr, bare := netip.ParseAddr(text); bare == nil && addr.Zone() == "" {
		hint = fmt.Sprintf("for one address write %s/%d", addr, addr.BitLen())
	}
	if err == nil {
		hint = fmt.Sprintf("write %s", prefix.Masked())
	}
	d.refuse(d.pos(n), path, fmt.Sprintf("%s is not a range of addresses", quote(text)), hint)
}
