# The entry points of the project. `make demo` and `make test` are each enough on a bare Debian 12 with Rust.
.DEFAULT_GOAL := help
.PHONY: help setup tools build install uninstall deb docs demo paper fair live test test-long fuzz lint bench gpu-bundle gpu-test clean
# Where `make install` takes from and puts to; DESTDIR goes in front, for packages.
BUILT ?= target/release
PREFIX ?= /usr/local
UNITS ?= $(PREFIX)/lib/systemd/system

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## install LLVM 22 (apt), CUDA 13.0 and 12.9 (.toolchain/)
	@./setup.sh

# What the quick start uses: half of the time of everything.
tools: setup ## build what compiles and runs programs, optimised: eager, eagerd, eagercc, their libraries
	cargo build --locked --release -p eager -p eagerd -p eagercc -p eager-vgpud -p eager-pass -p eager-shim -p eager-preload -p eager-cudart

build: setup ## build everything, optimised
	cargo build --locked --release --workspace --exclude eager-tests --exclude eager-test-tools --exclude eager-fake-nvml
	$(MAKE) BUILT=target/release target/release/share/doc/eager/third-party.txt

install: $(BUILT)/share/doc/eager/third-party.txt ## what `make build` built into PREFIX (default /usr/local): bin/, lib/eager/, share/
	packaging/install.sh install $(BUILT) $(PREFIX) $(UNITS) "$(DESTDIR)"

uninstall: ## take away what `make install` put into PREFIX
	packaging/install.sh uninstall $(PREFIX) "$(DESTDIR)"

# Made while building, so that installing needs neither cargo nor a network.
$(BUILT)/share/doc/eager/third-party.txt: Cargo.lock scheduler/daemon/eagerd.toml $(shell find . -name '*.md' -not -path './target/*' -not -path './.*') \
    $(wildcard packaging/*.sh packaging/*.py docs/pictures/* $(addprefix $(BUILT)/,eager eagerd eager-sim eager-eval))
	packaging/manuals.sh $(BUILT)

deb: build ## a Debian package of it in target/deb/ (needs debhelper)
	debian/rules binary

docs: ## the book in target/book/ (installs mdBook into .toolchain/)
	docs/build.sh

demo: build ## seven CUDA programs on four virtual GPUs, Eager against CASE; report in target/demo/
	target/release/eager-eval demo --out target/demo

paper: ## the source document's (docs/specification.md, S-1) evaluation, simulated, 7 to 20 minutes on two cores; report in target/paper/
	cargo build --locked --release -p eager-eval
	target/release/eager-eval sim --experiment paper --out target/paper

fair: ## policies that share a device's time, simulated; report in target/fair/
	cargo build --locked --release -p eager-eval
	target/release/eager-eval sim --experiment fair --out target/fair

live: ## policy eager-live against CASE, simulated; report in target/live/
	cargo build --locked --release -p eager-eval
	target/release/eager-eval sim --experiment live --out target/live

# Tests wait for half of their time, so twice as many run at once as there are processors.
test: export RUST_TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))
test: setup ## every test (about 20 minutes on two cores, besides the build)
	# Executables and tests at once: cargo gives a build without tests other features, and would build our crates twice.
	cargo build --locked --workspace --lib --bins --tests
	cargo test --locked --workspace --no-fail-fast

test-long: setup ## tests that take long: an hour of mixed load, upgrades, every interleaving of the shared pages, random programs
	RUSTFLAGS="--cfg loom" cargo test --locked -p eager-shm --lib --target-dir target/loom --release
	cargo build --locked --workspace
	cargo test --locked -p eagerd --test daemon -- --ignored --nocapture --test-threads 1 long::
	cargo test --locked --workspace --test e2e --test mps -- --ignored --nocapture --test-threads 1 long_
	cargo run --locked -p eager-tests --bin live-programs -- --count 10000 --jobs 2
	EAGER_TEST_INPUTS=50000 cargo test --locked --workspace --test e2e kernels::mathematics

fuzz: setup ## bytes of strangers into what takes them: six targets, a minute each
	scheduler/fuzz/run.sh 60

lint: setup ## formatting and lints
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	# The fuzz targets are no member of the workspace: their lock file falls behind unseen.
	cargo metadata --locked --format-version 1 --manifest-path scheduler/fuzz/Cargo.toml >/dev/null

gpu-bundle: setup ## what runs on a machine with a GPU and no compilers: target/gpu-bundle.tar.xz
	cargo build --locked --release --workspace
	target/release/gpu-bundle target/gpu-bundle --pack

gpu-test: ## Eager on this machine's GPU: results, cost, faults; without a GPU it says so
	@if [ -e /dev/nvidiactl ]; then $(MAKE) gpu-bundle && target/gpu-bundle/run.sh --out target/gpu-test-$$(date +%Y%m%dT%H%M%S).json; \
	else echo "SKIPPED: gpu-test: no GPU here (no /dev/nvidiactl). Nothing was checked."; fi

bench: build ## benchmarks: Criterion's in target/criterion/, those of whole processes name their files
	cargo bench --locked --workspace

clean: ## remove what was built (keeps .toolchain/)
	cargo clean
