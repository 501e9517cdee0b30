# `make` lists what can be made. Needed: Go (the version in go.mod), git, and a C
# compiler for the race detector. The tools are built from tools/go.mod.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
ARGS ?=
N ?= 100000
SEED ?= 1
RELEASES ?= 2000

# One way to build for everything that needs a binary or type information, so
# that the build cache is filled once.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath
LDFLAGS ?= -s -w

# Tools are kept outside the tree, under a name that changes with the pinned
# versions and with the compiler: what is there is what is wanted.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/shifter/tools
TOOLS_ID = $(shell cksum < tools/go.sum | cut -d' ' -f1)-$(shell $(GO) env GOVERSION)
LINTER = $(CACHE)/golangci-lint-$(TOOLS_ID)
VULNCHECK = $(CACHE)/govulncheck-$(TOOLS_ID)

# build_tool makes the tool $(1) from the package $(2) of the module in tools.
define build_tool
if [ ! -x "$(1)" ]; then \
	echo "building $(notdir $(1)); this happens once and may take minutes"; \
	mkdir -p "$(CACHE)"; \
	(cd tools && $(BUILD) -o "$(1).new" $(2)); \
	mv "$(1).new" "$(1)"; \
fi
endef

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z][a-z0-9-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/shifter and bin/go-api, static and without local paths.
	@$(BUILD) -ldflags '$(LDFLAGS)' -o bin/shifter ./cmd/shifter
	@$(BUILD) -ldflags '$(LDFLAGS)' -o bin/go-api ./examples/go-api
	@ls -l bin/shifter bin/go-api | awk '{ printf "%s  %.1f MiB\n", $$NF, $$5 / 1048576 }'

.PHONY: demo
demo: build ## Build, then run the demo without a cluster. ARGS="--scenario errors" and so on.
	@exec bin/shifter demo $(ARGS)

.PHONY: test
test: ## Run all tests with the race detector, in random order. No network, no cluster.
	@$(GO) test -race -shuffle=on -timeout 15m ./...

.PHONY: scenarios
scenarios: ## Run the demo's scenarios for real and check how they end. Takes minutes.
	@$(GO) test -tags scenarios -count=1 -v -timeout 25m ./test/demo

.PHONY: e2e
e2e: ## Run the suite on a real cluster and mesh made for it. E2E_RUN=TestKillAtHalf picks, KEEP=1 leaves the cluster up.
	@GO="$(GO)" test/lab/e2e.sh

.PHONY: walk
walk: ## Walk N=100000 random releases from SEED=1 and check every invariant.
	@$(GO) test ./internal/release -run TestWalk -walk.n=$(N) -walk.seed=$(SEED) -count=1 -timeout 0

.PHONY: bench-judge
bench-judge: ## Walk RELEASES=2000 releases a cell through simulated worlds; one JSON object a line. Takes minutes.
	@$(GO) test ./internal/analysis -run '^TestBenchJudge$$' -worlds.n=$(RELEASES) -count=1 -timeout 0 -v | grep -vE '^(=== |--- PASS|PASS|ok )'

.PHONY: golden
golden: ## Write the golden files anew, in every package whose tests have -rewrite. Read the diff.
	@packages=$$(grep -rlE --include='*_test.go' 'flag\.Bool(Var)?\(.*"rewrite"' internal cmd examples test | xargs -r -n1 dirname | sort -u | sed 's,^,./,'); \
	if [ -z "$$packages" ]; then echo "golden: no test has -rewrite"; exit 0; fi; \
	$(GO) test -count=1 $$packages -rewrite; \
	git status --short -- $$packages

.PHONY: lint
lint: ## Lint everything, and check that formatting and both go.mod are tidy.
	@$(call build_tool,$(LINTER),github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	@CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath" "$(LINTER)" run ./...
	@unformatted=$$(gofmt -l cmd examples internal test); \
	if [ -n "$$unformatted" ]; then printf 'not formatted (gofmt -w):\n%s\n' "$$unformatted"; exit 1; fi
	@$(GO) mod tidy -diff
	@cd tools && $(GO) mod tidy -diff
	@echo "lint: clean"

.PHONY: fmt
fmt: ## Format all Go files as the linter wants them.
	@$(call build_tool,$(LINTER),github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	@"$(LINTER)" fmt ./...

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what is used; says so where the database is out of reach.
	@$(call build_tool,$(VULNCHECK),golang.org/x/vuln/cmd/govulncheck)
	@bash tools/vuln.sh "$(VULNCHECK)"

.PHONY: check
check: lint test scenarios e2e ## All that CI runs.

.PHONY: clean
clean: ## Remove what build made.
	@rm -rf bin
