# Weir: `make demo` shows it, `make test` tests it, `make help` lists the rest.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Everything that is built or installed beside the sources goes here; `make clean` removes it.
WEIR_HOME ?= $(CURDIR)/.weir
export WEIR_HOME
VENVS := $(WEIR_HOME)/venvs
UV := $(VENVS)/uv/bin/uv
UV_VERSION := 0.13.8
PYTHON := $(VENVS)/stack/bin/python
WEIR := stack/bin/weir
SAY = @printf '▸ %s\n'

AGENT := capture/target/release/weir-probe
JOBS := flink-jobs/target/weir-flink-jobs.jar
KAFKA := $(WEIR_HOME)/kafka/.stamp

## The two commands ---------------------------------------------------------------------------------------------------

demo: build ## The whole path with live traffic, on one screen (PCAP=file, IFACE=eth0, ONCE=1)
	$(WEIR) demo $(if $(PCAP),--pcap '$(PCAP)') $(if $(IFACE),--iface '$(IFACE)') $(if $(ONCE),--once)

test: setup-tests ## Every test: linters, units, integration, end to end
	$(MAKE) build
	$(MAKE) lint test-capture test-flink-jobs test-clickhouse test-stack test-superset test-end-to-end
	$(SAY) 'all tests passed'

## Building -----------------------------------------------------------------------------------------------------------

build: setup $(AGENT) $(KAFKA) $(JOBS) venv-stack venv-clickhouse venv-superset ## Build everything

setup:
	@stack/setup.sh
setup-tests:
	@stack/setup.sh --tests

