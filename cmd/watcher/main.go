// Command watcher watches Envoy purchases and publishes what changes. It needs
// NATS and Redis; run as many as wanted.
package main

import (
	"os"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(app.Execute(app.RoleCommand(config.RoleWatcher, "watcher", version), os.Args[1:], os.Stderr))
}
