//go:build browser

package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
)

type css = chromedp.CSS

func TestPageShowsPurchasesAndChanges(t *testing.T) {
	w := served()
	b := browse(t, console.Handler(w.Options()), 1200, 800)
	b.until(`document.querySelectorAll(".purchase").length >= 8`)
	if first := value[string](b, `document.querySelector(".purchase .badge").textContent`); first != "needs support" {
		t.Errorf("first is %q", first)
	}
	for _, group := range []string{"needs support (2)", "confirming (2)", "waiting for user (2)"} {
		if !value[bool](b, `[...document.querySelectorAll(".head")].some((x) => x.textContent === "`+group+`")`) {
			t.Errorf("no %q", group)
		}
	}
	// Each says for how long, or how long there is left.
	for merchant, want := range map[string]string{"Kaveri": "for 2 h ", "Monsoon": "for 1", "Indigo": " min left"} {
		if row := value[string](b, `[...document.querySelectorAll(".purchase")].find((x) => x.textContent.includes("`+merchant+`")).textContent`); !strings.Contains(row, want) {
			t.Errorf("%s: no %q in %q", merchant, want, row)
		}
	}
	b.seen("purchases")
	// A change comes by itself, and hostile text stays text.
	e := at(9, events.SituationNeedsSupport, events.CauseRevision)
	p := *e.Purchase
	p.Merchant.Name, p.ChainRoot = `<img src=x onerror="alert(1)">`, "pur_"+strings.Repeat("a", 32)
	e.Subject, e.Purchase = p.ChainRoot, &p
	e.ID = events.EventID(e.Subject, events.Position{Revision: 9})
	w.Store(e)
	b.until(`document.body.innerText.includes('<img src=x onerror')`)
	if n := value[int](b, `document.querySelectorAll("main img").length`); n != 0 {
		t.Error("text from outside became an element")
	}
	// One purchase, by the search.
	b.do(chromedp.SetValue(css("#q"), e.Subject), chromedp.SendKeys(css("#q"), kb.Enter))
	b.until(`location.hash === "#/purchase/` + e.Subject + `" && document.querySelector(".timeline li")`)
	id := events.Samples()[3].Subject
	b.do(js(`location.hash = "#/purchase/` + id + `"`))
	b.until(`document.querySelectorAll(".timeline > li").length >= 4 && document.body.innerText.includes("rests as a dead letter")`)
	b.do(js(`document.activeElement.blur()`))
	b.seen("purchase")
	b.do(js(`location.hash = "#/find/OO"`))
	b.until(`document.querySelector("main h2").textContent.includes("oo") && document.querySelectorAll(".purchase").length === 2`)
	b.do(js(`location.hash = "#/find/100%"`)) // typed by hand
	b.until(`document.querySelector("main h2").textContent.includes("100%") && document.querySelector("main .note").textContent === "Nothing found."`)
	b.sound()
}

func TestPageRepairs(t *testing.T) {
	w := served()
	second := w.Letters[0]
	second.EventID, second.Buried = events.EventID(events.Samples()[3].Subject, events.Position{Revision: 1}), second.Buried.Add(-time.Hour)
	w.Letters = append(w.Letters, second)
	b := browse(t, console.Handler(w.Options()), 1200, 800)
	for _, view := range []string{"sinks", "connections", "dead", "silences"} {
		b.do(chromedp.Click(css(`nav a[href="#/` + view + `"]`)))
		b.until(`document.querySelector("nav a[aria-current]").getAttribute("href") === "#/` + view + `" && document.querySelector("#view .card, #view form")`)
		b.seen(view)
	}
	press := func(text string) {
		t.Helper()
		b.do(js(`[...document.querySelectorAll("main button, dialog button")].filter((x) => x.textContent === ` + quote(text) + `).at(-1).click()`))
	}
	// A silence that is wrong is refused beside its field, a right one is added and removed.
	b.do(chromedp.SendKeys(css("#silence-match"), "nope"), chromedp.SendKeys(css("#silence-why"), "Support has these in hand"), chromedp.SendKeys(css("#silence-by"), "asha"))
	press("Add")
	b.until(`document.querySelector("#silence-match-problem").textContent.includes("undeclared")`)
	b.do(chromedp.SetValue(css("#silence-match"), "unsettled"))
	press("Add")
	b.until(`document.querySelector("main .card h3")?.textContent === "Support has these in hand"`)
	b.do(js(`document.activeElement.blur()`))
	b.seen("silences") // with one
	press("Remove")
	b.until(`document.querySelector("main").innerText.includes("No silence is in force")`)
	// A sink is tried.
	b.do(js(`location.hash = "#/sinks"`))
	b.until(`document.querySelector("main .card button")`)
	press("Send a test")
	b.until(`document.querySelector("#said").textContent.includes("test done")`)
	// A letter is not dropped by mistake, and is replayed.
	b.do(js(`location.hash = "#/dead"`))
	b.until(`document.querySelector("main .card details")`)
	b.do(chromedp.Click(css("main details summary")))
	b.until(`document.querySelector("main pre")?.textContent.includes("specversion")`)
	press("Replay all of orders")
	b.until(`document.querySelector("dialog[open]")`)
	press("Cancel")
	b.until(`!document.querySelector("dialog")`)
	press("Drop")
	b.until(`document.querySelector("dialog[open]")`)
	press("Cancel")
	b.until(`!document.querySelector("dialog")`)
	if n := value[int](b, `document.querySelectorAll("main .card").length`); n != 2 {
		t.Fatalf("%d letters are left of two", n)
	}
	press("Drop") // the last one
	b.until(`document.querySelector("dialog[open]")`)
	press("Drop") // yes
	b.until(`document.querySelectorAll("main .card").length === 1 && !document.querySelector("dialog")`)
	if left := value[string](b, `document.querySelector("main .card").getAttribute("aria-label")`); strings.Contains(left, second.EventID) {
		t.Errorf("the wrong one was dropped: %s is left", left)
	}
	press("Replay")
	b.until(`document.querySelector("main").innerText.includes("No dead letter rests")`)
	if asked := w.Asked(); len(asked) != 2 || asked[1].Kind != console.WishReplay {
		t.Errorf("asked: %+v", asked)
	}
	b.sound()
}

