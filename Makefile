# Every target sets up what it needs and is quick when nothing changed. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := requirements/constraints.txt
PROJECTS := pyproject.toml $(wildcard plugins/*/pyproject.toml)
# Extra arguments: make test ARGS="-k planner", make bench ARGS="failover".
ARGS ?=
# The control plane that tests and benchmarks start, built once.
WITH_BINARIES = KUBEBUILDER_ASSETS="$$($(BIN)/python tests/controlplane/binaries.py | tail -n 1)"
# One or more scenarios of the benchmarks: make bench SCENARIO="failover start".
SCENARIO ?=
# Where it is set, each process that a test or a benchmark starts would compile our 130 modules anew, 0.15 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-isolated fuzz soak check bench controlplane crds manifests docs constraints clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## .venv with everything, .venv/bin/flipop

# uv, itself pinned by hash, installs the rest from the same constraints.
$(VENV)/.ready: $(CONSTRAINTS) $(PROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit("flipop needs Python 3.11 or newer, not " + sys.version.split()[0] + ": make PYTHON=python3.12") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv --clear $(VENV)
	@awk '/^[a-zA-Z]/ {keep = /^uv==/} keep' $(CONSTRAINTS) > $(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $(VENV)/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r $(CONSTRAINTS)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(foreach p,$(PROJECTS),-e ./$(dir $(p)))
	$(BIN)/python -m compileall -q flipop_core plugins
	@touch $@

demo: setup ## watch floating IPs follow healthy nodes, in this terminal
	$(BIN)/flipop demo $(ARGS)

# Four tests at a time on two cores keep some of them waiting longer than an operator's promise allows. What fails is
# run again with the machine to itself, and printed both times; what fails then fails the target.
test: setup ## all tests, against a real kube-apiserver and etcd
	@$(BIN)/python -m tests.tools.prepare
	$(WITH_BINARIES) $(BIN)/pytest -n $$((2 * $$(getconf _NPROCESSORS_ONLN))) --dist loadfile --no-loadscope-reorder $(ARGS) || { \
	  test $$? -eq 1 && echo "What failed in the crowd, once more and alone:" && $(WITH_BINARIES) $(BIN)/pytest --last-failed --last-failed-no-failures none $(ARGS); }

test-isolated: setup ## each distribution's own tests from its wheel, with the lowest and the highest dependencies
	$(WITH_BINARIES) $(BIN)/python -m tests.packaging.isolated $(ARGS)

# How often each fault is injected by `make soak`, and for how many seconds what is frozen stays so.
SOAK_RUNS ?= 10
SOAK_SECONDS ?= 60

# For how many seconds `make fuzz` looks for inputs that crash a parser.
FUZZ_SECONDS ?= 300

fuzz: setup ## coverage-guided fuzzing of the parsers, and many random hostile answers
	$(BIN)/python -m tests.fuzz.atheris_parsers -max_total_time=$(FUZZ_SECONDS) -timeout=10
	FLIPOP_HYPOTHESIS_PROFILE=soak $(BIN)/pytest --timeout=0 $(ARGS) tests/fuzz

soak: setup ## long random histories, and every fault SOAK_RUNS times; takes hours
	FLIPOP_HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n auto --timeout=0 $(ARGS) tests/plan
	rm -f $(VENV)/faults.jsonl
	$(WITH_BINARIES) FLIPOP_FAULT_RUNS=$(SOAK_RUNS) \
	  FLIPOP_FAULT_SECONDS=$(SOAK_SECONDS) FLIPOP_FAULT_REPORT=$(VENV)/faults.jsonl $(BIN)/pytest --timeout=0 $(ARGS) tests/faults
	@$(BIN)/python -m tests.faults.report $(VENV)/faults.jsonl

check: setup ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## the benchmarks, as ratios and medians
	$(WITH_BINARIES) $(BIN)/python -m benchmarks $(SCENARIO) $(ARGS)

controlplane: setup ## build or find etcd and kube-apiserver; their directory is the last line
	@$(BIN)/python tests/controlplane/binaries.py

docs: setup ## write what of docs/ is made from the code, and build the site into build/site
	$(BIN)/python -m flipop_core.cli.reference docs
	$(BIN)/python -m flipop_core.runtime.metricsdoc docs/metrics.md
	$(BIN)/python -m flipop_core.testing.reference docs
	$(BIN)/python -m tests.docs.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

manifests: crds ## write deploy/ and the chart's copies from the resource types and the chart (builds helm once)
	$(BIN)/python -m tests.tools.manifests

crds: setup ## write deploy/crds from the resource types
	$(BIN)/flipop crds --output-dir deploy/crds
	$(BIN)/flipop crds > deploy/crds.yaml

constraints: setup ## resolve the newest versions into requirements/constraints.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-package flipop-core --no-emit-package flipop-do --no-emit-package flipop-cloudflare --no-emit-package flipop-aws \
	  $(PROJECTS) requirements/build.in --group dev -o $(CONSTRAINTS) > /dev/null
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  requirements/packaging.in -o requirements/packaging.txt > /dev/null
	@# The lowest versions of what the distributions need, with the test tools of the constraints.
	sed -nE 's/^((cryptography|hypothesis|jsonschema-path|openapi-core|pytest|pytest-timeout|werkzeug)==[^ ]+).*/\1/p; s/^moto(==[^ ]+).*/moto[ec2,route53,server]\1/p' \
	  $(CONSTRAINTS) | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --resolution lowest-direct --generate-hashes \
	  --no-header --no-annotate --no-emit-package flipop-core --no-emit-package flipop-do --no-emit-package flipop-cloudflare \
	  --no-emit-package flipop-aws $(PROJECTS) - -o requirements/lowest.txt > /dev/null

clean: ## remove what the other targets made in this tree
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
