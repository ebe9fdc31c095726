# make demo   install, build and run the demo
# make wheel  build a wheel and an sdist into dist/ and test both in new environments; PYTHON=python3.12 for another Python,
#             ALSO_TORCH=2.15.0 for a wheel that has the extension for that torch as well
# make newcomer   the wheel in a new environment: demo, and the scripts of all tutorials
# make test   install, build and run all tests; TORCH=2.15.0 for another torch, in an environment of its own
# make build  install and build only
# make test-python PYTHON=python3.13   build for another Python, in an environment of its own, and run a part of the tests
# make test-slow   run the op tests in all dtypes, and the tests that upstream's suites would call slow
# make test-isas   build the kernels for all instruction sets and compare them
# make soak   run the driver's tests and its long soak under TSan and ASan
# make test-launch-modes   run the tests of streams and memory with all work queued, and with all work inline
# make check  what CI runs: lint, the site, tests, tests under sanitizers, three minutes of random programs
# make bench-compare   what HEAD, or NEW=<commit>, made slower than BASE=<commit>: builds both, and pairs their runs
# make instructions   count the instructions of the hot paths under callgrind; fails if one grew by more than 2 %
# make fuzz   random programs through every path, sequences of calls, cycles of launches, and changed files through the loader
# make lint   ruff, mypy, import-linter, the layout of the sources, prose (needs Node.js 20), clang-format
# make opinfo sweep upstream's op database; write the record of native ops and docs/reference/opinfo_status.md
# make validate  compare both engines with SCALE-Sim; write docs/reference/validation.md
# make test-ecosystem   install other libraries (requirements-ecosystem.txt), run their examples and the tests with them
# make conformance  run upstream's test files in the folder ATALLA_UPSTREAM_TESTS; write docs/reference/conformance.md
# make triton-conformance  run Triton's test file ATALLA_TRITON_TESTS; write docs/guides/triton-conformance.md
# make models run small forms of well-known architectures; write docs/reference/models.md
# make architectures  run all architectures of transformers as loadables; write docs/reference/architectures.md
# make libraries   run the examples of other libraries; write docs/reference/libraries.md
# make site   build the documentation site in build/site; needs doxygen (apt-get install doxygen)
# make clean  remove what was built (not .venv)
PYTHON ?= python3
# Kernels for this machine's instruction set only, which takes a third of the time. Wheels (`make wheel`) have all.
# A checkout that was never built takes the compiled files of a wheel in dist/ that was made from the same sources.
export ATALLA_HOST_ISA_ONLY ?= 1
# Python compiles modules when they are imported. pip would spend 15 seconds on compiling all of PyTorch.
export PIP_NO_COMPILE ?= 1
# TORCH=<version>: every goal then uses build/venv-<version>, which has that torch.
TORCH  ?=
VENV   := $(if $(TORCH),build/venv-$(TORCH),.venv)
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check -q

.PHONY: demo environment wheel newcomer test test-python check site-if-possible scalesim fuzz fuzz-graphs fuzz-states fuzz-clock fuzz-loader fuzz-short test-cpp test-sanitize coverage test-slow test-ecosystem test-isas test-launch-modes soak build lint docs site opinfo opinfo-fallback conformance triton-conformance models architectures libraries validate bench bench-compare instructions bench-isa bench-ops bench-compile clean

# The lists of packages that $(VENV) uses: with TORCH, they name that torch instead of the pinned one.
$(VENV)/%.txt: %.txt
	@mkdir -p $(@D)
	sed '$(if $(TORCH),s/^torch==.*/torch==$(TORCH)/)' $< > $@

$(VENV)/base.stamp: $(VENV)/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -r $<
	touch $@

$(VENV)/demo.stamp: $(VENV)/base.stamp $(VENV)/requirements-demo.txt
	$(PIP) install -r $(VENV)/requirements-demo.txt
	touch $@

$(VENV)/extras.stamp: $(VENV)/base.stamp requirements-viewers.txt requirements-explore.txt requirements-triton.txt
	$(PIP) install --no-deps -r requirements-viewers.txt -r requirements-triton.txt
	$(PIP) install -r requirements-explore.txt
	touch $@

$(VENV)/ecosystem.stamp: $(VENV)/demo.stamp requirements-ecosystem.txt
	$(PIP) install --no-deps -r requirements-ecosystem.txt
	touch $@

$(VENV)/lint.stamp: $(VENV)/base.stamp requirements-lint.txt
	$(PIP) install -r requirements-lint.txt
	touch $@

$(VENV)/site.stamp: $(VENV)/base.stamp requirements-site.txt
	$(PIP) install -r requirements-site.txt
	touch $@

build/prose/installed.stamp: tools/prose/package.json
	@command -v npm > /dev/null || { echo "make lint: npm is missing; apt-get install npm (Node.js 20 or newer)"; exit 1; }
	mkdir -p $(@D) && cp $< $(@D)
	npm install --prefix $(@D) --no-audit --no-fund --loglevel error
	touch $@

