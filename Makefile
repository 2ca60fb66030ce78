# Fumehood. `make help` lists the targets. You need Go, make and git.

SHELL := /bin/bash
GO ?= go
LIBEXEC := internal/libexec/bin
ARCH := $(shell $(GO) env GOARCH)
PREFIX ?= /usr/local
# One setting for all programs and tests, so that each package is compiled once: without this folder's path.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATIC = CGO_ENABLED=0 $(GO) build -buildvcs=false
# The most bytes of bin/fumehood. RATIONALE.md explains them: update it together with this number.
MAX_SIZE ?= 47950000
LDFLAGS := -s -w -X main.version=$(VERSION)
WHOLE = $(STATIC) -tags embed -ldflags '$(LDFLAGS)'

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Always build: Go detects what is stale, and an unchanged program costs a second.
.PHONY: build
build: guest-amd64 guest-arm64 runsc typescript ## bin/fumehood, a single file to ship
	$(GO) run ./internal/libexec/compress $(foreach p,guest-linux-amd64 guest-linux-arm64 runsc-linux-$(ARCH) \
		typescript-linux-$(ARCH),$(LIBEXEC)/fumehood-$(p))
	$(WHOLE) -o bin/fumehood ./cmd/fumehood
	@size=$$(wc -c <bin/fumehood); [ "$$size" -le $(MAX_SIZE) ] || { echo "bin/fumehood has $$size bytes, more than" \
		"MAX_SIZE=$(MAX_SIZE); RATIONALE.md lists its parts" >&2; exit 1; }

# Each target that scripts/release.sh builds is OS/PROCESSOR. The commit gives the time of all files.
RELEASE ?= build/release
RELEASE_TARGETS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
PROCESSORS := $(sort $(notdir $(RELEASE_TARGETS)))
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
.PHONY: release
release: release-programs ## build/release: archives, deb, rpm and checksums of VERSION
	bash scripts/release.sh '$(RELEASE)' '$(VERSION)' '$(RELEASE_TARGETS)'

.PHONY: release-programs
release-programs: guest-amd64 guest-arm64 $(PROCESSORS:%=runsc-%) $(PROCESSORS:%=typescript-%)
	rm -rf build/release-programs # earlier ones must not enter this release
	$(GO) run ./internal/libexec/compress $(LIBEXEC)/fumehood-*64
	set -e; for target in $(RELEASE_TARGETS); do \
		GOOS=$${target%/*} GOARCH=$${target#*/} $(WHOLE) -o build/release-programs/$${target/\//-}/ ./cmd/fumehood; done

# A user without permission gets the command to run as root. Root may have no Go, so this does not build as root.
.PHONY: install
install: $(if $(wildcard bin/fumehood),,build) ## bin/fumehood into DESTDIR, PREFIX/bin (/usr/local/bin)
	@bash scripts/install.sh '$(DESTDIR)$(PREFIX)/bin'

# Only for this processor, as separate files.
.PHONY: programs
programs: guest runsc typescript ## the programs for the demo and the tests, in build/bin
	$(STATIC) -ldflags '$(LDFLAGS)' -o build/bin/fumehood ./cmd/fumehood
	ln -sf $(CURDIR)/$(LIBEXEC)/*64 build/bin/

.PHONY: guest
guest: guest-$(ARCH)

# The guest of each processor, for embedding.
.PHONY: guest-amd64 guest-arm64
guest-amd64 guest-arm64: guest-%:
	GOOS=linux GOARCH=$* $(STATIC) -ldflags '-s -w' -o $(LIBEXEC)/fumehood-guest-linux-$* ./cmd/fumehood-guest

.PHONY: runsc
runsc: runsc-$(ARCH) ## gVisor's runsc for this processor; the first build takes some minutes

.PHONY: runsc-amd64 runsc-arm64
runsc-amd64 runsc-arm64: runsc-%:
	GOOS=linux GOARCH=$* $(STATIC) -ldflags '-s -w -E fumehood_entry' \
		-o $(LIBEXEC)/fumehood-runsc-linux-$* ./cmd/fumehood-runsc

.PHONY: typescript
typescript: typescript-$(ARCH) ## the TypeScript compiler for this processor, which runs in sandboxes

.PHONY: typescript-amd64 typescript-arm64
typescript-amd64 typescript-arm64: typescript-%:
	GOOS=linux GOARCH=$* $(STATIC) -ldflags '-s -w' -o $(LIBEXEC)/fumehood-typescript-linux-$* ./cmd/fumehood-typescript

.PHONY: dashboard
dashboard: ## the scripts of the dashboard, which the repository keeps; needs npm
	bash scripts/dashboard.sh build

.PHONY: sdk
sdk: build ## the packages of the clients, in build/sdk
	bash scripts/typescript.sh build
	bash scripts/python.sh build bin/fumehood

.PHONY: site
site: ## the documentation as a folder for any web server, build/site
	$(GO) run -C deploy ./site -source '$(CURDIR)' -version '$(VERSION)' -out '$(CURDIR)/build/site'

.PHONY: demo
demo: ## run a useful script, three hostile ones, and two steps in a living sandbox
	@echo 'The first build takes some five minutes on two cores, most of it for gVisor. The demo then takes half a minute.'
	@$(MAKE) --no-print-directory programs
	bash examples/demo.sh build/bin/fumehood

.PHONY: test-deps
test-deps: ## install the dependencies of the tests, as root or through sudo, or print the command to run
	bash scripts/install-test-deps.sh

.PHONY: test
test: test-deps programs ## the tests for every change and for CI: some three minutes
	bash scripts/test.sh

.PHONY: check
check: ## all tests: some two hours; ONLY=docker,lint runs some sections
	bash scripts/check.sh '$(ONLY)'

.PHONY: engines
engines: ## start Docker and Podman for the tests, on separate sockets in build/engines
	bash scripts/test-engines.sh start

.PHONY: engines-stop
engines-stop: ## stop the engines of the tests
	bash scripts/test-engines.sh stop

.PHONY: test-vm
test-vm: build ## test native, and limits of gvisor and Podman, in a virtual machine with Debian's kernel
	bash test/vm/run.sh

.PHONY: lint
lint: ## golangci-lint, govulncheck, size guards
	bash scripts/lint.sh

.PHONY: bench
bench: build ## compare Fumehood with its peers
	$(GO) run ./bench -fumehood bin/fumehood

.PHONY: soak
soak: build ## 10,000 benign runs by 32 clients
	$(GO) run ./test/soak -fumehood bin/fumehood

.PHONY: torture
torture: build ## 1,000 kill -9 of the server under load, and 500 with a comparison of what clients were told
	$(GO) run ./test/torture -fumehood bin/fumehood
	$(GO) run ./test/torture -restart -n 500 -fumehood bin/fumehood

.PHONY: fuzz
fuzz: ## every fuzz target briefly
	bash scripts/fuzz.sh

.PHONY: clean
clean: engines-stop ## remove build output and the engines of the tests
	rm -rf bin build $(LIBEXEC)
