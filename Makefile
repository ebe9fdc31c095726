# make demo   install, build and run the main job on real input
# make test   install, build and run all tests
# make build  install and build only
# make lint   ruff, mypy, clang-format
# make opinfo sweep upstream's op database; write the record of native ops and docs/opinfo_status.md
# make models run small forms of well-known architectures; write docs/models.md
# make clean  remove what was built (not .venv)
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check -q

.PHONY: demo test test-cpp test-sanitize build lint docs opinfo opinfo-fallback models bench bench-ops clean

$(VENV)/base.stamp: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements.txt
	touch $@

$(VENV)/demo.stamp: $(VENV)/base.stamp requirements-demo.txt
	$(PIP) install -r requirements-demo.txt
	touch $@

$(VENV)/lint.stamp: $(VENV)/base.stamp requirements-lint.txt
	$(PIP) install -r requirements-lint.txt
	touch $@

# The package is installed editable once; later builds only run ninja.
$(VENV)/package.stamp: $(VENV)/base.stamp setup.py pyproject.toml
	$(PIP) install --no-build-isolation --no-deps -e .
	touch $@

build: $(VENV)/package.stamp
	$(PY) tools/build.py sim runtime ext

demo: build $(VENV)/demo.stamp
	$(PY) examples/quickstart.py

test: build $(VENV)/demo.stamp test-cpp test-sanitize
	$(PY) -m pytest test -q -n 2 --dist worksteal

test-cpp: build
	$(PY) tools/build.py tests
	$(PY) tools/run_cpp_tests.py release

test-sanitize: $(VENV)/base.stamp
	$(PY) tools/build.py tests --config asan
	$(PY) tools/run_cpp_tests.py asan

lint: $(VENV)/lint.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	git ls-files '*.h' '*.cpp' '*.c' | xargs $(VENV)/bin/clang-format --dry-run -Werror

docs: build
	$(PY) -m tools.codegen.docs
	$(PY) -m tools.codegen.code_size

opinfo: build
	$(PY) tools/opinfo_sweep.py --write

# With the fallback allowed nothing may differ from the CPU, and nothing may crash.
opinfo-fallback: build
	$(PY) tools/opinfo_sweep.py --fallback

models: build $(VENV)/demo.stamp
	$(PY) tools/model_table.py --write

bench: build
	$(PY) -m benchmarks.run

bench-ops: build
	$(PY) -m benchmarks.ops --write-docs

clean:
	rm -rf build torch_atalla/lib torch_atalla/include torch_atalla/_generated torch_atalla/*.so *.egg-info