$(AGENT): $(shell find capture/src capture/ndpi capture/build.rs capture/Cargo.toml capture/Cargo.lock capture/filters.default.toml capture/weir-probe.example.toml -type f 2>/dev/null) $(wildcard schemas/*.proto)
	$(SAY) 'building the agent (Rust; some minutes the first time)'
	cd capture && cargo build --release --locked --quiet
	@touch $@

$(JOBS): $(shell find flink-jobs/src flink-jobs/pom.xml -type f 2>/dev/null) $(wildcard schemas/*.proto)
	$(SAY) 'building the jobs (Java)'
	cd flink-jobs && mvn -q -B package -DskipTests
	@touch $@

$(KAFKA): stack/kafka/pom.xml
	$(SAY) 'fetching Kafka'
	mvn -q -B -f stack/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(WEIR_HOME)/kafka
	@touch $@

$(UV):
	$(SAY) 'making Python environments'
	@python3 -m venv $(VENVS)/uv
	@$(VENVS)/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# One virtual environment for each Python part: their libraries do not agree with each other.
venv-stack: $(VENVS)/stack/.stamp ## Python environment of stack/ and of the tests
venv-clickhouse: $(VENVS)/clickhouse/.stamp ## Python environment of clickhouse/embedded
venv-superset: $(VENVS)/superset/.stamp ## Python environment of superset/

$(VENVS)/stack/.stamp: stack/requirements.txt | $(UV)
$(VENVS)/clickhouse/.stamp: clickhouse/embedded/requirements.txt | $(UV)
$(VENVS)/superset/.stamp: superset/requirements.txt | $(UV)
$(VENVS)/%/.stamp:
	$(SAY) 'installing the libraries of $*'
	@$(UV) venv --quiet --allow-existing --python 3.11 $(VENVS)/$*
	@VIRTUAL_ENV=$(VENVS)/$* $(UV) pip sync --quiet $<
	@touch $@

lock: | $(UV) ## Pin the Python libraries anew, from each requirements.in
	for part in stack clickhouse/embedded superset; do \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes $$part/requirements.in -o $$part/requirements.txt || exit 1; done

clean: ## Remove what was built and the demo's data
	-$(WEIR) down
	rm -rf $(WEIR_HOME) capture/target flink-jobs/target

## Testing ------------------------------------------------------------------------------------------------------------

lint: $(VENVS)/stack/.stamp $(VENVS)/clickhouse/.stamp ## Formatters, linters, type checkers
	$(SAY) 'linting'
	@cd capture && cargo fmt --check && cargo clippy --quiet --locked --release --all-targets -- -D warnings
	@cd capture && cargo check --quiet --locked --manifest-path fuzz/Cargo.toml --lib --bins --target-dir target
	@$(VENVS)/stack/bin/ruff check --quiet stack tests docs clickhouse superset
	@$(VENVS)/stack/bin/ruff format --quiet --check stack tests docs superset
	@cd stack && $(VENVS)/stack/bin/mypy --no-error-summary weir ../tests
	@cd superset && $(VENVS)/stack/bin/mypy --no-error-summary *.py tests/*.py
	@cd clickhouse && $(VENVS)/clickhouse/bin/mypy --no-error-summary

test-capture: ## The agent's tests
	$(SAY) 'testing capture'
	cd capture && cargo test --release --locked --quiet

test-flink-jobs: ## The jobs' tests
	$(SAY) 'testing flink-jobs'
	cd flink-jobs && mvn -q -B verify

test-clickhouse: venv-clickhouse ## The store's tests (WEIR_CLICKHOUSE_URL: against that server)
	$(SAY) 'testing clickhouse'
	cd clickhouse && $(VENVS)/clickhouse/bin/python -m pytest -q

test-stack: venv-stack
	$(SAY) 'testing stack'
	cd stack && $(PYTHON) -m pytest -q tests

test-superset: venv-superset venv-stack
	$(SAY) 'testing superset'
	$(PYTHON) -m pytest -q superset/tests

test-end-to-end: build ## What crosses parts: the whole path, faults, the browser
	$(SAY) 'testing end to end'
	cd tests && $(PYTHON) -m pytest -q .

bench-pipeline: build ## Records per second from Kafka to stored rows (RECORDS=20000000)
	PYTHONPATH=stack $(PYTHON) tests/bench_pipeline.py --records $(or $(RECORDS),10000000)

bench-flink: build ## Records per second of each job and of all together, from Kafka to a sink that counts (RECORDS=8000000)
	cd tests && PYTHONPATH=../stack $(PYTHON) bench_flink.py $(if $(RECORDS),--records $(RECORDS)) $(if $(ONLY),--only '$(ONLY)')

bench-capture: $(AGENT) venv-stack ## The agent beside its peers: speed, memory, live loads (ONLY=new_flows, QUICK=1)
	PYTHONPATH=stack $(PYTHON) tests/bench_capture.py $(if $(ONLY),--only '$(ONLY)') $(if $(QUICK),--quick)

bench-collect: $(AGENT) venv-stack ## What the collector costs a record, beside goflow2, nfcapd and nfacctd (ARGS='--quick --only ipfix')
	PYTHONPATH=stack $(PYTHON) tests/bench_collect.py $(ARGS)

bench-store: build ## What the store costs: octets of a record, inserts, questions over years (ARGS='--quick')
	cd tests && PYTHONPATH=../stack $(PYTHON) bench_store.py $(ARGS)

check-captures: build ## Every public capture through the agent, held against tshark
	cd tests && PYTHONPATH=../stack $(PYTHON) check_captures.py

check-peers: build ## What the agent exports, as nfcapd, nfacctd, goflow2 and tshark read it; what others export, as we do
	PYTHONPATH=stack $(PYTHON) tests/check_peers.py

check-exports: build ## Exports of NetFlow, IPFIX and sFlow within captures, held against tshark (CAPTURES='files')
	cd tests && PYTHONPATH=../stack $(PYTHON) check_exports.py $(CAPTURES)

check-tcp: build ## Round trips, retransmissions, out-of-order segments against tshark (CAPTURES='files or folders')
	cd tests && PYTHONPATH=../stack $(PYTHON) compare_tcp.py $(CAPTURES)

check-applications: build ## Applications of flows against ndpiReader (CAPTURES='files or folders')
	cd tests && PYTHONPATH=../stack $(PYTHON) compare_ndpi.py $(CAPTURES)

fuzz: ## Fuzz the agent's parsers, readers and fragment cache (MINUTES=20 for each target)
	capture/fuzz/run.sh

docs: build ## Write docs/reference anew
	$(PYTHON) docs/generate.py

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s $$'\t'

.PHONY: demo test build setup setup-tests clean docs help lint lock venv-stack venv-clickhouse venv-superset \
  bench-capture bench-collect bench-flink bench-pipeline bench-store check-captures check-exports check-peers check-tcp check-applications fuzz test-capture test-flink-jobs test-clickhouse test-stack test-superset test-end-to-end
