# Two commands do everything: `make demo` and `make test`. Each installs what it needs.

SHELL := /bin/bash
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
RXLANE := target/release/rxlane
LAB := target/release/rxlane-lab
PACKAGES := clang-19 clang-format libelf-dev zlib1g-dev pkg-config make gcc libc6-dev linux-libc-dev m4 \
	iproute2 ethtool nftables iputils-ping traceroute socat tmux shellcheck util-linux
# Tests let routing daemons talk. Nobody wants one started because it was installed, so its service, which has the package's name
# without a version, is masked meanwhile and disabled after it. Of one that was there before nothing is changed.
TEST_PACKAGES := bird2 frr keepalived conntrack iptables ipset nfdump
SHELL_SCRIPTS := .ci/run contrib/release docs/pictures $(addprefix contrib/debian/,postinst prerm postrm) fuzz/run tests/differential/sabotage tests/in-turn $(addprefix tests/vm/,apt build-kernel build-tests demo driver-rows drivers get-kernel get-qemu hosts init kinds matrix mirror router run table test-demo test-drivers test-engine test-kinds test-masters test-oracle test-pppoe test-suite test-tune test-tunnel test-vlan test-vxlan)

.PHONY: vm-setup help setup build package-files install uninstall deb demo build-tests test test-vm test-kernels test-tags soak soak-vm sabotage simpy wheel test-python test-python-ray site test-site fuzz miri sanitize nightly release docs pictures crates deny alerts lint style clean

help:
	@echo "make build   the release binaries; then sudo make install (PREFIX, DESTDIR), or uninstall"
	@echo "make deb     Debian packages, of the router and of the lab: target/dist/*.deb (installs cargo-deb)"
	@echo "make demo    build, then kernel against express at twice the kernel's capacity; report.html"
	@echo "make test    all tests: unit, property, BPF programs, end to end in network namespaces"
	@echo "make test-vm all kernels and compilers, VLANs, drivers, tune and engine, in emulated machines (an hour)"
	@echo "make test-kernels  of that what CI runs: load and forward, also VLANs, on the oldest kernel"
	@echo "make soak-vm the same on another kernel, with bridges, bonds, VLANs, IPsec: KERNEL=6.12"
	@echo "make sabotage  known ways past Linux put back on purpose: does the oracle find them? (half an hour)"
	@echo "make simpy   the simulator's reception on another simulator, SimPy, and whether both still agree (installs SimPy)"
	@echo "make wheel   the Python package for any Linux of these ten years: target/dist/*.whl (installs maturin and zig)"
	@echo "make test-python  builds the Python package, installs it in an environment of its own, and runs its tests there"
	@echo "make test-python-ray  and its studies on a Ray cluster of several nodes, one of which is killed (installs Ray)"
	@echo "make site    the planner page, the model in a browser, as one file: target/site/index.html (installs Rust's WebAssembly target)"
	@echo "make test-site  builds the page and uses it in a headless Chromium; its numbers are those of the command (installs chromium)"
	@echo "make soak    random routers and packets, plain Linux against rxlane: MINUTES=10; verdicts on FRAMES=10000000"
	@echo "make fuzz    made-up bytes for every decoder, each for SECONDS=60 (nightly Rust; installs cargo-fuzz)"
	@echo "make miri    what of the engine's rings makes no system call, interpreted (nightly Rust)"
	@echo "make sanitize  the engine's rings under AddressSanitizer and ThreadSanitizer (nightly Rust)"
	@echo "make release BPF objects compiled once, the binary made of them, tested on all kernels, packed"
	@echo "make docs    the book, with reference pages made of the program: target/book/index.html"
	@echo "make pictures  those of the book, measured, simulated and photographed anew (some minutes)"
	@echo "make crates  the oldest Rust, and whether the crates for others could be published (some minutes)"
	@echo "make deny    licences and sources of all dependencies (installs cargo-deny, some minutes)"
	@echo "make alerts  the rules for Prometheus, tried on made-up routers"
	@echo "make lint    formatting and lints; make style  what of it compiles nothing"
	@echo "make setup   install Debian packages (the others do it by themselves)"

