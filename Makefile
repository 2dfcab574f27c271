# Hookwright. `make demo` and `make test` work on a fresh machine with Python 3.11 to 3.14 and Go.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach candidate,python3.14 python3.13 python3.12 python3.11 python3,$(shell command -v $(candidate) >/dev/null 2>&1 && $(candidate) -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $(candidate))))
BIN := .venv/bin

NODE ?= ../shared/node
VERSION := $(shell sed -n 's/^appVersion: //p' charts/hookwright/Chart.yaml)
IMAGE ?= hookwright:$(VERSION)

# Each start of a process would compile all modules again: 0.7 s of CPU for each operator.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo up test test-all slow again oldest unit chaos e2e e2e-kind e2e-node check types rules generated site bench crds docs chart image cli release htmx screenshots lock

help: ## show these targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 8

demo: .venv/ready ## run the main story and check each step, then stay up until Ctrl-C (ONCE=1: exit after the story)
	@$(BIN)/python -m hookwright_dev demo $(if $(ONCE),--once)

up: .venv/ready ## start the same without the story
	@$(BIN)/python -m hookwright_dev up

PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

test: .venv/ready ## run the tests of every promise on a real control plane, in ten minutes on two cores
	$(BIN)/pytest -m "not slow" $(PARALLEL) $(ARGS)

test-all: slow oldest ## run the rest: the slow tests, and the tests of the cluster on the oldest Kubernetes

slow: .venv/ready ## run the slow tests: both databases, long stories, pages, clients, chart
	$(BIN)/pytest -m slow $(PARALLEL) $(ARGS)

again: .venv/ready ## run the tests that failed last time once more, one after the other
	$(BIN)/pytest --last-failed --last-failed-no-failures none $(ARGS)

oldest: .venv/ready ## run the tests of the cluster on the oldest supported version of Kubernetes
	HOOKWRIGHT_KUBERNETES=oldest $(BIN)/pytest tests/cluster --ignore=tests/cluster/test_control_plane.py $(PARALLEL) $(ARGS)

unit: .venv/ready ## run the tests that need no other process, in under 30 s
	$(BIN)/pytest tests/unit $(PARALLEL) $(ARGS)

chaos: .venv/ready ## run the long chaos tests: 70 kills, database failovers, API server outages (about 18 min)
	HOOKWRIGHT_CHAOS=long $(BIN)/pytest tests/chaos $(ARGS)

e2e: .venv/ready ## run the end-to-end suite on the cluster of HOOKWRIGHT_TEST_KUBECONFIG, with HOOKWRIGHT_TEST_IMAGE
	$(BIN)/pytest tests/e2e $(ARGS)

e2e-kind: .venv/ready ## run it on a new kind cluster that is deleted afterwards; needs Docker
	@$(BIN)/python -m hookwright_dev.e2e kind $(ARGS)

e2e-node: .venv/ready ## run it on a node of this machine, started by the commands in NODE=../shared/node; needs root
	@$(BIN)/python -m hookwright_dev.e2e node --commands $(NODE) $(ARGS)

check: .venv/ready ## check format, lint, types, import arrows, limits of packages, generated files
	@$(MAKE) --no-print-directory --jobs 2 types rules

# mypy uses one core, so the other checks run beside it.
types:
	$(BIN)/mypy

rules:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m hookwright_dev.house_limits
	@$(MAKE) --no-print-directory generated site
	$(BIN)/python -m hookwright_dev.plain_english

generated: .venv/ready ## check that the generated files agree with the code
	$(BIN)/python -m hookwright_crds --check
	$(BIN)/python -m hookwright_dev.reference --check

site: .venv/ready ## build the documentation in build/site; each link and anchor must lead somewhere
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: .venv/ready ## measure throughput, latency and cost, as shares of the loader's own ceiling
	@$(BIN)/python -m hookwright_dev.bench $(ARGS)

crds: .venv/ready ## write crds/*.yaml from the models
	$(BIN)/python -m hookwright_crds

chart: .venv/ready ## render the chart into tests/chart/golden, which tests read instead of running helm
	@mkdir -p tests/chart/golden
	@PYTHONPATH=tests $(BIN)/python -m support.chart_rendering

docs: .venv/ready ## write the references in docs/ and the chart's generated files from the code
	$(BIN)/python -m hookwright_dev.reference
	@$(MAKE) --no-print-directory chart

image: ## build the image with Docker (IMAGE=registry.example.com/hookwright:0.1.0)
	docker build -t $(IMAGE) --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) .

cli: .venv/ready ## build the command line into dist/: the wheel and the single-file program
	@$(BIN)/python -m hookwright_dev.command_artefacts

release: .venv/ready ## write the files of a release into dist/release; needs IMAGE_REPOSITORY and CHART_REPOSITORY
	@$(BIN)/python -m hookwright_dev.release files

htmx: .venv/ready ## copy the files of htmx from the npm package that dev/node pins
	$(BIN)/python -m hookwright_dev.node_packages

screenshots: .venv/ready ## make the screenshots of docs/screenshots from the real pages of the console
	@HOOKWRIGHT_DEV_FOLDER=$(CURDIR)/build/screenshots $(BIN)/python -m hookwright_dev.screenshots

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: .venv/ready ## resolve the three locks from pyproject.toml: development, image, build
	$(LOCK) --extra dev --upgrade pyproject.toml -o requirements.lock
	$(LOCK) --extra traces -c requirements.lock pyproject.toml cli/pyproject.toml -o requirements-runtime.lock
	sed -nE 's/^requires = \["(.*)"\]/\1/p' pyproject.toml | $(LOCK) -c requirements.lock - -o requirements-build.lock

.venv/ready: requirements.lock pyproject.toml cli/pyproject.toml
	@test -n "$(PYTHON)" || { echo "Hookwright needs Python 3.11 to 3.14 with the venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@echo "installing into .venv (once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e cli
	@touch $@
