package config

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/heraldbridge/herald/internal/secret"
)

// loadWithStandIns loads a file as it is, except that what it refers to lies below a temporary folder.
func loadWithStandIns(t *testing.T, file string) *Config {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/run/secrets", dir+"/secrets", "/run/credentials", dir+"/credentials", "/etc/herald", dir+"/etc").Replace(string(data))
	moved := filepath.Join(dir, "herald.yaml")
	place(t, moved, text)
	cfg, err := Parse(moved, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg.eachSource(everyRole, func(_ string, s secret.Source) {
		if s.Path() != "" {
			place(t, s.Path(), "stand-in\n")
		}
	})
	cfg.eachPath(everyRole, func(_ string, p Path) {
		if p != "" {
			place(t, string(p), "stand-in\n")
		}
	})
	if cfg.ConnectionsDir != "" {
		if err := os.MkdirAll(string(cfg.ConnectionsDir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err = Load(moved)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func place(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shipped are the configuration files that users may copy, and the roles that they are for.
func shipped() map[string][]Role {
	return map[string][]Role{
		"herald.example.yaml":             {RoleHerald, RoleWatcher, RoleNotifier},
		"minimal.yaml":                    {RoleHerald},
		"../deploy/herald.yaml":           {RoleHerald, RoleWatcher, RoleNotifier},
		"../deploy/systemd/herald.yaml":   {RoleHerald},
		"../deploy/systemd/watcher.yaml":  {RoleWatcher},
		"../deploy/systemd/notifier.yaml": {RoleNotifier},
	}
}

func TestShippedFilesLoad(t *testing.T) {
	for file, roles := range shipped() {
		t.Run(file, func(t *testing.T) {
			cfg := loadWithStandIns(t, file)
			for _, role := range roles {
				if err := cfg.ForRole(role); err != nil {
					t.Error(err)
				}
			}
			for _, w := range cfg.Warnings() {
				if file != "herald.example.yaml" {
					t.Errorf("warning: %s", w)
				}
			}
		})
	}
}

// TestExampleShowsEveryKey fails when a key is added and the example does not show it.
func TestExampleShowsEveryKey(t *testing.T) {
	cfg := loadWithStandIns(t, "herald.example.yaml")
	shown := map[string]bool{}
	for path := range cfg.places {
		shown[indexes.Replace(path)] = true
	}
	optional := map[string]bool{ // said in a comment, or like one that is shown
		"nats.tls.cert": true, "nats.tls.key": true, "redis.tls": true, "connections[].proof.socket": true,
		"sinks[].slack.personal": true, "sinks[].email.personal": true, "sinks[].email.tls": true, "sinks[].email.auth": true,
	}
	var visit func(t reflect.Type, path string)
	visit = func(typ reflect.Type, path string) {
		for key, field := range fieldsOf(typ) {
			child := join(path, key)
			if optional[child] {
				continue
			}
			if !shown[child] {
				t.Errorf("%s is not shown", child)
			}
			inner := field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				if inner.Kind() == reflect.Slice {
					child += "[]"
				}
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && !isScalar(inner) {
				visit(inner, child)
			}
		}
	}
	visit(reflect.TypeFor[Config](), "")
}

var indexes = strings.NewReplacer("[0]", "[]", "[1]", "[]", "[2]", "[]", "[3]", "[]", "[4]", "[]", "[5]", "[]", "[6]", "[]")

func TestSchemaIsCurrent(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "herald.schema.json", string(schema))
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("herald.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("herald.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// instance turns YAML into what a JSON Schema judges.
func instance(t *testing.T, file string) (any, error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

func TestSchemaAcceptsShippedFiles(t *testing.T) {
	schema := compileSchema(t)
	for file := range shipped() {
		doc, err := instance(t, file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchemaRefusesMistakes holds the schema against the mistakes that a schema can see.
func TestSchemaRefusesMistakes(t *testing.T) {
	schema := compileSchema(t)
	for _, name := range []string{
		"unknown_key_misspelt", "unknown_key_top", "unknown_key_of_child", "missing_key_misspelt", "wrong_type", "duration_without_unit",
		"duration_wrong", "size_wrong", "number_out_of_range", "boolean_yes", "enum_misspelt", "secret_inline", "connection_wrong",
		"webhook_wrong", "subscription_wrong", "not_a_section", "replicas_even", "value_empty",
	} {
		doc, err := instance(t, filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := schema.Validate(doc); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	var visit func(typ reflect.Type)
	visit = func(typ reflect.Type) {
		for key, field := range fieldsOf(typ) {
			if field.Tag.Get("doc") == "" {
				t.Errorf("%s.%s has no description", typ, key)
			}
			inner := field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && !isScalar(inner) {
				visit(inner)
			}
		}
	}
	visit(reflect.TypeFor[Config]())
}

// TestOtherDeployFilesAreYAML parses what other programs read.
func TestOtherDeployFilesAreYAML(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../deploy", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && e.Name() == "templates" {
			return filepath.SkipDir // Helm's templates are YAML only once they are rendered
		}
		if e.IsDir() || filepath.Ext(path) != ".yaml" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		var doc any
		if err := yaml.UnmarshalWithOptions(data, &doc, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || found < 2 {
		t.Errorf("%d files, %v", found, err)
	}
}
