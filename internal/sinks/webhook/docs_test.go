package webhook

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/secret"
)

// The page names every value and function of a template, and its example works.
func TestTemplatesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/sinks/webhook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "### Templates")
	if !found {
		t.Fatal("the page has no part about templates")
	}
	values := reflect.TypeFor[View]()
	for i := range values.NumField() {
		if name := "`." + values.Field(i).Name + "`"; !strings.Contains(text, name) {
			t.Errorf("%s is not documented", name)
		}
	}
	goes := map[string]bool{step: true, "print": true, "println": true, "printf": true, "html": true, "js": true, "urlquery": true}
	for name := range functions(nil, nil) {
		if !goes[name] && !strings.Contains(text, "`"+name+" ") {
			t.Errorf("the function %s is not documented", name)
		}
	}
	_, example, _ := strings.Cut(text, "```\n")
	example, _, _ = strings.Cut(example, "```")
	s, err := New(Config{Name: "documented", URL: secret.New("https://hooks.example.test/"), Template: example})
	if err != nil {
		t.Fatalf("the example does not work: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
