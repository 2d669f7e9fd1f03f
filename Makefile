# contcore: `make demo` and `make test` need nothing but a fresh Debian 12.

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
JOBS := $(shell nproc)
PRESET ?= release
BUILD := build/$(PRESET)
# What the command is built of.
PACKAGES := cmake g++ make libhwy-dev libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev nettle-dev \
            libdnnl-dev libjpeg-dev libpng-dev libtiff-dev libwebp-dev libonnx-dev libprotobuf-dev \
            libmicrohttpd-dev libsqlite3-dev libcurl4-openssl-dev libmosquitto-dev libutf8proc-dev
# What the tests are built of, compare with and drive.
TEST_PACKAGES := libgtest-dev libaravis-dev libopencv-imgproc-dev libopencv-imgcodecs-dev python3-numpy python3-sklearn curl mosquitto openssl \
                 python3-pytest python3-pil python3-pandas python3-scipy python3-tqdm python3-torch python3-faiss mypy
# What the Python package is built of; and its wheel, and what tries that.
PYTHON_PACKAGES := python3-dev pybind11-dev python3-numpy
WHEEL_PACKAGES := patchelf binutils python3-venv
LINT_PACKAGES := clang clang-format clang-tidy python3
MPI_PACKAGES := libopenmpi-dev openmpi-bin iproute2 python3-numpy
PAGE_PACKAGES := chromium nodejs python3-numpy
BENCH_PACKAGES := libfaiss-dev libopenblas-dev libopencv-imgproc-dev libopencv-imgcodecs-dev python3-numpy
FORMATTED = $(shell git ls-files --cached --others --exclude-standard '*.cc' '*.h')

.PHONY: build python wheel test test-cuda test-mpi test-page fuzz demo bench bench-backbones bench-cuda bench-images install deb docs format lint packages

# The command and the libraries. Whether the tests are built too is for `make test` to say.
build: packages
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) -j $(JOBS) --target contcore_command

# The Python package, in place: PYTHONPATH=python python3 -c 'import contcore'
python: PACKAGES += $(PYTHON_PACKAGES)
python: packages
	cmake --preset release -DCONTCORE_PYTHON=ON
	cmake --build --preset release -j $(JOBS) --target contcore_python

# The same to be installed, with the libraries it needs inside: pip install --no-index build/contcore-*.whl
wheel: PACKAGES += $(WHEEL_PACKAGES)
wheel: python
	packaging/wheel.py python/contcore build

test: PACKAGES += $(TEST_PACKAGES) $(PYTHON_PACKAGES)
test: packages
	cmake --preset $(PRESET) -DCONTCORE_TESTS=ON -DCONTCORE_OPENCV_TESTS=ON -DCONTCORE_PYTHON=ON
	cmake --build --preset $(PRESET) -j $(JOBS)
	ctest --preset $(PRESET)

# What computes on GPUs, against the processor's answers. Needs CUDA's toolkit (13 or later), and says so where there is no
# GPU to test it on.
test-cuda: PACKAGES += libgtest-dev
test-cuda: packages
	cmake --preset release -B build/cuda -DCONTCORE_CUDA=ON -DCONTCORE_TESTS=ON
	cmake --build build/cuda -j $(JOBS) --target contcore_command contcore_cuda_tests
	build/cuda/tests/contcore_cuda_tests --gtest_brief=1 || [ $$? = 77 ]

# Several processes under mpirun, against one. FROM=folder takes a build's objects instead of compiling.
test-mpi: PACKAGES += $(MPI_PACKAGES)
test-mpi: packages
	cmake --preset release -B build/mpi -DCONTCORE_MPI=ON -DCONTCORE_OBJECTS=$(FROM)
	cmake --build build/mpi -j $(JOBS) --target contcore_command
	/usr/bin/python3 tests/apps/mpi_test.py $(CURDIR)/build/mpi/apps/contcore
	/usr/bin/python3 tests/apps/mpi_evaluate_test.py $(CURDIR)/build/mpi/apps/contcore

# The page in a real browser. npm may be there without being Debian's.
test-page: PACKAGES += $(PAGE_PACKAGES) $(if $(shell command -v npm),,npm)
test-page: build
	tests/web/run.sh $(BUILD)/apps/contcore

