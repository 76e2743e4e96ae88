package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

const module = "github.com/heraldbridge/herald/"

// room says which rooms of ours a room may import, and why the rest is refused.
type room struct {
	may []string
	why string
}

// rooms is the table of the architecture. A room that is not listed fails the test.
func rooms() map[string]room {
	return map[string]room{
		"internal/events":        {nil, "events is the vocabulary: pure, and the only thing that the two halves share"},
		"internal/secret":        {nil, "a secret must be usable everywhere, so it may know nobody"},
		"internal/backoff":       {nil, "arithmetic of delays; it must not become a drawer"},
		"internal/deadline":      {nil, "a way to share timers; it knows nobody's calls"},
		"internal/telemetry":     {nil, "it builds loggers and registries and is handed down, never reached for"},
		"internal/envoysim":      {nil, "the stand-in shares no type with the client, so that one misreading cannot hide in both"},
		"internal/envoy":         {[]string{"internal/secret", "internal/deadline"}, "the contract's types must not learn what is done with them"},
		"config":                 {[]string{"internal/secret"}, "the outside format of configuration knows no sink, stream or network"},
		"internal/route":         {[]string{"internal/events"}, "deciding is pure: no I/O, no clock, no sink"},
		"internal/stream":        {[]string{"internal/events", "internal/deadline"}, "the bus does not route, render or judge duplicates"},
		"internal/dedupe":        {[]string{"internal/events"}, "the store does not decide what a duplicate means"},
		"internal/watch":         {[]string{"internal/envoy", "internal/events", "internal/secret", "internal/backoff", "internal/deadline"}, "the watcher declares what it needs and sees no bus, store or sink"},
		"internal/sinks":         {[]string{"internal/events", "internal/secret", "internal/backoff"}, "a sink sees only the event: it cannot reach Envoy, the configuration or the loop"},
		"internal/sinks/words":   {[]string{"internal/events"}, "words about situations depend on situations alone"},
		"internal/sinks/slack":   {sinkMay(), "sinks do not know each other, the bus or the store"},
		"internal/sinks/email":   {sinkMay(), "sinks do not know each other, the bus or the store"},
		"internal/sinks/webhook": {sinkMay(), "sinks do not know each other, the bus or the store"},
		"internal/deliver":       {[]string{"internal/events", "internal/route", "internal/sinks", "internal/backoff", "internal/deadline"}, "the loop knows no sink's format and nothing upstream"},
		"cmd/herald":             {program("internal/console", "internal/demo", "internal/events", "internal/secret"), "a program has flags, signals and an exit code: work belongs to app"},
		"cmd/watcher":            {program(), "a program has flags, signals and an exit code: work belongs to app"},
		"cmd/notifier":           {program(), "a program has flags, signals and an exit code: work belongs to app"},
		"cmd/envoysim":           {[]string{"internal/envoysim"}, "the stand-in is a program of its own"},
		"internal/console":       {[]string{"internal/events"}, "the console reads events and publishes wishes; it holds no handle to the loops"},
	}
}

func program(more ...string) []string {
	return append([]string{"config", "internal/app", "internal/telemetry"}, more...)
}

func sinkMay() []string {
	return []string{"internal/sinks", "internal/sinks/words", "internal/events", "internal/secret", "internal/backoff", "internal/deadline"}
}

// free rooms may import what they like: the one that wires, the programs, and code that only tests and demos use.
func free(p string) bool {
	for _, prefix := range []string{"internal/app", "bench", "internal/demo", "internal/e2e", "deploy"} {
		if p == prefix || strings.HasPrefix(p, strings.TrimSuffix(prefix, "/")+"/") {
			return true
		}
	}
	return strings.HasSuffix(p, "test") || strings.HasSuffix(p, "fakes") || strings.HasSuffix(p, "/gen")
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// refused gives a line for every import that the table does not allow.
func refused(table map[string]room, pkgs []pkg) []string {
	var bad []string
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module)
		if free(name) {
			continue
		}
		r, ok := table[name]
		if !ok {
			bad = append(bad, name+" is no room of the table: give it a charter here, or put it where it belongs")
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if ours && !contains(r.may, to) {
				bad = append(bad, name+" imports "+to+": "+r.why)
			}
			if why := foreign(name, imp); why != "" {
				bad = append(bad, name+" imports "+imp+": "+why)
			}
		}
	}
	sort.Strings(bad)
	return bad
}