# Asks the package database first, so that it costs nothing when everything is there.
setup:
	@missing=""; for p in $(PACKAGES); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q "install ok installed" || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
		echo "setup: installing$$missing"; \
		$(SUDO) apt-get update -qq && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
	@command -v cargo >/dev/null || { echo "setup: Rust is missing; install it from https://rustup.rs"; exit 1; }

build: setup
	@echo "build: release binaries"
	@cargo build --release --quiet --bin rxlane --bin rxlane-lab

demo: FIREWALL := 200
demo: build
	@echo "demo: a lab in network namespaces, a $(FIREWALL)-rule firewall, twice the load that the kernel forwards"
	@$(SUDO) $(LAB) bench latency --dut kernel,express,express-all-established --offered 2x --rt-ratio 0.2 --firewall $(FIREWALL) \
		--seconds 2 --repeat 3 --html report.html
	@echo "demo: open report.html"

# What packages hold besides the command, made by it.
package-files:
	@[ -x $(RXLANE) ] && [ -x $(LAB) ] || { echo "install: build it first, as yourself: make build"; exit 1; }
	@rm -rf target/package && mkdir -p target/package/man target/package/man-lab
	@$(RXLANE) man target/package/man && $(LAB) man target/package/man-lab
	@for shell in bash zsh fish; do \
		$(RXLANE) completions $$shell > target/package/rxlane.$$shell && $(LAB) completions $$shell > target/package/rxlane-lab.$$shell || exit 1; \
	done

