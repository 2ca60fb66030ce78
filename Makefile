# Glovebox. `make help` lists what can be made. Only Go, make and git are needed to begin with.

SHELL := /bin/bash
GO ?= go
LIBEXEC := internal/libexec/bin
ARCH := $(shell $(GO) env GOARCH)
PREFIX ?= /usr/local
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATIC = CGO_ENABLED=0 $(GO) build $(TRIM) -buildvcs=false
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Go knows best what is stale, so the programs are always built; nothing changed costs a second.
.PHONY: build
build: TRIM := -trimpath
build: guest-amd64 guest-arm64 runsc ## bin/glovebox, the one file to ship
	$(STATIC) -tags embed -ldflags '$(LDFLAGS)' -o bin/glovebox ./cmd/glovebox

# Whoever may not write there builds as themselves and is told the one line to run as root: root may have no Go.
.PHONY: install
install: build ## bin/glovebox into PREFIX/bin (/usr/local), below DESTDIR
	@bash scripts/install.sh '$(DESTDIR)$(PREFIX)/bin'

# For this processor alone and side by side, compiled as the tests and vet are, which share it: what the demo and the tests run.
.PHONY: programs
programs: guest runsc ## the programs as the tests run them, in build/bin
	$(STATIC) -ldflags '$(LDFLAGS)' -o build/bin/glovebox ./cmd/glovebox
	ln -sf $(CURDIR)/$(LIBEXEC)/* build/bin/

.PHONY: guest
guest: guest-$(ARCH)

# The guest of each processor, to be embedded.
.PHONY: guest-amd64 guest-arm64
guest-amd64 guest-arm64: guest-%:
	GOOS=linux GOARCH=$* $(STATIC) -ldflags '-s -w' -o $(LIBEXEC)/glovebox-guest-linux-$* ./cmd/glovebox-guest

.PHONY: runsc
runsc: ## gVisor's runsc for this processor, to be embedded; the first time takes some minutes
	GOOS=linux $(STATIC) -ldflags '-s -w -E glovebox_entry' -o $(LIBEXEC)/glovebox-runsc-linux-$(ARCH) ./cmd/glovebox-runsc

.PHONY: demo
demo: programs ## a useful script in a sandbox, then three hostile ones
	bash examples/demo.sh build/bin/glovebox

.PHONY: test-deps
test-deps: ## what the tests need, as root or through sudo; otherwise the one line to run is printed
	bash scripts/install-test-deps.sh

.PHONY: test
test: test-deps programs ## what a contributor runs twenty times a day, and CI: some three minutes
	bash scripts/test.sh

.PHONY: check
check: ## everything, by hand before an issue is called resolved: some two hours; ONLY=docker,lint runs some sections
	bash scripts/check.sh '$(ONLY)'

.PHONY: engines
engines: ## Docker and Podman for the tests, on sockets of their own in build/engines; make engines-stop ends them
	bash scripts/test-engines.sh start

.PHONY: engines-stop
engines-stop: ## ends the engines of the tests
	bash scripts/test-engines.sh stop

.PHONY: test-vm
test-vm: build ## in a virtual machine with an ordinary Debian kernel: the native suite, limits of gvisor and of Podman
	bash test/vm/run.sh

.PHONY: lint
lint: ## golangci-lint, govulncheck, size guards
	bash scripts/lint.sh

.PHONY: bench
bench: build ## one table: this and its peers side by side
	$(GO) run ./bench -glovebox bin/glovebox

.PHONY: soak
soak: build ## 10,000 benign runs at 32 clients
	$(GO) run ./test/soak -glovebox bin/glovebox

.PHONY: torture
torture: build ## 1,000 kill -9 of the server under load
	$(GO) run ./test/torture -glovebox bin/glovebox

.PHONY: fuzz
fuzz: ## every fuzz target for a short while
	bash scripts/fuzz.sh

.PHONY: clean
clean: engines-stop ## removes what was built, and the engines of the tests
	rm -rf bin build $(LIBEXEC)
