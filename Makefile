# contcore: `make demo` and `make test` need nothing but a fresh Debian 12.

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
JOBS := $(shell nproc)
PRESET ?= release
BUILD := build/$(PRESET)
PACKAGES := cmake g++ make libgtest-dev libhwy-dev libeigen3-dev libfmt-dev libcli11-dev \
            nlohmann-json3-dev python3-numpy
BENCH_PACKAGES := libfaiss-dev libopenblas-dev python3-numpy
FORMATTED = $(shell git ls-files --cached --others --exclude-standard '*.cc' '*.h')

.PHONY: build test demo bench install format lint packages

build: packages
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) -j $(JOBS)

test: build
	ctest --preset $(PRESET)

demo: build
	$(BUILD)/apps/contcore demo

# FEATURES=features.npy measures on your own vectors; without it, vectors like real ones are made.
bench: packages
	@dpkg -s $(BENCH_PACKAGES) >/dev/null 2>&1 || $(SUDO) apt-get install -y --no-install-recommends $(BENCH_PACKAGES)
	cmake --preset release -DCONTCORE_BENCH=ON
	cmake --build --preset release -j $(JOBS) --target contcore_bench
	bench/run.sh build/release/bench/contcore_bench $(FEATURES)

install: build
	cmake --install $(BUILD)

format:
	clang-format -i $(FORMATTED)

lint: packages
	cmake --preset $(PRESET) -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
	clang-format --dry-run -Werror $(FORMATTED)
	clang-tidy -p $(BUILD) --quiet $(filter src/%.cc apps/%.cc,$(FORMATTED))

# Only what is missing, so that a second run needs neither the network nor root.
packages:
	@missing=""; for p in $(PACKAGES); do \
	  dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  echo "installing$$missing"; \
	  $(SUDO) apt-get update && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; fi