# Every reader of foreign bytes under libFuzzer, a million runs or SECONDS (ten minutes) each.
fuzz: PACKAGES += clang
fuzz: packages
	cmake -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DCONTCORE_FUZZ=ON \
	  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -gline-tables-only -DNDEBUG"
	cmake --build build/fuzz -j $(JOBS) --target fuzz_targets
	JOBS=$(JOBS) fuzz/run.sh build/fuzz/fuzz

# A trained backbone where npm can fetch one, the built-in filters otherwise.
demo: build
	@$(BUILD)/apps/contcore backbone fetch resnet50 >/dev/null || \
	  echo "contcore: no ResNet-50, so the demo uses the built-in backbone"
	$(BUILD)/apps/contcore demo

# FEATURES=features.npy measures on your own vectors; without it, vectors like real ones are made.
bench: PACKAGES += $(BENCH_PACKAGES)
bench: packages
	cmake --preset release -DCONTCORE_BENCH=ON
	cmake --build --preset release -j $(JOBS) --target contcore_bench
	bench/run.sh build/release/bench/contcore_bench $(FEATURES)

# Feature maps and times against ONNX Runtime; needs node and npm. FOLDERS=folder adds .onnx files.
bench-backbones: PACKAGES += $(BENCH_PACKAGES) python3-torchvision
bench-backbones: packages
	cmake --preset release -DCONTCORE_BENCH=ON
	cmake --build --preset release -j $(JOBS) --target backbone_check
	bench/backbones.sh build/release/bench/backbone_check $(FOLDERS)

# What a GPU takes, beside PyTorch where that is there. MODEL=network.onnx, in 8 bits or float.
MODEL ?= builtin
bench-cuda: PACKAGES += $(BENCH_PACKAGES) python3-pil
bench-cuda: packages
	cmake --preset release -B build/cuda -DCONTCORE_CUDA=ON -DCONTCORE_BENCH=ON
	cmake --build build/cuda -j $(JOBS) --target contcore_command contcore_cuda_greedy contcore_cuda_nearest \
	  contcore_cuda_backbone
	build/cuda/bench/contcore_cuda_greedy
	build/cuda/bench/contcore_cuda_nearest
	build/cuda/bench/contcore_cuda_backbone $(MODEL) 384 1 64
	if python3 -c 'import torch; torch.cuda.init()' 2>/dev/null; then python3 bench/cuda_greedy.py && \
	  python3 bench/cuda_nearest.py && python3 bench/cuda_backbone.py 384 1 64; \
	  else echo "no PyTorch with a GPU: without the peers"; fi
	python3 bench/learn_products.py build/cuda/apps/contcore --devices auto,cpu --options "--backbone $(MODEL)"

# Decoding, resizing and blurring images, beside OpenCV.
bench-images: PACKAGES += $(BENCH_PACKAGES)
bench-images: packages
	cmake --preset release -DCONTCORE_BENCH=ON
	cmake --build --preset release -j $(JOBS) --target contcore_decode_bench contcore_image_bench
	build/release/bench/contcore_decode_bench
	build/release/bench/contcore_image_bench

install: build
	cmake --install $(BUILD)

# A package for Debian 12: build/contcore_VERSION_ARCHITECTURE.deb. apt-get install ./build/contcore_*.deb
deb: PACKAGES += dpkg-dev
deb: build
	packaging/deb.sh $(BUILD) build

format:
	clang-format -i $(FORMATTED)

# clang's warnings and missing includes file by file (apps are always compiled so); clang-tidy with each layer as one file,
# as it is compiled: looking closely at every header once for each file would take far longer.
lint: PACKAGES += $(LINT_PACKAGES)
lint: packages
	@clang-format --dry-run -Werror $(FORMATTED)
	docs/include_graph.py --check
	cmake --preset clang
	run-clang-tidy -quiet -j $(JOBS) -p build/clang -checks='-*,clang-diagnostic-*,modernize-use-override' '/src/'
	cmake -B build/lint -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	run-clang-tidy -quiet -j $(JOBS) -p build/lint '/(src|apps|Unity)/'

# The public headers as pages: build/docs/html/index.html.
docs: PACKAGES := doxygen
docs: packages
	mkdir -p build/docs
	doxygen docs/Doxyfile

# Only what is missing, so that a second run needs neither the network nor root.
packages:
	@missing=""; for p in $(PACKAGES); do \
	  dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  echo "installing$$missing"; \
	  $(SUDO) apt-get update && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; fi
