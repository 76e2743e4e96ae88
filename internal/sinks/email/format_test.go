package email_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
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
	samples := events.Samples()
	for i, e := range samples {
		name := string(e.Type)
		if e.Purchase != nil {
			name = string(e.Purchase.Situation)
		}
		golden(t, strings.ReplaceAll(string(rune('a'+i))+"-"+name, ".", "-"), sinkstest.Notification(e))
	}
	remind, resolve := sinkstest.Notification(samples[4]), sinkstest.Notification(samples[5])
	remind.Kind, remind.Urgent, remind.Held, remind.Reminded = sinks.KindRemind, true, 2, 2
	resolve.Kind = sinks.KindResolve
	golden(t, "k-remind", remind)
	golden(t, "l-resolve", resolve)
	long := sinkstest.Notification(sinkstest.Confirming())
	word := strings.Repeat("m", 300)
	p := long.Event.Purchase
	p.Merchant.Name, p.Say, p.Description, p.Agent.DisplayName, p.ReasonCode, p.DetailsMissing = word, word, word, word, word, []string{word}
	golden(t, "m-long-words", long)
}

func golden(t *testing.T, name string, n sinks.Notification) {
	t.Run(name, func(t *testing.T) {
		server := newServer(t, sinkfakes.SMTPOptions{})
		c := config(server)
		c.Now = now
		send(t, newSink(t, c), n)
		data := string(server.Mails()[0].Data)
		boundary := regexp.MustCompile(`boundary=(\S+)`).FindStringSubmatch(data)[1]
		got := strings.ReplaceAll(strings.ReplaceAll(data, boundary, "BOUNDARY"), "\r\n", "\n")
		path := filepath.Join("testdata", name+".eml")
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

// The pictures in the documentation show the mails as they are.
func TestPicturesAreOfTheseMails(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("testdata", "pictures.txt"))
	if err != nil {
		t.Fatal(err)
	}
	const again = "run go run ./internal/sinks/email/gen and look at the pictures"
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		raw, err := os.ReadFile(filepath.Join("testdata", words[1]))
		if err != nil {
			t.Fatal(err)
		}
		page := parse(t, sinkfakes.Mail{Data: bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))}).html
		if sum := sha256.Sum256([]byte(strings.ReplaceAll(page, "\r\n", "\n"))); hex.EncodeToString(sum[:]) != words[0] {
			t.Errorf("%s changed: %s", words[1], again)
		}
		for _, form := range []string{"light-narrow", "light-wide", "dark-narrow", "dark-wide"} {
			picture := filepath.Join("..", "..", "..", "docs", "img", words[2]+"-"+form+".png")
			if info, err := os.Stat(picture); err != nil || info.Size() < 10<<10 {
				t.Errorf("%s is missing or empty: %s", picture, again)
			}
		}
	}
	if n := strings.Count(string(list), "\n"); n != 3 {
		t.Errorf("%d mails have pictures, want 3", n)
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

func TestB40_NoSecretOfAnyTextIsShown(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	send(t, newSink(t, config(server)), sinkstest.Notification(sinkstest.Leaky()))
	p := parse(t, server.Mails()[0])
	subject := p.decoded(t, "Subject")
	for _, part := range []string{p.text, p.html} {
		sinkstest.Stripped(t, subject+"\n"+part)
	}
	if subject == "" || !strings.Contains(subject, "Example Store") {
		t.Errorf("the subject is %q", subject)
	}
}

// No text of others becomes an element, a style or an attribute, wherever it stands.
func TestB11_NoTextOfOthersBecomesMarkup(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{Checks: true})
	s := newSink(t, config(server))
	shape := func(n sinks.Notification) string {
		send(t, s, n)
		mails := server.Mails()
		document, err := html.Parse(strings.NewReader(parse(t, mails[len(mails)-1]).html))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for n := range document.Descendants() {
			if n.Type == html.ElementNode {
				fmt.Fprintln(&b, n.Data, n.Attr)
			}
			if n.Type == html.CommentNode || n.Type == html.ElementNode && n.Data == "style" && n.FirstChild.NextSibling != nil {
				t.Errorf("the page has %q", n.Data)
			}
		}
		return b.String()
	}
	texts := sinkstest.Hostile()
	texts["breaks out"] = `--></title></style></td></table><style>*{display:none}</style><script>x</script><!-- " onload="x" style='x`
	for event, of := range map[string]func(string) events.Event{"purchase": sinkstest.HostilePurchase, "notice": sinkstest.HostileNotice} {
		want := shape(sinkstest.Notification(of("plain text")))
		for name, text := range texts {
			if got := shape(sinkstest.Notification(of(text))); got != want {
				t.Errorf("%s, %s: the page is made of\n%s, want\n%s", event, name, got, want)
			}
		}
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