# `make build && sudo make install`; packagers say PREFIX=/usr DESTDIR=... Nothing is started, and there is no group yet:
# `sudo groupadd --system rxlane` lets its members run `rxlane status`.
PREFIX ?= /usr/local
install: package-files
	@for command in rxlane rxlane-lab; do \
		install -Dm755 target/release/$$command $(DESTDIR)$(PREFIX)/sbin/$$command && \
		install -Dm644 target/package/$$command.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$command && \
		install -Dm644 target/package/$$command.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$command && \
		install -Dm644 target/package/$$command.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$command.fish || exit 1; \
	done
	@for page in target/package/man/* target/package/man-lab/*; do \
		install -Dm644 "$$page" "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$(basename "$$page")" || exit 1; \
	done
	@for unit in rxlane.service rxlane-lanes.service rxlane-queues.service rxlane-tune.service; do \
		sed 's|/usr/sbin/|$(PREFIX)/sbin/|' contrib/systemd/$$unit > target/package/$$unit && \
		install -Dm644 target/package/$$unit $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit 1; \
	done

uninstall:
	rm -f $(foreach command,rxlane rxlane-lab,$(addprefix $(DESTDIR)$(PREFIX)/,sbin/$(command) share/bash-completion/completions/$(command) \
		share/zsh/site-functions/_$(command) share/fish/vendor_completions.d/$(command).fish)) \
		$(DESTDIR)$(PREFIX)/share/man/man8/rxlane*.8 $(DESTDIR)$(PREFIX)/share/man/man5/rxlane.toml.5 $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/rxlane,.service -lanes.service -queues.service -tune.service)

# A package for this Debian and later ones: made on the oldest. Its times are those of the commit, so that two are the same.
CARGO_DEB := 3.8.0
deb: setup
	@command -v cargo-deb >/dev/null || cargo install --quiet --locked cargo-deb --version $(CARGO_DEB)
	@echo "deb: release binary, with libelf and zlib in it"
	@LIBBPF_SYS_LIBRARY_PATH=/usr/lib/$$(gcc -print-multiarch) cargo build --release --quiet --bin rxlane --bin rxlane-lab --features rxlane/static,rxlane-lab/static
	@$(MAKE) --no-print-directory package-files
	@for package in rxlane rxlane-lab; do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) cargo deb --quiet -p $$package --no-build --no-dbgsym --strip -o target/dist/ || exit 1; \
	done

# Tests need root for namespaces and BPF; they are built by the user and run in turn, because they share
# two cores. Those of the model share nothing, and use all cores.
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
AS_ROOT := CARGO_TARGET_$(shell echo $(HOST) | tr 'a-z-' 'A-Z_')_RUNNER="$(if $(SUDO),sudo -E,env) $(CURDIR)/tests/in-turn"

FAILURES := $(CURDIR)/target/failed-tests.txt

build-tests: setup
	@new=""; for p in $(TEST_PACKAGES); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q "install ok installed" || new="$$new $${p%%[0-9]*}.service"; \
	done; \
	[ -z "$$new" ] || $(SUDO) systemctl mask --runtime --quiet $$new 2>/dev/null || true; \
	$(MAKE) --no-print-directory setup PACKAGES="$(TEST_PACKAGES)" || exit 1; \
	[ -z "$$new" ] || $(SUDO) systemctl disable --quiet $$new 2>/dev/null || true; \
	[ -z "$$new" ] || $(SUDO) systemctl unmask --runtime --quiet $$new 2>/dev/null || true
	@echo "test: building"
	@cargo test --workspace --quiet --no-run

test: build-tests
	@echo "test: running as root, one at a time"
	@rm -f $(FAILURES)
	@$(AS_ROOT) RXLANE_FAILURES=$(FAILURES) cargo test --workspace --no-fail-fast -- --test-threads=1 --include-ignored || { \
		failed=$$?; [ ! -e $(FAILURES) ] || { echo "test: what failed, once more:"; cat $(FAILURES); }; exit $$failed; }

# Not part of `make test`: they download kernels and emulate machines.
VM_PACKAGES := qemu-system-x86 busybox-static kmod cpio xz-utils zstd binutils procps dash file debian-archive-keyring ppp conntrack
vm-setup: build
	@$(MAKE) --no-print-directory setup PACKAGES="$(VM_PACKAGES) $(CLANGS)"

test-vm: CLANGS := clang-14 clang-16
test-vm: vm-setup
	@$(SUDO) tests/vm/matrix --clangs "14 16 19"
	@$(SUDO) tests/vm/run tune 6.1
	@$(SUDO) tests/vm/run vlan 6.1
	@$(SUDO) tests/vm/run vlan newest
	@$(SUDO) tests/vm/run masters 6.1
	@$(SUDO) tests/vm/run masters newest
	@$(SUDO) tests/vm/run pppoe 6.1
	@$(SUDO) tests/vm/run pppoe newest
	@$(SUDO) tests/vm/run tunnel 6.1
	@$(SUDO) tests/vm/run tunnel newest
	@$(SUDO) tests/vm/run vxlan 6.1
	@$(SUDO) tests/vm/run vxlan newest
	@$(SUDO) tests/vm/run engine newest
	@$(SUDO) tests/vm/drivers 6.1 newest

# With the command that the tests were built for.
test-kernels: build-tests
	@$(MAKE) --no-print-directory setup PACKAGES="$(VM_PACKAGES)"
	@$(SUDO) tests/vm/matrix --kernels 6.1 --suites "shapes program" --rxlane target/debug/rxlane

test-tags: build-tests
	@$(MAKE) --no-print-directory setup PACKAGES="$(VM_PACKAGES)"
	@$(SUDO) RXLANE=target/debug/rxlane tests/vm/run vlan 6.1

# Looks for packets that rxlane treats otherwise than plain Linux; tests/differential/README.md says how to read one.
# The frames of the second part are others each time; RXLANE_SEED repeats those of a failure.
soak: MINUTES := 10
soak: FRAMES := 10000000
soak: build
	@cargo build --release --quiet -p rxlane-differential
	@echo "soak: verdicts of the XDP program against the reference parser, $(FRAMES) frames"
	@RXLANE_FRAMES=$(FRAMES) RXLANE_SEED=$${RXLANE_SEED:-$$(date +%s)} $(AS_ROOT) \
		cargo test --release --quiet -p rxlane-dataplane --test program -- --include-ignored --nocapture verdicts_agree
	@echo "soak: $(MINUTES) minutes; differences go to target/differential"
	@$(SUDO) target/release/differential run --minutes $(MINUTES) --rxlane $(RXLANE)

# The same in an emulated machine, whose kernel has bridges, bonds, VLANs, VRFs, tunnels and IPsec: KERNEL=newest.
soak-vm: MINUTES := 10
soak-vm: KERNEL := 6.12
soak-vm: vm-setup
	@cargo build --release --quiet -p rxlane-differential
	@echo "soak: $(MINUTES) minutes on Linux $(KERNEL); differences go to target/vm/oracle-$(KERNEL)/found"
	@$(SUDO) env RXLANE=$(RXLANE) ORACLE="--minutes $(MINUTES)" VM_SECONDS=$$(( $(MINUTES) * 60 + 1500 )) \
		tests/vm/run oracle $(KERNEL)

# Whether the oracle finds each known way past Linux when it is put back on purpose (half an hour).
sabotage: build
	@$(SUDO) tests/differential/sabotage

# The SimPy model computes its departures anew. Not part of `make test`, which compares with the files that are there.
SIMPY_VERSION := 4.1.2
SIMPY := target/simpy
simpy:
	@test -x $(SIMPY)/bin/python || python3 -m venv $(SIMPY)
	@$(SIMPY)/bin/python -c "import simpy; assert simpy.__version__ == '$(SIMPY_VERSION)'" 2>/dev/null || \
		$(SIMPY)/bin/pip install --quiet simpy==$(SIMPY_VERSION)
	@$(SIMPY)/bin/python crates/rxlane-sim/tests/simpy/napi.py check
	@cargo test --quiet -p rxlane-sim --test simpy

# The Python package. What it needs is in an environment of its own, which is made anew when that changes.
PYTHON ?= python3
PYENV := target/python
MATURIN := maturin>=1.9.4,<2
$(PYENV)/ready: python/tests/requirements.txt
	@echo "python: an environment in $(PYENV)"
	@$(PYTHON) -m venv --clear $(PYENV)
	@$(PYENV)/bin/pip install --quiet "$(MATURIN)" -r python/tests/requirements.txt
	@touch $@

# Linked against the C library of 2012 by zig, so that it runs on every Linux since then.
wheel:
	@test -x target/maturin/bin/maturin || $(PYTHON) -m venv target/maturin
	@target/maturin/bin/pip install --quiet "maturin[zig]>=1.9.4,<2"
	@echo "wheel: for manylinux2014"
	@PATH="$$PWD/target/maturin/bin:$$PATH" maturin build --quiet --release --zig --compatibility manylinux2014 --locked \
		-m python/Cargo.toml --out target/dist
	@ls target/dist/*.whl

# With the command that the tests were built for, whose numbers it must give.
PYTEST := RXLANE_LAB=$$PWD/target/debug/rxlane-lab $(PYENV)/bin/python -m pytest -c python/pyproject.toml
test-python: build-tests $(PYENV)/ready
	@echo "test-python: the package"
	@rm -rf target/wheels
	@$(PYENV)/bin/maturin build --quiet --locked -m python/Cargo.toml --out target/wheels
	@$(PYENV)/bin/pip install --quiet --force-reinstall --no-deps target/wheels/*.whl
	@echo "test-python: running"
	@$(PYTEST) -m "not ray" python/tests

test-python-ray: test-python
	@$(PYENV)/bin/pip install --quiet "ray>=2.9"
	@$(PYTEST) -m ray python/tests

# The planner page. The script that calls the model is made by the library that the lock file has beside it.
site:
	@rustup target list --installed | grep -q '^wasm32-unknown-unknown$$' || rustup target add wasm32-unknown-unknown
	@echo "site: the model for browsers"
	@cargo build --quiet --profile browser -p rxlane-site --lib --target wasm32-unknown-unknown
	@cargo run --quiet -p rxlane-site --features compose --bin compose-page -- \
		target/wasm32-unknown-unknown/browser/rxlane_site.wasm site/page target/site

SITE_ENV := target/site-env
$(SITE_ENV)/ready: site/tests/requirements.txt
	@echo "test-site: an environment in $(SITE_ENV)"
	@$(PYTHON) -m venv --clear $(SITE_ENV)
	@$(SITE_ENV)/bin/pip install --quiet -r site/tests/requirements.txt
	@touch $@

# With the command that the tests were built for, whose numbers it must give.
test-site: build-tests site $(SITE_ENV)/ready
	@$(MAKE) --no-print-directory setup PACKAGES=chromium
	@echo "test-site: running"
	@cargo test --quiet -p rxlane-site --features compose --bin compose-page
	@RXLANE_LAB=$$PWD/target/debug/rxlane-lab $(SITE_ENV)/bin/python -m pytest -c site/tests/pytest.ini site/tests

# What a fuzzer finds goes, minimised, into fuzz/seeds, which `cargo test` runs; fuzz/README.md says how.
nightly:
	@rustup toolchain list | grep -q '^nightly' || rustup toolchain install --profile minimal nightly
	@rustup +nightly component list | grep -q '^rust-src.*installed' || rustup component add --toolchain nightly rust-src

fuzz: SECONDS := 60
fuzz: setup nightly
	@command -v cargo-fuzz >/dev/null || cargo install --quiet --locked cargo-fuzz
	@fuzz/run $(SECONDS)

# What maps memory, opens sockets or builds a routing table is not for an interpreter; rings and UMEM are, with memory of the heap.
miri: nightly
	@rustup +nightly component list | grep -q '^miri.*installed' || rustup component add --toolchain nightly miri
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 cargo +nightly miri test -p rxlane-engine --lib -- xsk::ring xsk::frames

# The standard library is built with the sanitizer, too, else its locks look like races.
sanitize: nightly setup
	@for sanitizer in address thread; do \
		echo "sanitize: $$sanitizer"; \
		RUSTFLAGS="-Zsanitizer=$$sanitizer" cargo +nightly test -Zbuild-std --target $(HOST) --quiet \
			--target-dir $${CARGO_TARGET_DIR:-target}/$$sanitizer -p rxlane-engine --lib || exit 1; \
	done

release: vm-setup
	@$(SUDO) contrib/release

# The reference pages are kept in the repository, so that they can be read without building anything.
MDBOOK := 0.5.4
docs: build site
	@command -v mdbook >/dev/null || cargo install --quiet --locked mdbook --version $(MDBOOK)
	@$(RXLANE) reference docs/src/reference && $(LAB) reference docs/src/reference
	@mdbook build docs
	@install -Dm644 target/site/index.html target/book/planner/index.html
	@echo "docs: open target/book/index.html"

# Measured on this machine, which should have nothing else to do.
pictures: build site
	@$(MAKE) --no-print-directory setup PACKAGES="chromium aha tmux python3"
	@$(SUDO) docs/pictures

# The crates that others may depend on; and what holds for all of them.
PUBLISHED := rxlane-policy rxlane-config rxlane-fib rxlane-report rxlane-sim
RUST_VERSION := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
crates: setup
	@# Cargo takes a package of the same version for unchanged, so it must not find one of an earlier time.
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		cargo publish --dry-run --quiet --allow-dirty --target-dir "$$dir" $(addprefix -p ,$(PUBLISHED))
	@rustup toolchain list | grep -q '^$(RUST_VERSION)' || rustup toolchain install --profile minimal --component rustfmt $(RUST_VERSION)
	cargo +$(RUST_VERSION) check --workspace --all-targets --quiet --target-dir target/msrv

CARGO_DENY := 0.20.2
deny:
	@command -v cargo-deny >/dev/null || cargo install --quiet --locked cargo-deny --version $(CARGO_DENY)
	cargo deny --log-level error check licenses bans sources

lint: style
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# What of it compiles nothing.
style: setup
	cargo fmt --all --check
	clang-format --dry-run --Werror $$(git ls-files '*.bpf.c' 'crates/*/bpf/*.h')
	shellcheck $(SHELL_SCRIPTS)
	tests/vm/table --check
	tests/vm/drivers --check
	tests/vm/kinds --check

# What alerts say of made-up routers. Debian's promtool is only unpacked, because its package would start a server.
alerts:
	@command -v promtool >/dev/null || [ -x target/promtool/usr/bin/promtool ] || { \
		mkdir -p target/promtool && cd target/promtool && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . ; }
	@PATH="$$PATH:$$PWD/target/promtool/usr/bin"; cd contrib/prometheus && promtool check rules rules.yml && promtool test rules rules-test.yml

clean:
	cargo clean
	rm -f report.html
