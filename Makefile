# Glovebox. `make help` lists what can be made. Only Go, make and git are needed to begin with.

SHELL := /bin/bash
GO ?= go
LIBEXEC := internal/libexec/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATIC := CGO_ENABLED=0 $(GO) build -trimpath
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Go knows best what is stale, so the programs are always built; nothing changed costs a second.
.PHONY: build
build: guest runsc ## bin/glovebox, the one file to ship
	$(STATIC) -buildvcs=false -tags embed -ldflags '$(LDFLAGS)' -o bin/glovebox ./cmd/glovebox

.PHONY: guest
guest: ## the guest for linux/amd64 and linux/arm64, to be embedded
	GOOS=linux GOARCH=amd64 $(STATIC) -buildvcs=false -ldflags '-s -w' -o $(LIBEXEC)/glovebox-guest-linux-amd64 ./cmd/glovebox-guest
	GOOS=linux GOARCH=arm64 $(STATIC) -buildvcs=false -ldflags '-s -w' -o $(LIBEXEC)/glovebox-guest-linux-arm64 ./cmd/glovebox-guest

.PHONY: runsc
runsc: ## gVisor's runsc for this processor, to be embedded; the first time takes some minutes
	GOOS=linux $(STATIC) -buildvcs=false -ldflags '-s -w -E glovebox_entry' -o $(LIBEXEC)/glovebox-runsc-linux-$(shell $(GO) env GOARCH) ./cmd/glovebox-runsc

.PHONY: demo
demo: build ## a useful script in a sandbox, then three hostile ones
	bash examples/demo.sh bin/glovebox

.PHONY: test-deps
test-deps: ## what the tests need, as root or through sudo; otherwise the one line to run is printed
	bash scripts/install-test-deps.sh

# Engines mount and unmount on the host, which the tests of other walls watch: what uses engines comes after them, and the command, which
# has tests of all walls, before what uses nothing else.
COMMAND := github.com/glovebox-dev/glovebox/cmd/glovebox
ENGINE_PACKAGES := $(addprefix github.com/glovebox-dev/glovebox/,internal/backend/docker test/podman)

# Of one package: the attacks alone take some minutes on each backend.
TEST_TIMEOUT := 40m

.PHONY: test
test: test-deps build engines ## all tests, with the race detector; the virtual machine too, unless SKIP_VM=1
	$(GO) vet ./...
	$(GO) test -race -timeout $(TEST_TIMEOUT) $(filter-out $(COMMAND) $(ENGINE_PACKAGES),$(shell $(GO) list ./...))
	$(GO) test -race -timeout $(TEST_TIMEOUT) $(COMMAND)
	$(GO) test -race -timeout $(TEST_TIMEOUT) $(ENGINE_PACKAGES)
	@if [ "$(SKIP_VM)" = 1 ]; then echo 'SKIP_VM=1: the suite of the virtual machine was not run.'; else $(MAKE) --no-print-directory test-vm; fi

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
