#!/usr/bin/env bash
# Checks what `make test` leaves out because it needs large tools: alerts with promtool, the chart with Helm's and
# Kubernetes' own types, the Debian package unpacked, the webhook examples against a signed event, a full disk under the
# embedded server.
#
#   deploy/check.sh                        all
#   deploy/check.sh alerts|chart|image|package|webhooks|disk
#
# Needs Go; promtool from PATH or from Debian's package; dpkg-deb for the package; node and npm for the webhook in Node.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/herald-check
mkdir -p "$cache"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# Modules of checks follow the product's requirements, whatever those have become.
gotest() { (cd "$1" && go test -mod=mod -count=1 ./...); }
step() { printf '== %s (%ss)\n' "$1" "$SECONDS"; }

promtool() {
	local own
	own=$(type -P promtool || true)
	if [ -z "$own" ]; then
		own=$cache/prometheus/usr/bin/promtool
		if [ ! -x "$own" ]; then
			(cd "$stage" && apt-get -qq download prometheus 2>/dev/null) ||
				(apt-get -qq update && cd "$stage" && apt-get -qq download prometheus) ||
				{ echo "promtool is missing: install Prometheus (Debian: apt-get install prometheus)" >&2; return 1; }
			dpkg -x "$stage"/prometheus_*.deb "$cache/prometheus"
		fi
	fi
	"$own" "$@"
}

alerts() {
	step "alerts"
	promtool check rules deploy/prometheus/rules.yaml
	(cd deploy/prometheus && promtool test rules rules_test.yaml)
	promtool check config --syntax-only deploy/prometheus/prometheus.yaml
}

chart() {
	step "chart"
	gotest deploy/tools/helm
}

package() {
	step "package"
	deploy/package.sh 0.1.0 "$stage/deb"
	local tree=$stage/installed
	dpkg-deb --info "$stage"/deb/herald_0.1.0*.deb >"$stage/info"
	grep -q '^ Depends: ca-certificates$' "$stage/info"
	dpkg -x "$stage"/deb/herald_0.1.0*.deb "$tree"
	local program
	for program in herald watcher notifier; do
		"$tree/usr/bin/$program" --version | grep -q 0.1.0
	done
	"$tree/usr/bin/envoysim" --help >/dev/null
	grep -q '^ExecStart=/usr/bin/' "$tree"/usr/lib/systemd/system/herald-watcher.service
	[ "$(stat -c %a "$tree/etc/herald/secrets")" = 700 ]
	gzip -dc "$tree"/usr/share/man/man1/herald.1.gz | grep -q '\.TH'
	bash -n "$tree/usr/share/bash-completion/completions/herald"
	"$tree/usr/bin/herald" config schema | cmp - "$tree/usr/share/herald/herald.schema.json"
	if command -v systemd-analyze >/dev/null; then
		sed "s|/usr/bin/|$tree/usr/bin/|" -i "$tree"/usr/lib/systemd/system/*.service
		systemd-analyze verify --man=no "$tree"/usr/lib/systemd/system/herald*.service
		local unit # 1.2 of 10 as they are; 2.0 is the most
		for unit in "$tree"/usr/lib/systemd/system/herald*.service; do
			systemd-analyze security --no-pager --offline=true --threshold=20 "$unit" | tail -1
		done
	fi
	echo "package is whole"
}

webhooks() {
	step "webhooks"
	gotest deploy/tools/webhooks
}

image() {
	step "image"
	local out=$stage/image/bin most=$((40 * 1000 * 1000)) size
	mkdir -p "$out"
	# What the Containerfile builds; the certificate authorities, a quarter of a megabyte, are not here.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=0.1.0' -o "$out/" ./cmd/herald ./cmd/envoysim ./deploy/healthcheck
	ln -s herald "$out/watcher" && ln -s herald "$out/notifier"
	for program in herald watcher notifier; do
		"$out/$program" --version | grep -q "^$program version 0.1.0"
	done
	size=$(tar -C "$stage/image" -c . | gzip -c | wc -c)
	[ "$size" -lt "$most" ] || { echo "the image has $size bytes compressed, more than $most" >&2; return 1; }
	echo "the image has $size bytes compressed, of $most allowed"
}

disk() {
	step "disk"
	if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=1m tmpfs "$stage" 2>/dev/null; then
		umount "$stage"
		go test -count=1 -tags tmpfs -run FullDisk ./internal/app
	else
		echo "a small disk cannot be mounted here: what follows a full one is not tried"
	fi
}

if [ $# = 0 ]; then set -- alerts chart image package webhooks disk; fi
for part in "$@"; do
	case $part in
	alerts | chart | image | package | webhooks | disk) "$part" ;;
	*) echo "usage: deploy/check.sh [alerts|chart|image|package|webhooks|disk]..." >&2; exit 2 ;;
	esac
done
step "done"