# The package is installed editable once; later builds only run ninja.
$(VENV)/package.stamp: $(VENV)/base.stamp setup.py pyproject.toml
	$(PIP) install --no-build-isolation --no-deps -e .
	touch $@

build: $(VENV)/package.stamp
	$(PY) tools/build.py sim runtime ext

demo: build
	$(PY) -m torch_atalla demo -o build/demo

$(VENV)/wheel.stamp: $(VENV)/base.stamp $(VENV)/requirements-wheel.txt
	$(PIP) install -r $(VENV)/requirements-wheel.txt
	touch $@

environment: $(VENV)/base.stamp

wheel: $(VENV)/wheel.stamp
	$(foreach torch,$(ALSO_TORCH),$(MAKE) TORCH=$(torch) VENV=build/venv-$(torch) environment &&) true
	$(PY) tools/wheel.py $(foreach torch,$(ALSO_TORCH),--also build/venv-$(torch)/bin/python)
	$(PY) tools/smoke_test.py
	$(PY) tools/smoke_test.py --sdist

newcomer: $(VENV)/base.stamp
	$(PY) tools/smoke_test.py --tutorials

test: build $(VENV)/demo.stamp $(VENV)/extras.stamp test-cpp
	$(PY) -m pytest test -q -n 2 --dist worksteal

# The Python that runs the other goals has run all tests.
OTHER = build/venv-$(notdir $(PYTHON))
test-python:
	$(MAKE) VENV=$(OTHER) build $(OTHER)/demo.stamp
	$(OTHER)/bin/python -m torch_atalla doctor
	$(OTHER)/bin/python -m pytest test/device test/autograd $(wildcard test/compiler/test_loadable*.py) -q -n 2
	$(OTHER)/bin/python -m pytest test/ops -k "add or matmul or softmax" -q -n 2

test-cpp: build
	$(PY) tools/build.py tests
	$(PY) tools/run_cpp_tests.py release

test-sanitize: $(VENV)/base.stamp
	$(PY) tools/build.py tests --config asan
	$(PY) tools/run_cpp_tests.py asan

# Lines of csrc that the C++ tests reach. COVERAGE="--write FILE" keeps them, "--against FILE" names those that were lost.
coverage: $(VENV)/base.stamp
	$(PY) -m tools.coverage $(COVERAGE)

SLOW_TESTS = test/ops/test_compiled_ops.py test/autograd/test_op_gradients.py $(shell grep -rlE "@slowTest|drawn_samples" test --include="test_*.py")
test-slow: build
	PYTORCH_TEST_WITH_SLOW=1 $(PY) -m pytest $(SLOW_TESTS) -q -n 2 --dist worksteal

test-isas: export ATALLA_HOST_ISA_ONLY = 0
test-isas: build
	$(PY) -m pytest test/device/test_instruction_sets.py -q

# `make test` skips what needs these libraries, unless they are installed.
test-ecosystem: build $(VENV)/ecosystem.stamp
	$(PY) -m pytest test/ecosystem test/quantization -q -n 2 --dist worksteal

