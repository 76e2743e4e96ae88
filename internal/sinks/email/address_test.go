package email_test

import (
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// What needs quotes has them in the commands, too, so that no address ends early.
func TestB05_AddressesCannotEndEarly(t *testing.T) {
	for text, want := range map[string]string{
		`"a,b"@x.test`: `<"a,b"@x.test>`, `"a@b"@x.test`: `<"a@b"@x.test>`, `"a>SIZE=9<"@x.test`: `<"a>SIZE=9<"@x.test>`,
		`"a\"b"@x.test`: `<"a\"b"@x.test>`, `a.b+c@x.test`: `<a.b+c@x.test>`,
	} {
		server := newServer(t, sinkfakes.SMTPOptions{})
		c := config(server)
		c.From, c.To = "Herald <"+text+">", []string{text}
		send(t, newSink(t, c), merchant("Acme"))
		lines := strings.Join(server.Lines(), "\n")
		if !strings.Contains(lines, "MAIL FROM:"+want) || !strings.Contains(lines, "RCPT TO:"+want+"\n") {
			t.Errorf("%s was sent as\n%s", text, lines)
		}
	}
}
