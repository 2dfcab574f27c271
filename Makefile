# Hookwright. `make demo` and `make test` work on a fresh machine with Python 3.11 to 3.13 and Go.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach candidate,python3.13 python3.12 python3.11 python3,$(shell command -v $(candidate) >/dev/null 2>&1 && $(candidate) -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $(candidate))))
BIN := .venv/bin

NODE ?= ../shared/node

.PHONY: help demo up test again oldest unit chaos e2e e2e-kind e2e-node check generated site bench crds docs cli swagger-ui screenshots lock

help: ## show these targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 8

demo: .venv/ready ## run the main story and check each step, then stay up until Ctrl-C (ONCE=1: exit after the story)
	@$(BIN)/python -m hookwright_dev demo $(if $(ONCE),--once)

up: .venv/ready ## start the same without the story
	@$(BIN)/python -m hookwright_dev up

test: .venv/ready ## run every test on a real control plane
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

again: .venv/ready ## run the tests that failed last time once more, one after the other
	$(BIN)/pytest --last-failed --last-failed-no-failures none $(ARGS)

oldest: .venv/ready ## run the tests of the cluster on the oldest supported version of Kubernetes
	HOOKWRIGHT_KUBERNETES=oldest $(BIN)/pytest tests/cluster -n 3 --dist loadfile $(ARGS)

unit: .venv/ready ## run the tests that need no other process, in under 30 s
	$(BIN)/pytest tests/unit -n 3 --dist loadfile $(ARGS)

chaos: .venv/ready ## run the long chaos tests: 70 kills, database failovers, API server outages (about 18 min)
	HOOKWRIGHT_CHAOS=long $(BIN)/pytest tests/chaos $(ARGS)

e2e: .venv/ready ## run the end-to-end suite on the cluster of HOOKWRIGHT_TEST_KUBECONFIG, with HOOKWRIGHT_TEST_IMAGE
	$(BIN)/pytest tests/e2e $(ARGS)

e2e-kind: .venv/ready ## run it on a new kind cluster that is deleted afterwards; needs Docker
	@$(BIN)/python -m hookwright_dev.e2e kind $(ARGS)

e2e-node: .venv/ready ## run it on a node of this machine, started by the commands in NODE=../shared/node; needs root
	@$(BIN)/python -m hookwright_dev.e2e node --commands $(NODE) $(ARGS)

check: .venv/ready ## check format, lint, types, import arrows, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory generated site
	$(BIN)/python -m hookwright_dev.plain_english --max-folder 2.0 --max-total 1.0

generated: .venv/ready ## check that the generated files agree with the code
	$(BIN)/python -m hookwright_crds --check
	$(BIN)/python -m hookwright_dev.reference --check
	$(BIN)/python -m hookwright_api.openapi_export --check docs/openapi.json
	$(BIN)/python -m hookwright_dev.chart --check

site: .venv/ready ## build the documentation in build/site; each link and anchor must lead somewhere
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: .venv/ready ## measure throughput, latency and cost, as shares of the loader's own ceiling
	@$(BIN)/python -m hookwright_dev.bench $(ARGS)

crds: .venv/ready ## write crds/*.yaml from the models
	$(BIN)/python -m hookwright_crds

docs: .venv/ready ## write the references in docs/ and the chart's generated files from the code
	$(BIN)/python -m hookwright_dev.reference
	$(BIN)/python -m hookwright_api.openapi_export docs/openapi.json
	$(BIN)/python -m hookwright_dev.chart --deploy

cli: .venv/ready ## build the command line into dist/: the wheel, the single-file program, the manifest for krew
	@$(BIN)/python -m hookwright_dev.command_artefacts

swagger-ui: .venv/ready ## copy the files of Swagger UI and htmx from the npm packages that dev/node pins
	$(BIN)/python -m hookwright_dev.node_packages

screenshots: .venv/ready ## make the screenshots of docs/screenshots from the real pages of the console
	@HOOKWRIGHT_DEV_FOLDER=$(CURDIR)/build/screenshots $(BIN)/python -m hookwright_dev.screenshots

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: .venv/ready ## resolve the three locks from pyproject.toml: development, image, build
	$(LOCK) --extra dev --upgrade pyproject.toml -o requirements.lock
	$(LOCK) --extra traces -c requirements.lock pyproject.toml -o requirements-runtime.lock
	sed -nE 's/^requires = \["(.*)"\]/\1/p' pyproject.toml | $(LOCK) -c requirements.lock - -o requirements-build.lock

.venv/ready: requirements.lock pyproject.toml cli/pyproject.toml
	@test -n "$(PYTHON)" || { echo "Hookwright needs Python 3.11, 3.12 or 3.13 with the venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@echo "installing into .venv (once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e cli
	@touch $@