// foreign refuses packages from outside where a room's charter forbids what they do.
func foreign(name, imp string) string {
	only := map[string][]string{
		"github.com/nats-io":      {"internal/stream", "internal/dedupe", "internal/natstest"},
		"github.com/redis":        {"internal/dedupe", "internal/redistest"},
		"github.com/slack-go":     {"internal/sinks/slack"},
		"github.com/wneessen":     {"internal/sinks/email"},
		"cel.dev":                 {"internal/route"},
		"github.com/goccy":        {"config", "internal/envoysim"},
		"net/http/httptest":       {},
		"github.com/spf13/cobra":  {"cmd/herald", "cmd/watcher", "cmd/notifier", "cmd/envoysim"},
		"github.com/santhosh-tek": {"internal/envoysim"},
	}
	for prefix, who := range only {
		if strings.HasPrefix(imp, prefix) && !contains(who, name) {
			return "only " + strings.Join(who, ", ") + " may speak to it"
		}
	}
	pure := []string{"internal/events", "internal/route", "internal/sinks/words"}
	if contains(pure, name) && (imp == "net" || imp == "net/http" || imp == "os" || path.Base(imp) == "slog") {
		return "this room is pure: no network, no files, no log"
	}
	return ""
}

func contains(in []string, s string) bool {
	for _, x := range in {
		if x == s {
			return true
		}
	}
	return false
}

func TestRoomsImportOnlyDownwards(t *testing.T) {
	for _, line := range refused(rooms(), list(t, "./...")) {
		t.Error(line)
	}
}

// The guard itself: each ban must bite when it is broken.
func TestRoomsGuardBites(t *testing.T) {
	broken := []pkg{
		{module + "internal/sinks/slack", []string{module + "internal/envoy"}},
		{module + "internal/sinks/slack", []string{module + "internal/sinks/email"}},
		{module + "internal/watch", []string{module + "internal/stream"}},
		{module + "internal/events", []string{"net/http"}},
		{module + "internal/deliver", []string{"github.com/nats-io/nats.go"}},
		{module + "internal/util", nil},
		{module + "internal/envoysim", []string{module + "internal/envoy"}},
		{module + "cmd/watcher", []string{module + "internal/watch"}},
		{module + "cmd/notifier", []string{"github.com/nats-io/nats.go"}},
	}
	for _, p := range broken {
		if len(refused(rooms(), []pkg{p})) == 0 {
			t.Errorf("%s importing %v passed", p.ImportPath, p.Imports)
		}
	}
}

// A sink or the console must not reach the Envoy client even through others.
func TestNothingDownstreamReachesEnvoy(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"./internal/sinks/...", "./internal/deliver", "./internal/route", "./internal/console", "./internal/stream", "./internal/dedupe")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list dependencies: %v", err)
	}
	for _, dep := range strings.Fields(string(out)) {
		if dep == module+"internal/envoy" || dep == module+"internal/watch" || dep == module+"internal/envoysim" {
			t.Errorf("the delivering half depends on %s: a sink could see what must never come in", dep)
		}
	}
}

// The longest chain of our own imports stays at 7 or below.
func TestImportDepth(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range list(t, "./...") {
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, module) {
				imports[p.ImportPath] = append(imports[p.ImportPath], imp)
			}
		}
	}
	memo := map[string]int{}
	var depth func(string) int
	depth = func(p string) int {
		if d, ok := memo[p]; ok {
			return d
		}
		d := 0
		for _, imp := range imports[p] {
			d = max(d, depth(imp))
		}
		memo[p] = d + 1
		return d + 1
	}
	for p := range imports {
		if d := depth(p); d > 7 {
			t.Errorf("%s stands on a chain of %d imports; 7 is the ceiling", strings.TrimPrefix(p, module), d)
		}
	}
}

// Programs stay thin: one file per subcommand, under 120 lines each.
func TestProgramsAreThin(t *testing.T) {
	files, err := filepath.Glob("../../cmd/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs found: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n > 120 && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s has %d lines: more than flags, signals and an exit code", f, n)
		}
	}
}
