package email_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

func TestNewRefuses(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	for name, change := range map[string]func(c *email.Config){
		"mode":           func(c *email.Config) { c.Mode = "maybe" },
		"host":           func(c *email.Config) { c.Host = "" },
		"port":           func(c *email.Config) { c.Port = 70000 },
		"no recipient":   func(c *email.Config) { c.To = nil },
		"recipient":      func(c *email.Config) { c.To = []string{"nobody"} },
		"sender":         func(c *email.Config) { c.From = "" },
		"non-ASCII":      func(c *email.Config) { c.To = []string{"राम@example.test"} },
		"no password":    func(c *email.Config) { c.Username = "x" },
		"authorities":    func(c *email.Config) { c.TLS.CA = "missing.pem" },
		"helo":           func(c *email.Config) { c.HELO = "a\r\nb" },
		"recipient line": func(c *email.Config) { c.To = []string{"a@b.test>\r\nRCPT TO:<c@d.test"} },
	} {
		c := config(server)
		change(&c)
		if _, err := email.New(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestGolden(t *testing.T) {
	for i, e := range events.Samples() {
		name := string(e.Type)
		if e.Purchase != nil {
			name = string(e.Purchase.Situation)
		}
		name = strings.ReplaceAll(string(rune('a'+i))+"-"+name, ".", "-") + ".eml"
		t.Run(name, func(t *testing.T) {
			server := newServer(t, sinkfakes.SMTPOptions{})
			c := config(server)
			c.Now = now
			send(t, newSink(t, c), sinkstest.Notification(e))
			data := string(server.Mails()[0].Data)
			boundary := regexp.MustCompile(`boundary=(\S+)`).FindStringSubmatch(data)[1]
			got := strings.ReplaceAll(strings.ReplaceAll(data, boundary, "BOUNDARY"), "\r\n", "\n")
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", path, got)
			}
		})
	}
}

func TestB40_OnlyTheStrippedEventGoesOut(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	e := sinkstest.Confirming()
	e.Purchase.Description, e.Purchase.MoneyStatus.MerchantOrderRef = sinkstest.Canary, sinkstest.Canary
	e.Purchase.Question = &events.Question{Prompt: sinkstest.Canary}
	send(t, newSink(t, config(server)), sinkstest.Notification(events.ForSink(e, nil)))
	if bytes.Contains(server.Bytes(), []byte(sinkstest.Canary)) {
		t.Error("a personal field went out")
	}
	if p := parse(t, server.Mails()[0]); !strings.Contains(p.text, e.Purchase.Merchant.Name) {
		t.Errorf("the neighbours are gone: %s", p.text)
	}
}

func TestB11_HTMLIsShownAsText(t *testing.T) {
	const name = `<img src=x onerror=1><a href="http://evil.example.test">pay</a>`
	server := newServer(t, sinkfakes.SMTPOptions{Checks: true})
	send(t, newSink(t, config(server)), merchant(name))
	p := parse(t, server.Mails()[0])
	document, err := html.Parse(strings.NewReader(p.html))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for n := range document.Descendants() {
		if n.Type == html.TextNode {
			text.WriteString(n.Data)
		}
		if n.Type == html.ElementNode && (n.Data == "img" || n.Data == "a" || n.Data == "script") {
			t.Errorf("the page has a %s element", n.Data)
		}
	}
	if !strings.Contains(text.String(), name) {
		t.Errorf("the page does not show the name: %s", text.String())
	}
	if !strings.Contains(p.text, name) || strings.Contains(p.text, "&lt;") {
		t.Errorf("the text does not hold the name as it is: %s", p.text)
	}
}
