# Browser Host. The targets that people use: demo, test, run, check, bench,
# bench-check, fuzz, interop. DEVELOP.md says more about each.

export GOTOOLCHAIN = go1.27.3

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -c

BIN   := bin/browserhost
TOOLS := $(CURDIR)/.cache

# Packages that need cgo and a display; all others are checked for every system.
SCREEN := browserhost/ui/tray browserhost/ui/dialogs browserhost/cmd/browserhost-desktop

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB      := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

FUZZTIME ?= 10s
BENCH    ?= .
BENCHCOUNT ?= 5

.PHONY: all build demo test run deps check fmt vet tools lint vuln cross generated bench bench-check fuzz interop clean

all: build

build:
	CGO_ENABLED=0 go build -trimpath -o $(BIN) ./cmd/browserhost

demo:
	@packaging/deps.sh demo
	@$(MAKE) --no-print-directory build
	$(BIN) demo

run:
	@packaging/deps.sh demo
	@$(MAKE) --no-print-directory build
	$(BIN) serve

test:
	@packaging/deps.sh test
	CGO_ENABLED=1 go test -race -tags real -timeout 20m ./...

# --- checks -----------------------------------------------------------------

check: fmt vet lint vuln cross generated
	go test -count=1 .
	@echo 'check: all is well'

fmt:
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$out" ]; then echo 'gofmt would change:'; echo "$$out"; exit 1; fi

vet:
	@packaging/deps.sh check
	go vet ./...
	go vet -tags real ./...

lint: tools
	$(TOOLS)/bin/staticcheck -tags real ./...

vuln: tools
	$(TOOLS)/bin/govulncheck -db "file://$(TOOLS)/vulndb" ./...

# Other systems are compiled, tests included, wherever no cgo is needed.
cross:
	@for os in windows darwin; do \
	  echo "vet for $$os"; \
	  GOOS=$$os CGO_ENABLED=0 go vet $$(go list ./... | grep -vxF $(SCREEN:%=-e %)) || exit 1; \
	done

# What go generate makes is committed.
generated:
	go generate ./...
	git diff --exit-code

# The tools live in .cache/bin; the vulnerability database is a Go module, so it
# needs no site of its own. Both are made again when their version changes.
STAMP := $(TOOLS)/$(subst /,_,$(STATICCHECK)+$(GOVULNCHECK)+$(VULNDB)).stamp
tools: $(STAMP)
$(STAMP):
	@mkdir -p $(TOOLS)/bin
	GOBIN=$(TOOLS)/bin CGO_ENABLED=0 go install $(STATICCHECK)
	GOBIN=$(TOOLS)/bin CGO_ENABLED=0 go install $(GOVULNCHECK)
	GOBIN=$(TOOLS)/bin CGO_ENABLED=0 go install $(subst @,/cmd/indexdb@,$(VULNDB))
	rm -rf $(TOOLS)/vulndb
	$(TOOLS)/bin/indexdb -vulns "$$(go mod download -json $(VULNDB) | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$$/\1/p')/data/osv" -out $(TOOLS)/vulndb
	@rm -f $(TOOLS)/*.stamp
	@touch $@

# --- measures ---------------------------------------------------------------

# All benchmarks, several times, in one run; bench-check holds the ratios
# between them against bench/bars.txt and exits 1 when one is missed.
bench:
	@packaging/deps.sh demo
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) -tags real -timeout 20m -p 1 ./... | tee bench/last.txt

bench-check: bench
	go run ./bench/check -bars bench/bars.txt bench/last.txt

# Every fuzz target of every package, a short while each.
fuzz:
	@packaging/fuzz.sh $(FUZZTIME)

# --- other people's clients -------------------------------------------------

interop:
	@packaging/deps.sh interop
	@$(MAKE) --no-print-directory build
	test/interop/run.sh

clean:
	rm -rf bin .cache
