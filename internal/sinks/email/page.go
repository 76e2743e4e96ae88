package email

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/heraldbridge/herald/internal/sinks/words"
)

// page is the HTML part. html/template escapes whatever is put in.
func page(m words.Message) (string, error) {
	t, err := template.New("mail").Parse(layout)
	if err != nil {
		return "", fmt.Errorf("compile mail: %w", err)
	}
	var b strings.Builder
	err = t.Execute(&b, struct {
		words.Message
		Color template.CSS
	}{m, template.CSS(m.Tone.Color())}) //nolint:gosec // a constant of ours
	if err != nil {
		return "", fmt.Errorf("render mail: %w", err)
	}
	return b.String(), nil
}

// layout holds every style twice where it matters: inline for clients that drop the
// style element, and there for the dark and the narrow. Tables and not boxes, since
// some clients know nothing else. A word of any length is broken, or it would push the
// warning out of a narrow window. No pictures, no links, nothing that is fetched.
const layout = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">
<title>{{.Subject}}</title>
<style>
:root{color-scheme:light dark;supported-color-schemes:light dark}
@media (prefers-color-scheme:dark){
.page{background-color:#15171b!important}
.card{background-color:#212429!important;border-color:#3a3f47!important}
.text{color:#ececec!important}
.soft{color:#aab0b9!important}
.rule{border-color:#3a3f47!important}
.avoid{background-color:#3d2a14!important;color:#ffd9a8!important}
}
@media (max-width:520px){
.page{padding:8px!important}
.card{padding:14px!important}
.tall,.tall+.value{display:block!important;width:auto!important;padding-right:0!important}
.tall{padding-bottom:0!important}
.tall+.value{padding-top:0!important;padding-bottom:8px!important}
.name{width:100px!important;padding-right:8px!important}
}
</style></head>
<body class="page" style="margin:0;padding:20px;background-color:#f1f3f5">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="max-width:680px;margin:0 auto;border-collapse:separate;table-layout:fixed"><tr>
<td class="card text" style="padding:20px 24px;background-color:#ffffff;border:1px solid #d9dde2;border-top:6px solid {{.Color}};border-top-color:{{.Color}}!important;font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:15px;line-height:1.5;color:#1f2328;overflow-wrap:anywhere;word-break:break-word">
<h1 class="text" style="font-size:20px;line-height:1.3;margin:0 0 12px;color:#1f2328">{{.Subject}}</h1>
{{range .Lines}}<p style="margin:0 0 8px">{{.}}</p>
{{end}}{{with .Avoid}}<p class="avoid" style="margin:12px 0;padding:10px 12px;background-color:#fff3e0;color:#6b3a00;font-weight:bold">{{.}}</p>
{{end}}{{with .Next}}<p style="margin:12px 0"><span class="soft" style="color:#59636e">Next:</span> {{.}}</p>
{{end}}{{with .Major}}<table class="rule" role="presentation" width="100%" cellpadding="0" cellspacing="0" style="margin-top:16px;border-top:1px solid #d9dde2;border-collapse:separate">
{{range .}}<tr><td class="tall soft" width="150" style="padding:5px 16px 5px 0;color:#59636e;vertical-align:top">{{.Name}}</td><td class="value" style="padding:5px 0;vertical-align:top" dir="auto">{{.Value}}</td></tr>
{{end}}</table>
{{end}}{{range .Quotes}}<p class="soft" style="margin:16px 0 4px;color:#59636e">{{.By}}:</p>
<blockquote class="rule" style="margin:0 0 8px;padding-left:12px;border-left:3px solid #d9dde2" dir="auto">{{.Text}}</blockquote>
{{end}}{{with .Minor}}<table class="rule" role="presentation" width="100%" cellpadding="0" cellspacing="0" style="margin-top:16px;border-top:1px solid #d9dde2;border-collapse:separate;font-size:13px">
{{range .}}<tr><td class="name soft" width="150" style="padding:3px 16px 3px 0;color:#59636e;vertical-align:top">{{.Name}}</td><td class="value" style="padding:3px 0;vertical-align:top" dir="auto">{{.Value}}</td></tr>
{{end}}</table>
{{end}}<p class="soft rule" style="margin:16px 0 0;padding-top:10px;border-top:1px solid #d9dde2;color:#59636e;font-size:12px">Herald{{range .Footer}} · {{.}}{{end}}</p>
</td></tr></table>
</body></html>
`
