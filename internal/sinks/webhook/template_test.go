package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// endless are templates that would run or grow without end, by what they do.
func endless() map[string]string {
	const double = `{{$s := printf "%1000s" "x"}}{{range 40}}{{$s = print $s $s}}{{end}}`
	return map[string]string{
		"loop":               `{{range 1000000000}}{{end}}`,
		"loops in loops":     `{{range 100000}}{{range 100000}}{{with .}}{{end}}{{end}}{{end}}`,
		"loop in else":       `{{range 0}}{{else}}{{range 1000000000}}{{end}}{{end}}`,
		"loop in with":       `{{with 1}}{{if true}}{{range 1000000000}}{{continue}}{{end}}{{end}}{{end}}`,
		"call of itself":     `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`,
		"calls of itself":    `{{define "a"}}{{template "a" .}}{{template "a" .}}{{end}}{{template "a" .}}`,
		"block":              `{{block "a" .}}{{template "a" .}}{{end}}`,
		"text that doubles":  double,
		"doubles by printf":  strings.ReplaceAll(double, "print $s $s", `printf "%s%[1]s" $s`),
		"doubles by join":    `{{$s := "x"}}{{range 40}}{{$s = print $s $s $s $s}}{{end}}`,
		"doubles by html":    `{{$s := "<"}}{{range 40}}{{$s = html $s $s}}{{end}}`,
		"wide":               `{{$s := ""}}{{range 9000}}{{$s = printf "%999999d" 1}}{{end}}`,
		"many widths":        `{{$s := printf "` + strings.Repeat("%999999d", 900) + `" 1}}`,
		"many verbs":         `{{$s := printf "%99999d" 1}}{{$s = printf "` + strings.Repeat("%[1]s", 900) + `" $s}}`,
		"width of a value":   `{{$s := printf "%*d" 999999 1}}`,
		"indexed width":      `{{$s := printf "%[1]*[2]d" 999999 1}}`,
		"output":             `{{range 9000}}{{printf "%999d" 1}}{{end}}`,
		"doubles by a time":  `{{$t := .Event.Time.AddDate 0 0 -7}}{{$s := "2"}}{{range 40}}{{$s = $t.Format $s}}{{end}}`,
		"a time in a pipe":   `{{if true}}{{with 1}}{{range 1}}{{"2" | ($.Since.AddDate 0 0 1).Format | print}}{{end}}{{end}}{{end}}`,
		"a time appended":    `{{$b := .Since.MarshalText}}{{range 9000}}{{$b = $.Since.AppendFormat $b (printf "%9s" $b)}}{{end}}`,
		"a time as argument": `{{define "a"}}{{.}}{{end}}{{template "a" .Since.Format "2"}}`,
		"a time in else":     `{{if false}}{{else}}{{print (print (.Since.Format "2"))}}{{end}}`,
		"long":               strings.Repeat("{{/* nothing */}}", 20000),
	}
}

func TestTemplatesThatDoNotEndAreRefused(t *testing.T) {
	const most = 256 << 20
	for name, text := range endless() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s, err := webhook.New(webhook.Config{
				Name: sinkstest.SinkName, URL: secret.New("https://hooks.example.test/x"), Template: text, ContentType: "text/plain",
			})
			runtime.ReadMemStats(&after)
			if err == nil {
				_ = s.Close()
				t.Fatal("New accepted it")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > most {
				t.Errorf("it took %d bytes of memory to refuse it", used)
			}
			if !strings.Contains(err.Error(), "template") || len(err.Error()) > 8<<10 {
				t.Errorf("the error has %d bytes: %.300s", len(err.Error()), err)
			}
		})
	}
}

// A template that does not end with one event only is that event's trouble, and
// nothing goes out.
func TestTemplatesThatDoNotEndRejectTheEvent(t *testing.T) {
	const form = `{{with .Purchase}}{{if gt (len .Say) 200}}%s{{end}}{{end}}text`
	for name, text := range endless() {
		if strings.Contains(text, "define") || strings.Contains(text, "block") || strings.Contains(text, "Format") || name == "long" {
			continue // definitions stand at the top; methods are refused with the template
		}
		t.Run(name, func(t *testing.T) {
			hook := newHook(t)
			s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Template: fmt.Sprintf(form, text), ContentType: "text/plain"})
			e := sinkstest.Confirming()
			e.Purchase.Say = strings.Repeat("a", 201)
			if f := failure(t, s, sinkstest.Notification(e)); f.Verdict != sinks.Rejected || f.Reason != sinks.ReasonRender {
				t.Errorf("failure is %s/%s: %v", f.Verdict, f.Reason, f)
			}
			if n := hook.Connections(); n != 0 {
				t.Errorf("%d connections", n)
			}
			send(t, s, sinkstest.Notification(sinkstest.Confirming()))
		})
	}
}

// A template that fails on one event is that event's trouble.
func TestTemplateThatFailsRejectsTheEvent(t *testing.T) {
	hook := newHook(t)
	const text = `{"since": {{with .Purchase}}{{if gt (len .Say) 200}}{{json (index .DetailsMissing 5)}}{{else}}1{{end}}{{else}}2{{end}}}`
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Template: text})
	e := sinkstest.Confirming()
	e.Purchase.Say = strings.Repeat("a", 201)
	if f := failure(t, s, sinkstest.Notification(e)); f.Verdict != sinks.Rejected || f.Reason != sinks.ReasonRender {
		t.Errorf("failure is %v", f)
	}
	if n := hook.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// A try that is over while it renders is no fault of the event.
func TestRenderingStopsWithTheTry(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Template: `{"a": {{json .Subject}}}`})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Send(ctx, sinkstest.Notification(sinkstest.Confirming()))
	var f *sinks.Failure
	if !errors.As(err, &f) || f.Verdict != sinks.Temporary || f.Reason != sinks.ReasonTimeout || !errors.Is(err, context.Canceled) {
		t.Errorf("failure is %v", err)
	}
	if n := hook.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// The functions say what those of Go's templates say.
func TestFunctions(t *testing.T) {
	hook := newHook(t)
	const text = `{{print 1 2 "a" "b" 3 4}}|{{println "a" 1}}|{{printf "%5.1f%% of %q %[2]v" 12.34 "x"}}|{{html "<&" 1}}|{{js "'"}}|{{urlquery "a b" "&"}}|` +
		`{{json "<\"\u2028"}}|{{upper "ä"}}|{{lower "Ä"}}|{{plain "a\n b"}}|{{trunc 12 "0123456789abcdef"}}|{{major 249900}}|` +
		`{{with .Purchase}}{{amount .Amount}}|{{join ", " .Reading.Changed}}|{{time .SituationSince}}{{end}}|{{time .Since}}`
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Template: text, ContentType: "text/plain"})
	e := sinkstest.Confirming()
	e.Purchase.Reading.Changed = []string{"state", "money"}
	send(t, s, sinkstest.Notification(e))
	want := `1 2ab3 4|a 1` + "\n" + `| 12.3% of "x" x|&lt;&amp;1|\'|a+b%26|` +
		`"<\"\u2028"|Ä|ä|a b|0123 … [cut]|2499.00|₹2,499.00|state, money|2026-09-29T12:06:00Z|2026-09-29T12:00:00Z`
	if got := string(hook.Received()[0].Body); got != want {
		t.Errorf("rendered\n%s, want\n%s", got, want)
	}
}
