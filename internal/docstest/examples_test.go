package docstest

import (
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/events"
)

// block is a piece of code in a page.
type block struct {
	page, lang, text string
}

// pages gives every page of the documentation, by its path in the project.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, root := range []string{"docs", "deploy", "README.md"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			data, err := os.ReadFile(path)
			rel, _ := filepath.Rel("../..", path)
			out[rel] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// blocks gives the fenced code of all pages, without the indentation of the fence.
func blocks(t *testing.T) []block {
	t.Helper()
	fence := regexp.MustCompile("(?ms)^( *)```([a-z]+)\n(.*?)^ *```$")
	var out []block
	for page, text := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			out = append(out, block{page, m[2], regexp.MustCompile("(?m)^"+m[1]).ReplaceAllString(m[3], "")})
		}
	}
	return out
}

func TestExamplesAreRight(t *testing.T) {
	count := map[string]int{}
	for _, b := range blocks(t) {
		count[b.lang]++
		switch b.lang {
		case "yaml":
			if _, err := config.Parse(b.page, []byte(b.text)); err != nil {
				t.Errorf("%s: %v\n%s", b.page, err, b.text)
			}
		case "json":
			if _, err := events.Decode([]byte(b.text)); err != nil {
				t.Errorf("%s: %v", b.page, err)
			}
		case "go":
			if got, err := format.Source([]byte(b.text)); err != nil || string(got) != b.text {
				t.Errorf("%s: Go is not as gofmt has it: %v", b.page, err)
			}
		case "sh", "js":
		default:
			t.Errorf("%s: nobody checks code of the language %q", b.page, b.lang)
		}
	}
	for lang, least := range map[string]int{"yaml": 8, "json": 3, "go": 2, "js": 2, "sh": 6} {
		if count[lang] < least {
			t.Errorf("only %d examples in %s were found", count[lang], lang)
		}
	}
}

// TestGoExampleCompiles type-checks the subscriber. The one that verifies webhooks needs a module that is not ours; its
// check lies beside the tools of deploy.
func TestGoExampleCompiles(t *testing.T) {
	for _, b := range blocks(t) {
		if b.lang != "go" || strings.Contains(b.text, "standard-webhooks") {
			continue
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "vet", file)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.page, err, out)
		}
	}
}

// TestCommandsExist holds every command line of the documentation against the programs: the command is there, and it
// takes these flags with values of this form.
func TestCommandsExist(t *testing.T) {
	bin := t.TempDir()
	line := regexp.MustCompile(`(?m)^(?: {3,}|\t)?(?:/usr/local/bin/|bin/)?((?:herald|watcher|notifier|envoysim) [^ \n][^\n]*)$`)
	inline := regexp.MustCompile("`((?:herald|watcher|notifier|envoysim) [a-z][^`]*)`")
	checked := map[string]string{}
	for page, text := range pages(t) {
		var found [][]string
		for _, b := range codeOf(text) {
			found = append(found, line.FindAllStringSubmatch(b, -1)...)
		}
		found = append(found, inline.FindAllStringSubmatch(text, -1)...)
		for _, m := range found {
			problem, done := checked[m[1]]
			if !done {
				problem = tryCommand(t, bin, m[1])
				checked[m[1]] = problem
			}
			if problem != "" {
				t.Errorf("%s: %s: %s", page, m[1], problem)
			}
		}
	}
	if len(checked) < 25 {
		t.Errorf("only %d command lines were found", len(checked))
	}
}

// codeOf gives the parts of a page that are code: between fences, or indented after an empty line.
func codeOf(text string) []string {
	var out []string
	fenced, after := false, true
	for l := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(l), "```"):
			fenced = !fenced
		case fenced, after && strings.HasPrefix(l, "    "):
			out = append(out, l)
			continue
		}
		after = strings.TrimSpace(l) == ""
	}
	return []string{strings.Join(out, "")}
}

// tryCommand asks a program for help with a whole command line, so that it reads all flags and does nothing.
func tryCommand(t *testing.T, bin, text string) string {
	t.Helper()
	text, _, _ = strings.Cut(text, " > ")
	text, _, _ = strings.Cut(text, " | ")
	text, _, _ = strings.Cut(text, " && ")
	text, _, _ = strings.Cut(text, "   ")
	args := fields(text)
	if _, err := os.Stat(filepath.Join(bin, args[0])); err != nil {
		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", bin+"/", "./cmd/"+args[0])
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", args[0], err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, args[0]), append(args[1:], "--help")...).CombinedOutput()
	if err != nil {
		return string(out)
	}
	usage := regexp.MustCompile(`(?m)^Usage:\n  ([a-z -]+)`).FindStringSubmatch(string(out))
	if usage == nil {
		return "its help has no usage"
	}
	if len(args) > 1 && args[1] != "" && args[1][0] != '-' && strings.Contains(string(out), "\nAvailable Commands:") {
		return "no such command; that is where it led: " + usage[1]
	}
	return ""
}

// fields splits a command line as a shell would, as far as the documentation needs.
func fields(s string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(s, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchors := func(text string) map[string]bool {
		out := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			slug := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
			out[strings.ReplaceAll(slug, " ", "-")] = true
		}
		return out
	}
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "http") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join("..", "..", target)); err != nil {
				t.Errorf("%s leads to %s, which does not exist", page, m[1])
			}
			if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s leads to %s, which has no such heading", page, m[1])
			}
		}
	}
}