func TestPageAsksForTheToken(t *testing.T) {
	b := browse(t, guarded(console.Handler(served().Options()), "s3cret"), 1200, 800)
	b.until(`!document.querySelector("#login").hidden && document.activeElement.id === "token"`)
	b.seen("login")
	b.do(chromedp.SendKeys(css("#token"), "wrong"+kb.Enter))
	b.until(`document.querySelector("#login-problem").textContent.includes("not accepted")`)
	b.do(chromedp.SendKeys(css("#token"), "s3cret"+kb.Enter))
	b.until(`document.querySelectorAll(".purchase").length > 0 && document.querySelector("#live").textContent === "live"`)
	if kept := value[string](b, `sessionStorage.getItem("herald-token") + localStorage.length + document.cookie`); kept != "s3cret0" {
		t.Errorf("kept: %s", kept)
	}
	b.do(chromedp.Click(css("#forget")))
	b.until(`document.querySelector("#login") && !document.querySelector("#login").hidden && sessionStorage.length === 0`)
}

func TestPageWithTenThousandPurchases(t *testing.T) {
	w := consoletest.Empty()
	crowd(w, 10_000)
	b := browse(t, console.Handler(w.Options()), 1200, 800)
	b.until(`document.querySelector("main .note")?.textContent.includes("of 10000")`)
	if n := value[int](b, `document.querySelectorAll(".purchase").length`); n > 100 {
		t.Errorf("%d rows in the document", n)
	}
	b.do(js(`scrollTo(0, document.documentElement.scrollHeight)`))
	b.until(`[...document.querySelectorAll(".purchase")].some((x) => Number(x.getAttribute("aria-posinset")) === Number(x.getAttribute("aria-setsize")))`)
	// The arrows go on to rows that were not there.
	b.do(js(`scrollTo(0, 0)`))
	b.until(`document.querySelector('.purchase[aria-posinset="2"]')`)
	b.do(chromedp.Focus(css(`.purchase[aria-posinset="2"]`)))
	for range 60 {
		b.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	if i := value[int](b, `Number(document.activeElement.getAttribute("aria-posinset"))`); i != 62 {
		t.Errorf("focus is on row %d, want 62", i)
	}
	// Many changes at once do not freeze it: the longest pause of its loop while they come.
	b.do(js(`window.longest = 0; (() => { let last = performance.now(); setInterval(() => { const now = performance.now(); longest = Math.max(longest, now - last); last = now; }, 20); })()`))
	for i := range 200 {
		e := at(int64(100+i), events.SituationConfirming, events.CauseRevision)
		p := *e.Purchase
		e.Subject = fmt.Sprintf("pur_%032x", 50_000+i)
		p.ChainRoot, p.SituationSince, e.Purchase = e.Subject, time.Now(), &p
		e.ID = events.EventID(e.Subject, events.Position{Revision: int64(100 + i)})
		w.Store(e)
	}
	b.until(`document.querySelector("main .note").textContent.includes("of 10200")`)
	if ms := value[float64](b, `longest`); ms > 3000 { // seconds would be felt; a busy machine is given some
		t.Errorf("the page stood still for %.0f ms", ms)
	} else {
		t.Logf("longest pause %.0f ms", ms)
	}
	b.sound()
}
