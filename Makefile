# Two commands matter: `make demo` and `make test`. Both set up what they need on the first run; see `make help`.

# The python3 that starts the setup; vLLM's own is chosen there.
PYTHON ?= python3
# auto: vLLM for CUDA where nvidia-smi answers, else for CPU. Or say cpu, or cuda.
ENGINE ?= auto
# `make chaos ENGINE=vllm` strikes workers with the real engine; else it is scripted, and quick.
VLLM_BUILD := $(if $(filter scripted vllm,$(ENGINE)),auto,$(ENGINE))
DRILL_ENGINE := $(if $(filter vllm,$(ENGINE)),vllm,scripted)
# How long `make chaos` strikes, and with which seed; none: another every time.
MINUTES ?= 10
SEED ?=
# Which kinds of models `make parity` compares: those with this in their name; none: all.
KIND ?=
# Where `make bench` writes report.json and report.html, and more arguments for it: BENCH="--mix rerank50"
OUT ?= build/bench
BENCH ?= --mix short --mix mid --requests 1000 --one-at-a-time --transformers 32
# More arguments for pytest: make test PYTEST="-k redis -x"
PYTEST ?=

# Images often set it. Each of an engine's processes would then compile torch and vLLM anew: half of every start.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
FAST := not (kafka or redis or vllm)

.DEFAULT_GOAL := help
.PHONY: lock help demo bench test unit parity chaos lint docs kafka kafka-start chart-tools test-chart setup-demo setup-test clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-demo ## watch real requests become real scores, on this machine alone
	@$(BIN)/scorestream demo

bench: setup-demo ## the pipeline beside the engine alone and transformers, on this machine; a report in build/bench
	@$(BIN)/scorestream bench $(BENCH) --out $(OUT)

test: setup-test lint kafka chart-tools ## everything, on real Kafka, Redis and vLLM
	@$(BIN)/python -m pytest --durations=15 $(PYTEST)

unit: setup-test chart-tools ## only the tests that need no Kafka, Redis or engine
	@$(BIN)/python -m pytest -m "$(FAST)" $(PYTEST)

parity: setup-test ## how far every kind of model is from transformers in float32; KIND=Qwen3: those alone
	@$(BIN)/python -m tests.parity $(KIND)

chaos: setup-test kafka ## strike at random for MINUTES=10 under load, then verify (ENGINE=vllm: the real engine)
	@$(BIN)/python -m tests.chaos faults --engine $(DRILL_ENGINE) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lint: setup-test ## ruff, mypy, import-linter, hadolint, generated pages up to date
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy scripts tests/conftest.py tests/services tests/models tests/parity tests/fuzz tests/chaos
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.settings_reference --check
	@$(BIN)/python -m scripts.metrics_reference --check
	@$(BIN)/python -m scripts.errors_reference --check
	@$(BIN)/python -m scripts.chart --check
	@$(BIN)/hadolint Dockerfile

docs: setup-test ## write the references in docs/, the chart's values and the contract's schemas from the models
	@$(BIN)/python -m scripts.settings_reference
	@$(BIN)/python -m scripts.metrics_reference
	@$(BIN)/python -m scripts.errors_reference
	@$(BIN)/python -m scripts.chart
	@$(BIN)/python -m schemas.export

lock: ## write requirements.lock: the newest versions that fit pyproject.toml, for `make` to install with vLLM for CPU
	@$(PYTHON) -m scripts.lock

# Before the tests, so that no test's time limit pays for a download.
kafka: setup-test ## fetch Apache Kafka; prints where its tools are
	@$(BIN)/python -m scripts.kafka home

kafka-start: setup-test ## run one broker on 127.0.0.1:9092 until Ctrl-C, its data in build/kafka
	@$(BIN)/python -m scripts.kafka start

test-chart: setup-test chart-tools ## install, upgrade and remove the chart on a real API server, with Helm 3 and 4 (slow, once)
	@$(BIN)/python -m scripts.go_build helm3 etcd kube-apiserver
	@$(BIN)/python -m pytest tests/chart/installation.py $(PYTEST)

chart-tools: setup-test
	@$(BIN)/python -m scripts.helm >/dev/null
	@$(BIN)/python -m scripts.go_build promtool >/dev/null

setup-demo:
	@$(PYTHON) -m scripts.setup demo --engine $(VLLM_BUILD)

setup-test:
	@$(PYTHON) -m scripts.setup test --engine $(VLLM_BUILD)

clean: ## remove the environment and the caches of this checkout (downloads in ~/.cache stay)
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist .demo *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
