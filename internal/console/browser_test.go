//go:build browser

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
)

// browserWait bounds everything that one test does in the browser.
const browserWait = 120 * time.Second

// browser is a tab of a Chromium of its own. What the page complains of fails
// the test.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu     sync.Mutex
	faults []string
}

func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium is found: set CHROMIUM to its program, or run .ci/chromium (Debian: apt-get install chromium; macOS: brew install --cask chromium)")
	return ""
}

// browse opens a handler in a browser.
func browse(t *testing.T, handler http.Handler, width, height int64) *browser {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(60*time.Second))
	limited, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), browserWait)
	t.Cleanup(cancel)
	alloc, stop := chromedp.NewExecAllocator(limited, opts...)
	t.Cleanup(stop)
	b := &browser{t: t, url: s.URL}
	ctx, closeTab := chromedp.NewContext(alloc, chromedp.WithListener(b.hear))
	b.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser
		closeTab()
		s.CloseClientConnections()
	})
	b.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(s.URL+"/"))
	return b
}

// hear keeps what the page complains of: exceptions, and what its policy refuses.
func (b *browser) hear(ev any) {
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.fault(text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "status of 40") {
			b.fault(e.Entry.Text)
		}
	}
}

func (b *browser) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faults)
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v (page said %q)", err, b.complaints())
	}
}

// js runs JavaScript for what it does.
func js(text string) chromedp.Action[chromedp.Void] { return chromedp.Evaluate[chromedp.Void](text) }

// value works out JavaScript.
func value[T any](b *browser, text string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](text))
	if err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	return out
}

// until waits for JavaScript to be true.
func (b *browser) until(text string) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); <-tick.C {
		if value[bool](b, "Boolean("+text+")") {
			return
		}
	}
	b.t.Fatalf("%s does not come true\n%s\n%q", text, value[string](b, "document.body.innerText"), b.complaints())
}

// sound fails the test if the page has complained.
func (b *browser) sound() {
	b.t.Helper()
	for _, f := range b.complaints() {
		b.t.Errorf("the page complains: %s", f)
	}
}

// scheme chooses light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	if err != nil {
		b.t.Fatalf("choose %s: %v", name, err)
	}
}

// shot keeps a picture where SCREENSHOTS names a folder.
func (b *browser) shot(name string) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	b.do(js(`document.querySelector("#said").textContent = ""`))
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// contrasts gives the text on the screen whose contrast is under WCAG AA.
const contrasts = `(() => {
  const lum = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const parse = (s) => { const m = s.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3); };
  const back = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  const low = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length || e.disabled) continue;
    const a = lum(parse(getComputedStyle(e).color)), z = lum(back(e)), ratio = (Math.max(a, z) + .05) / (Math.min(a, z) + .05);
    if (ratio < 4.5) low.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + e.textContent.slice(0, 30));
  }
  return low;
})()`

// unnamed gives what can be used and has no name for those who cannot see it.
const unnamed = `[...document.querySelectorAll("a[href], button, input, select, textarea")].filter((e) => e.getClientRects().length &&
  !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).map((e) => e.outerHTML.slice(0, 80))`

// seen checks one view in both schemes and on a narrow screen.
func (b *browser) seen(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if low := value[[]string](b, contrasts); len(low) > 0 {
			b.t.Errorf("%s, %s: contrast under 4.5: %q", name, scheme, low)
		}
		b.shot("console-" + name + "-" + scheme)
	}
	b.scheme("light")
	if list := value[[]string](b, unnamed); len(list) > 0 {
		b.t.Errorf("%s: without a name: %q", name, list)
	}
	if text := value[string](b, "document.body.innerText"); strings.Contains(text, "[object") || strings.Contains(text, "undefined") || strings.Contains(text, "NaN") {
		b.t.Errorf("%s shows what nobody should see:\n%s", name, text)
	}
	b.do(chromedp.EmulateViewport(360, 740))
	if over := value[float64](b, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
		b.t.Errorf("%s: %g pixels wider than a phone", name, over)
	}
	b.shot("console-" + name + "-phone")
	b.do(chromedp.EmulateViewport(1200, 800))
}

// guarded asks for a token as the listener of a process does.
func guarded(next http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range console.ShellPaths() {
			if r.URL.Path == path {
				next.ServeHTTP(w, r)
				return
			}
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// street stores purchases of a morning, one in each plight that operators see, the worst twice.
func street(w *consoletest.World) {
	now := time.Now()
	soon, later := now.Add(8*time.Minute), now.Add(26*time.Minute)
	for i, one := range []struct {
		sample    int
		situation events.Situation // another than the sample's; empty: the sample's
		merchant  string
		amount    string
		since     time.Duration
		deadline  *time.Time
	}{
		{7, "", "Kaveri Books", "₹1,240.00", 131 * time.Minute, nil},
		{3, "", "Monsoon Outfitters", "₹6,899.00", 12 * time.Minute, &soon},
		{3, "", "Marina Kitchenware", "₹849.00", 95 * time.Second, &later},
		{0, "", "Indigo Shoes", "₹3,150.00", 6 * time.Minute, &soon},
		{1, "", "Peepal Toys", "₹2,374.00", 2 * time.Minute, &later},
		{2, "", "Saffron Grocers", "₹1,612.50", 40 * time.Second, nil},
		{2, events.SituationWorking, "Deccan Cycles", "₹12,990.00", 25 * time.Second, nil},
		{6, "", "Tamarind Crafts", "₹480.00", 34 * time.Minute, nil},
		{5, "", "Bombay Headphones", "₹2,499.00", 52 * time.Minute, nil},
	} {
		e := events.Samples()[one.sample]
		p := *e.Purchase
		e.Subject = fmt.Sprintf("pur_%016x%016x", uint64(i+1)*0x9e3779b97f4a7c15, uint64(i+1)*0xd1342543de82ef95)
		p.Connection, p.ChainRoot, p.Merchant.Name, p.Amount.Display = "host-a", e.Subject, one.merchant, one.amount
		p.SituationSince, p.Deadlines = now.Add(-one.since), events.Deadlines{NextBy: one.deadline}
		if one.situation != "" {
			p.Situation, p.WaitingOn, p.Money = one.situation, "envoy", events.MoneyNotCharged
		}
		e.Purchase = &p
		e.ID = events.EventID(e.Subject, events.Position{Revision: p.Reading.Revision})
		w.StoreAt(e, p.SituationSince)
	}
}

// served is a world with a story, a street, letters, sinks and connections.
func served() *consoletest.World {
	w := consoletest.Empty()
	story(w)
	street(w)
	w.ConnList = []console.Connection{
		{Name: "host-a", Owner: "herald on ops-1, pid 12", Calls: 9, Share: 40, Open: 7, Unsettled: 4, Holds: 2, Registered: 3,
			LastReply: time.Now(), LastPublish: time.Now().Add(-25 * time.Second)},
		{Name: "host-b", Owner: "herald on ops-1, pid 12", Parked: "token", ParkedSince: time.Now().Add(-time.Hour), Share: 40},
	}
	return w
}
