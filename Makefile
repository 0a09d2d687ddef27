# Two commands are enough on a fresh machine: `make demo` and `make test`. Both prepare the machine first.

# The environment's own Python once it is there; before that any Python 3.11 or later: make PYTHON=python3.12 …
PYTHON ?= $(shell .venv/bin/python -c '' 2>/dev/null && echo .venv/bin/python || echo python3)
BOOTSTRAP = $(PYTHON) -m scripts.bootstrap
BIN = .venv/bin
# What the bootstrap puts into .aml-train for the tests: Azurite, devcontainer, and Node.js if the machine has none.
WITH_SERVICES = PATH="$(CURDIR)/.aml-train/bin:$$PATH"
# How many tests run side by side; 0: one after the other, in one process.
TEST_WORKERS ?= 3
PYTEST = $(BIN)/pytest -n $(TEST_WORKERS) --max-worker-restart=1
# Options of pytest for every test run: make test PYTEST_ARGS="--durations=30".
PYTEST_ARGS ?=
# What `make test` runs: every test that is not marked `full`; see CONTRIBUTING.md.
CORE = -m "not full"

.DEFAULT_GOAL := help
.PHONY: help demo demo-v1 act-demo test test-all unit integration e2e lint format lock docs emulator-image bench clean

help: ## show this
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## train examples/digits on the local AzureML, end to end; FRESH=1 trains again
	@$(BOOTSTRAP) --for demo
	@$(BIN)/aml-train run -C examples/digits $(if $(filter 1 yes true,$(FRESH)),--fresh)

demo-v1: ## the same with the SDK v1: examples/digits-v1, a run configuration that azureml-core submits; FRESH=1 trains again
	@$(BOOTSTRAP) --for demo-v1
	@PYTHONPATH=runner .aml-train/client-v1/bin/python -m aml_train run -C examples/digits-v1 $(if $(filter 1 yes true,$(FRESH)),--fresh)

act-demo: ## the example's workflow under act: uses: org/aml-train@v1, mapped to this checkout
	@$(BOOTSTRAP) --for demo
	@$(BIN)/python -m scripts.act_demo

# The longest tests with containers are in tests/e2e: they begin first, so that the workers end together.
test: ## lint and unit tests side by side, then the core of the tests with containers
	@$(BOOTSTRAP) --for tests
	@$(MAKE) --no-print-directory -j2 _lint _unit TIER='$(CORE)'
	$(WITH_SERVICES) $(PYTEST) $(CORE) tests/e2e tests/integration $(PYTEST_ARGS)

test-all: ## the same with every test there is: before a release, and each night
	@$(BOOTSTRAP) --for tests
	@$(MAKE) --no-print-directory -j2 _lint _unit AML_TRAIN_ANSWERS=10000 AML_TRAIN_GRAPHS=3000
	$(WITH_SERVICES) $(PYTEST) tests/e2e tests/integration $(PYTEST_ARGS)

unit: ## only the unit tests: no Docker, no sockets
	@$(BOOTSTRAP) --for venv
	@$(MAKE) --no-print-directory _unit

.PHONY: _unit
_unit:
	$(PYTEST) $(TIER) tests/unit $(PYTEST_ARGS)

integration: ## every test with real Docker, registry, Azurite and SDKs
	@$(BOOTSTRAP) --for tests
	$(WITH_SERVICES) $(PYTEST) tests/integration $(PYTEST_ARGS)

e2e: ## every test of the whole command and of the action
	@$(BOOTSTRAP) --for tests
	$(WITH_SERVICES) $(PYTEST) tests/e2e $(PYTEST_ARGS)

lint: ## ruff, mypy, the import contracts
	@$(BOOTSTRAP) --for venv
	@$(MAKE) --no-print-directory _lint

.PHONY: _lint
_lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: ## put the code into its shape
	@$(BOOTSTRAP) --for venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## write requirements/*.txt from pyproject.toml; UPGRADE=1 takes the newest versions
	@$(BOOTSTRAP) --for venv
	$(BIN)/python -m scripts.lock $(if $(filter 1 yes true,$(UPGRADE)),--upgrade)

docs: ## write the generated pages and build the site, every link checked
	@$(BOOTSTRAP) --for venv
	$(BIN)/python -m scripts.docs write
	$(BIN)/python -m scripts.docs build

emulator-image: ## build the local AzureML's image, if its sources changed
	@$(BOOTSTRAP) --for emulator-image

bench: ## measure start-up, runs, images and submissions against plain baselines; BENCHMARKS="startup submit" only these
	@$(BOOTSTRAP) --for bench
	@$(WITH_SERVICES) $(BIN)/python -m benchmarks $(BENCHMARKS)

clean: ## remove what this project made: its containers, volumes, images, .venv, .aml-train
	@$(PYTHON) -m scripts.clean
