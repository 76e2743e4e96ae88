#!/usr/bin/env bash
# Makes the Debian package: deploy/package.sh [VERSION] [FOLDER]. Needs Go and nothing else; GOARCH chooses the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=${1:-$(git describe --tags --always 2>/dev/null || echo dev)}
version=${version#v}
out=${2:-$root/bin}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || version=0.0.0-dev.$version
arch=$(go env GOARCH)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/{bin,units,man,completion}
ln -s "$root" "$stage/tree"
CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$stage/bin/" \
	./cmd/herald ./cmd/watcher ./cmd/notifier ./cmd/envoysim
# Packages install below /usr; the units are written for /usr/local.
for unit in deploy/systemd/*.service; do
	sed 's|/usr/local/bin/|/usr/bin/|' "$unit" >"$stage/units/$(basename "$unit")"
done
# Manual pages and completion come from the program itself, on the machine that builds.
GOOS= GOARCH= go build -o "$stage/herald" ./cmd/herald
"$stage/herald" man "$stage/man" >/dev/null
"$stage/herald" completion bash >"$stage/completion/herald"
gzip -9n "$stage"/man/*.1

nfpm=${NFPM:-$stage/nfpm}
[ -x "$nfpm" ] || (cd deploy/tools/nfpm && GOOS= GOARCH= go build -trimpath -o "$nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)
cd "$stage"
ARCH=$arch VERSION=$version "$nfpm" package --config "$root/deploy/nfpm.yaml" --packager deb --target "$out/"
