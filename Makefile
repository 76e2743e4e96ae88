# Every target works on a machine with Go, git and make; see CONTRIBUTING.md.
GO ?= go
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)
TESTFLAGS ?= -shuffle=on -count=1
FOR ?= 60s

.DEFAULT_GOAL := help
.PHONY: help build test test/race lint fmt generate verify bench demo

help: ## list the targets
	@awk -F':.*## ' '/^[a-z\/]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the four programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

test: ## run every test (a real Redis is found, started or installed)
	@./.ci/redis
	$(GO) test $(TESTFLAGS) ./...

test/race: ## the same under the race detector
	@./.ci/redis
	$(GO) test -race $(TESTFLAGS) ./...

lint: $(GOLANGCI) ## golangci-lint, pinned
	$(GOLANGCI) run ./...

$(GOLANGCI):
	@mkdir -p $(BIN)
	GOBIN=$(abspath $(BIN)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(BIN)/golangci-lint $@

fmt: ## gofmt the tree
	gofmt -w $$(git ls-files '*.go')

generate: ## write schemas and references again
	$(GO) generate ./...

verify: generate ## generated files are as checked in, formatting and modules are tidy
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "run make fmt"; exit 1; }
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) vet ./...
	git diff --exit-code

bench: ## print each half's figures beside a floor measured in the same run
	$(GO) run ./bench

# Without optimizing, a clean clone compiles in two thirds of the time; to whoever sees it the first time, that counts.
demo: ## the whole path in one process, ends by itself after FOR (60s)
	@CGO_ENABLED=0 $(GO) run -gcflags='all=-N -l -dwarf=false' ./cmd/herald demo --for $(FOR)
