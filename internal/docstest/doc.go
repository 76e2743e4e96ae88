// Package docstest holds the documentation and the deployment files against the
// product: metrics, alerts, dashboards, examples and generated pages. It has
// nothing but tests; `go generate` writes the generated pages again.
package docstest

//go:generate go test . -run ^TestGeneratedPagesAreCurrent$ -update
