package email_test

import (
	"fmt"
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

// However many are refused at whatever length, the record stays small and names them
// as long as there is room.
func TestB13_ManyRefusedRecipientsStaySmall(t *testing.T) {
	for count, named := range map[int]int{3: 3, 90: 90, 1000: 100} {
		server := newServer(t, sinkfakes.SMTPOptions{Checks: true})
		c := config(server)
		server.Script("RCPT", "250 OK")
		for i := range count {
			c.To = append(c.To, fmt.Sprintf("oncall-%d@ops.example.com", i))
			server.Script("RCPT", "550 5.1.1 "+strings.Repeat("no such user ", 50))
		}
		detail := send(t, newSink(t, c), merchant("Acme")).Detail
		if got := strings.Count(detail, "@ops.example.com: 550"); len(detail) > 8<<10 || got < named || got < count != strings.Contains(detail, " more") {
			t.Errorf("of %d refused recipients %d are named in %d bytes: %.300s", count, got, len(detail), detail)
		}
	}
}
