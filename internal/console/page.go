package console

import (
	"bytes"
	"embed"
	"html"
	"net/http"
	"time"
)

//go:embed page
var pageFiles embed.FS

// ShellPaths are the paths of the operator page itself, which holds no data and
// can be given without a token: the page asks for the token.
func ShellPaths() []string {
	return []string{"/", "/console.css", "/console.js", "/console-views.js", "/console-list.js"}
}

// policy lets the page load nothing but itself and speak to nobody else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// servePage serves the page from what is built into the program.
func servePage(mux *http.ServeMux, version string) {
	for _, path := range ShellPaths() {
		name, pattern := path[1:], "GET "+path
		if path == "/" {
			name, pattern = "index.html", "GET /{$}"
		}
		content, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic("the page lacks " + name) // it is built in: a test opens all of them
		}
		content = bytes.ReplaceAll(content, []byte("{{version}}"), []byte(html.EscapeString(version)))
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Security-Policy", policy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cache-Control", "no-cache")
			http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
		})
	}
}
