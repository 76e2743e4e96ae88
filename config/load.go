package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFileSize = 1 << 20 // bytes
	maxNesting  = 32      // the deepest sound file has 5
)

// Load reads and checks a configuration file and all that it refers to: secrets in files and variables, certificates,
// templates, folders. Commands are not run. What is wrong comes back as [Errors], all of it at once.
func Load(path string) (*Config, error) {
	return load(path, everyRole, func(*Config) error { return nil })
}

// LoadFor reads and checks a configuration file for one role. It is as strict as [Load] about the file itself, but of
// what the file refers to it looks only at what the role reads, so that a notifier need not hold a token for Envoy.
// What the role cannot do without is checked too, as by [Config.ForRole].
func LoadFor(path string, role Role) (*Config, error) {
	return load(path, role, func(c *Config) error { return c.ForRole(role) })
}

func load(path string, role Role, more func(*Config) error) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Errors{{File: path, Problem: err.Error()}}
	}
	cfg, mistakes := parse(path, data)
	mistakes = append(mistakes, cfg.checkReferences(role)...)
	var missing Errors
	if errors.As(more(cfg), &missing) {
		mistakes = append(mistakes, missing...)
	}
	if err := mistakes.orNil(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// Parse checks a configuration without touching anything outside of it: [Config.CheckReferences] does that. The name
// stands for the file in mistakes, and relative paths are joined to its folder. What is wrong comes back as [Errors].
func Parse(name string, data []byte) (*Config, error) {
	cfg, mistakes := parse(name, data)
	if err := mistakes.orNil(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// parse decodes and validates. The Config is there also when there are mistakes; what could not be read has its default.
func parse(name string, data []byte) (*Config, Errors) {
	cfg := Defaults()
	cfg.file = name
	d, body, mistake := document(name, data)
	if mistake != nil {
		return cfg, Errors{*mistake}
	}
	if body != nil {
		d.value(body, reflect.ValueOf(cfg).Elem(), "")
	}
	cfg.places, cfg.failed = d.places, d.failed
	cfg.complete()
	k := cfg.checker()
	k.all()
	return cfg, append(d.errs, k.errs...)
}

// complete fills in the defaults that depend on other values.
func (c *Config) complete() {
	for i := range c.Sinks {
		if _, written := c.places[fmt.Sprintf("sinks[%d].concurrency", i)]; !written {
			c.Sinks[i].Concurrency = DefaultConcurrency(c.Sinks[i].Kind())
		}
	}
}

// document parses the one YAML document of a file. An empty one has no body.
func document(name string, data []byte) (*decoder, ast.Node, *Error) {
	wrong := func(problem, hint string) *Error { return &Error{File: name, Problem: problem, Hint: hint} }
	if len(data) > maxFileSize {
		return nil, nil, wrong(fmt.Sprintf("is larger than %d bytes", maxFileSize), "")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) {
		return nil, nil, wrong("is not UTF-8 text", "")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, nil, wrong("holds a NUL byte", "")
	}
	d := newDecoder(name, string(data))
	file, mistake := d.syntax(string(data))
	if mistake != nil {
		return nil, nil, mistake
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if body != nil {
			at := d.itemPos(doc.Body)
			return nil, nil, &Error{File: name, Line: at.Line, Column: at.Column, Problem: "a second document begins", Hint: "one file holds one"}
		}
		body = doc.Body
	}
	if _, null := body.(*ast.NullNode); null {
		body = nil
	}
	return d, body, nil
}

// syntax turns text into a tree. A panic of the parser on hostile text is a mistake in the text like any other.
func (d *decoder) syntax(text string) (file *ast.File, mistake *Error) {
	defer func() {
		if recover() != nil {
			file, mistake = nil, &Error{File: d.file, Problem: "is not YAML that can be read"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if at := tooDeep(tokens); at != nil {
		pos := d.tokenPos(at)
		return nil, &Error{File: d.file, Line: pos.Line, Column: pos.Column, Problem: "is nested too deeply"}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, nil
	}
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return nil, &Error{File: d.file, Problem: "is not YAML that can be read"}
	}
	pos := d.tokenPos(syntax.GetToken())
	return nil, &Error{File: d.file, Line: pos.Line, Column: pos.Column, Problem: "not YAML: " + syntax.GetMessage()}
}

// tooDeep finds the token at which the nesting passes the limit, since the parser recurses and cannot be stopped.
func tooDeep(tokens token.Tokens) *token.Token {
	depth, line, entries := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			entries++
		default:
		}
		if depth > maxNesting || entries > maxNesting {
			return t
		}
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, bare(err)
	}
	return data, nil
}

// bare takes the path off an error of os, where the mistake names the file already.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("cannot %s: %w", path.Op, path.Err)
	}
	return err
}
