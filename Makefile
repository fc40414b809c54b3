# Everything that a contributor or a user runs. `make help` lists it.

# A toolchain from rustup is found also where the login shell has not sourced its environment (CI, sudo).
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
MUSL := $(shell uname -m)-unknown-linux-musl

.DEFAULT_GOAL := help
.PHONY: help demo check test test-kernel test-timing bench overlay-suite build symbols musl man docs docs-site clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: ## set up, build, run a test over an emulated long fat path, open its report
	@scripts/demo

check: ## set up, then the checks of every edit: no root, no network, minutes
	@scripts/setup check
	@ci/check

test-kernel: ## tests of kernel features in network namespaces; needs root
	@scripts/setup check
	@scripts/setup test
	@ci/tier kernel

test-timing: ## tests of rates and delays on this machine, one at a time; needs root
	@scripts/setup check
	@scripts/setup test
	@ci/tier timing

test: ## set up, then every check that CI makes
	@scripts/setup test
	@ci/test

bench: ## compare with iperf3, the lab's engine with a copy loop, shaped rates with those set, transfers with and without a trace, the overlay with wireguard-go
	@scripts/setup bench
	cargo build --release --locked
	@benches/run
	@benches/lab
	@benches/shape
	@benches/trace
	@benches/overlay

overlay-suite: ## overlay scenarios in virtual time and their metrics; options in SUITE, such as SUITE="--quick --against FILE"
	@scripts/setup check
	cargo build --release --locked -p lab --example overlay_suite
	@$(TARGET_DIR)/release/examples/overlay_suite $(SUITE)

build: ## the optimised binary
	@scripts/setup build
	cargo build --release --locked

symbols: ## the optimised binary with its symbols in a file beside it, in target/symbols
	@scripts/setup build
	scripts/symbols $(TARGET_DIR)/symbols

musl: ## a static binary to carry to other hosts
	@scripts/setup musl
	scripts/musl-build $(MUSL)
	@scripts/check-static $(TARGET_DIR)/$(MUSL)/release/longhaul

man: build ## write man pages, shell completions and the JSON Schema from the command definition
	$(TARGET_DIR)/release/longhaul generate man docs/man
	$(TARGET_DIR)/release/longhaul generate completions docs/completions
	$(TARGET_DIR)/release/longhaul generate schema docs/schema

docs-site: ## build the documentation as a site, in target/book
	@scripts/setup docs-site
	mdbook build docs -d $(abspath $(TARGET_DIR))/book

docs: ## rewrite the record references from the comments in crates/results
	@scripts/records-doc

clean: ## remove what was built
	cargo clean
	rm -rf demo-out