# Results must not depend on which thread submits the work (docs/concepts/driver.md). Only the order of waits may differ.
MODE_TESTS = $(wildcard $(foreach n,accelerator autograd_features device device_module events fallback graph graph_training \
  loadable loadable_state memory memory_pools memory_settings memory_snapshot optimizers pinned_memory profiler random storage \
  streams,test/*/test_$(n).py))
test-launch-modes: build
	ATALLA_LAUNCH=queued $(PY) -m pytest $(MODE_TESTS) -q -n 2 --dist worksteal
	ATALLA_LAUNCH=inline $(PY) -m pytest $(MODE_TESTS) -q -n 2 --dist worksteal

# 8 threads x 4 streams x 10,000 steps, and 6 threads x 400 programs with Atalla code, under the thread and the address
# sanitizer.
soak: $(VENV)/base.stamp
	$(PY) tools/build.py tests --config tsan
	$(PY) tools/run_cpp_tests.py tsan test_driver_
	ATALLA_SOAK=10000 $(PY) tools/run_cpp_tests.py tsan test_driver_soak
	ATALLA_SOAK=400 $(PY) tools/run_cpp_tests.py tsan test_loadable_code_soak
	$(PY) tools/build.py tests --config asan
	ATALLA_SOAK=10000 $(PY) tools/run_cpp_tests.py asan test_driver_soak
	ATALLA_SOAK=400 $(PY) tools/run_cpp_tests.py asan test_loadable_code_soak

check: lint site-if-possible scalesim test instructions test-sanitize fuzz-short

site-if-possible: build
	@if command -v doxygen > /dev/null; then $(MAKE) site; else echo "no doxygen: the site was not built"; fi

# For test/isa/test_validation.py, which is skipped without it.
scalesim: build
	-$(PY) -m benchmarks.validation.scalesim_runner

# Random programs: the number, not the time, so that every machine runs the same ones (about seven minutes on two cores).
# The loader's fuzzer needs clang.
fuzz-short: build
	$(PY) -W ignore -m tools.fuzz_graphs --count 500 --no-shrink
	$(PY) -W ignore -m tools.state_fuzz --count 60
	@if command -v clang++ clang++-14 > /dev/null; then $(PY) tools/fuzz.py --jobs 2 --runs 20000; \
	  else echo "no clang++: the loader was not fuzzed"; fi

fuzz: fuzz-graphs fuzz-states fuzz-clock fuzz-loader

# GRAPHS="--seed 7 --count 1000" for other programs.
GRAPHS ?= --count 30000
fuzz-graphs: build
	$(PY) -W ignore -m tools.fuzz_graphs $(GRAPHS)

# STATES="--start 20000 --count 1000" for other sequences.
STATES ?= --count 10000
fuzz-states: build
	$(PY) -W ignore -m tools.state_fuzz $(STATES)

# What the device reports for random launches against executed code. CLOCK="--seed 7 --launches 1000" for other launches.
CLOCK ?= --calls 0 --launches 10000
fuzz-clock: build
	$(PY) -W ignore -m tools.clock_sweep $(CLOCK)

# 10 million executions of the loader on changed files, guided by coverage, under the address and undefined sanitizers.
# FUZZ="--seconds 60" for a short run.
fuzz-loader: build
	$(PY) tools/fuzz.py --jobs 2 $(FUZZ)

lint: $(VENV)/lint.stamp build/prose/installed.stamp
	$(PY) -m tools.codegen.c_abi
	$(PY) -m tools.codegen.loadable_records
	$(PY) -m tools.codegen.tile.python
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) tools/check_layout.py
	$(PY) tools/prose/lint.py
	git ls-files '*.h' '*.cpp' '*.c' | xargs $(VENV)/bin/clang-format --dry-run -Werror

docs: build
	$(PY) -m tools.pages
	$(PY) -m tools.codegen.tutorial

# The pages of docs/, the API from docstrings and headers, and the examples: build/site/index.html.
site: build $(VENV)/site.stamp
	@command -v doxygen > /dev/null || { echo "make site: doxygen is missing; apt-get install doxygen"; exit 1; }
	rm -rf build/site build/api build/gallery build/doxygen
	doxygen docs/Doxyfile
	$(PY) -m sphinx -q -W --keep-going -c docs -d build/site-cache . build/site
	@test -f build/site/docs/index.html || { echo "make site: an example ended the build"; exit 1; }

opinfo: build
	$(PY) tools/opinfo_sweep.py --write

# With the fallback allowed, no result may differ from the CPU's, and no op may crash.
opinfo-fallback: build
	$(PY) tools/opinfo_sweep.py --fallback

# ATALLA_UPSTREAM_TESTS: the folder `test` of a source tree of PyTorch. CONFORMANCE=nn/test_pooling.py runs one suite.
conformance: build
	$(PY) -m tools.conformance $(or $(CONFORMANCE),--write)

# ATALLA_TRITON_TESTS: python/test/unit/language/test_core.py of a source tree of Triton.
triton-conformance: build
	$(PY) -m tools.conformance.triton --write

models: build $(VENV)/demo.stamp
	$(PY) -m tools.model_tables eager code --write

# Two hours on two cores; results are kept in build/architectures, and another run continues.
architectures: build $(VENV)/demo.stamp
	$(PY) tools/architecture_table.py --write

libraries: build $(VENV)/ecosystem.stamp
	$(PY) tools/library_table.py --write

# Half an hour the first time; SCALE-Sim's results are kept in build/scalesim.
validate: build
	$(PY) -m benchmarks.validate_chip --write-docs

bench: build
	$(PY) -m benchmarks.run

bench-compare: build
	@test -n "$(BASE)" || { echo "make bench-compare: name the commit to compare with, as in BASE=HEAD~1"; exit 1; }
	$(PY) -m benchmarks.comparison $(BASE) $(NEW) $(COMPARE)

instructions: build
	$(PY) -m benchmarks.instructions

bench-isa: build
	$(PY) -m benchmarks.isa

bench-ops: build
	$(PY) -m benchmarks.ops --write-docs

# An hour: each model compiles with empty caches, also by Inductor for the CPU.
bench-compile: build $(VENV)/demo.stamp
	$(PY) -m benchmarks.compile --write-docs

clean:
	rm -rf build torch_atalla/lib torch_atalla/include torch_atalla/_generated torch_atalla/driver/c_abi.py torch_atalla/loadable/file/format.py torch_atalla/compiler/tile/step_types.py torch_atalla/*.so *.egg-info
