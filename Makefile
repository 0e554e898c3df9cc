# Weir: `make demo` demonstrates Weir, `make test` tests it, and `make help` lists the other targets.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Every path below is relative to the current folder.
ifeq ($(shell [ "$(lastword $(MAKEFILE_LIST))" -ef Makefile ] && echo here),)
$(error run make in the folder of its Makefile: make -C)
endif

# Everything built or installed beside the sources is in .weir, a relative path because make splits absolute paths at
# spaces. $WEIR_HOME is where a stack keeps its data, .weir too unless it is set.
VENVS := .weir/venvs
export WEIR_VENVS := $(CURDIR)/$(VENVS)
export WEIR_KAFKA_JARS := $(CURDIR)/.weir/kafka
# Java and Maven name files by the locale.
export LC_ALL := C.UTF-8
# Behind a proxy whose authority is the system's.
export UV_SYSTEM_CERTS := 1
UV := $(VENVS)/uv/bin/uv
PYTHON := $(VENVS)/stack/bin/python
# With the peers that `setup.sh --tests` installs, and Debian's in /usr/sbin.
TESTS := PATH="$$PATH:/usr/sbin:/sbin:$(CURDIR)/.weir/peers/bin" PYTHONPATH=stack:tests:tests/lib:tests/peers:tests/bench:tests/answers:tests/compose $(PYTHON)
WEIR := stack/bin/weir
SAY = @printf '▸ %s\n'

AGENT := capture/target/release/weir-probe
BENCH := capture/target/release/weir-bench
JOBS := flink-jobs/target/weir-flink-jobs.jar
KAFKA := .weir/kafka/.stamp
CLASSES := .weir/java/flink.jsa

## The two commands ---------------------------------------------------------------------------------------------------

demo: may-capture build ## The whole path with live traffic, on one screen (PCAP=file, IFACE=eth0, ONCE=1, NAME=another stack)
	$(WEIR) $(if $(NAME),--name '$(NAME)') demo $(if $(PCAP),--pcap '$(PCAP)') $(if $(IFACE),--iface '$(IFACE)') $(if $(ONCE),--once)

# Listing the parts' names requires no build.
ifeq ($(PART),list)
check test test-long:
	@python3 tests/run.py $(@:test-long=long) --part list
else
check: named-check $(VENVS)/stack/.stamp $(VENVS)/clickhouse/.stamp ## After every change: linters, units without an engine, documents
	@$(PYTHON) tests/run.py check $(if $(PART),--part '$(PART)') $(if $(T),--only '$(T)')

test: named-test setup-test-packages ## Every test (PART=e2e: one part; PART=list: their names; T=test_path: tests whose name contains it)
	@$(MAKE) -j2 --output-sync=target build peers
	@$(MAKE) $(CLASSES)
	@$(PYTHON) tests/run.py test $(if $(PART),--part '$(PART)') $(if $(T),--only '$(T)')

test-long: named-long setup-tests build ## Tests that take hours: kills, whole corpora, fuzzing (PART=, T=)
	@$(PYTHON) tests/run.py long $(if $(PART),--part '$(PART)') $(if $(T),--only '$(T)')
endif

# An unknown part name is an error before anything is installed.
named-%:
	@$(if $(PART),python3 tests/run.py $* --part '$(PART)' --find)

# Said before anything is built.
may-capture:
	@[ -z '$(IFACE)' ] || [ "$$(id -u)" = 0 ] || getcap $(AGENT) 2>/dev/null | grep -q net_raw || { \
	  echo "capturing on $(IFACE) takes root: sudo make demo IFACE=$(IFACE)"; \
	  echo "or, once: make build && sudo setcap cap_net_raw,cap_net_admin=p $(AGENT)"; exit 2; }

## Building -----------------------------------------------------------------------------------------------------------

# `sudo make demo` installs packages as root, and builds as the user whose checkout this is: nothing in it becomes root's.
ifneq (,$(and $(filter 0,$(shell id -u)),$(SUDO_UID),$(filter $(SUDO_UID),$(shell stat -c %u .))))
ifneq ($(SUDO_UID),0)
OWNER := $(shell id -un $(SUDO_UID))
endif
endif
ifdef OWNER
build: setup
	@runuser -u $(OWNER) -- env HOME="$$(getent passwd $(OWNER) | cut -d: -f6)" SUDO_UID= $(MAKE) build
else
build: setup $(AGENT) $(BENCH) $(KAFKA) $(JOBS) venv-stack venv-clickhouse venv-superset ## Build everything
endif

setup:
	@stack/setup.sh
setup-tests:
	@stack/setup.sh --tests
setup-test-packages:
	@stack/setup.sh --test-packages
peers:
	@stack/setup.sh --peers

# The folders themselves are sources too: a file that went made them newer. docs/generate.py asks make whether these are up to date.
$(AGENT) $(BENCH) &: $(shell find capture/src capture/ndpi capture/build.rs capture/build.sh capture/schema.rs capture/Cargo.toml capture/Cargo.lock capture/filters.default.toml capture/weir-probe.example.toml 2>/dev/null) $(wildcard schemas/*.proto)
	@capture/path.sh
	$(SAY) 'building the agent (Rust; some minutes the first time)'
	@# make hands its jobserver to recipes that call make alone.
	env -u MAKEFLAGS capture/build.sh --quiet
	@touch $(AGENT) $(BENCH)

$(JOBS): $(shell find flink-jobs/src flink-jobs/pom.xml flink-jobs/jars.sha256 schemas/services.csv 2>/dev/null) $(wildcard schemas/*.proto)
	$(SAY) 'building the jobs (Java)'
	@stack/supply/jars.sh flink-jobs .weir/jars
	@# The jar would hold what an earlier build left in these.
	rm -rf flink-jobs/target/classes flink-jobs/target/maven-archiver
	cd flink-jobs && mvn -q -B package -DskipTests
	@touch $@

$(KAFKA): stack/kafka/pom.xml stack/kafka/jars.sha256
	$(SAY) 'fetching Kafka'
	@stack/supply/jars.sh stack/kafka .weir/kafka
	@touch $@

$(CLASSES): $(JOBS) $(KAFKA)
	$(SAY) 'archiving the classes of Kafka and the jobs'
	@$(TESTS) tests/lib/class_archives.py

$(UV): stack/supply/uv.txt
	$(SAY) 'making Python environments'
	@python3 -m venv $(VENVS)/uv
	@$(VENVS)/uv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# One virtual environment for each Python part: their libraries conflict with each other.
venv-stack: $(VENVS)/stack/.stamp ## Python environment of stack/ and of the tests
venv-clickhouse: $(VENVS)/clickhouse/.stamp ## Python environment of clickhouse/embedded
venv-superset: $(VENVS)/superset/.stamp ## Python environment of superset/

$(VENVS)/stack/.stamp: stack/requirements.txt | $(UV)
$(VENVS)/clickhouse/.stamp: clickhouse/embedded/requirements.txt | $(UV)
$(VENVS)/superset/.stamp: superset/requirements.txt | $(UV)
$(VENVS)/%/.stamp:
	$(SAY) 'installing the libraries of $*'
	@$(UV) venv --quiet --allow-existing --python 3.11 $(VENVS)/$*
	@VIRTUAL_ENV=$(VENVS)/$* $(UV) pip sync --quiet --require-hashes --compile-bytecode $<
	@touch $@

lock: | $(UV) ## Pin the libraries of Python and Java again by hash, after a change of requirements.in or pom.xml
	for list in {stack,clickhouse/embedded,superset}/requirements stack/supply/{uv,go}; do \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes $$list.in -o $$list.txt || exit 1; done
	stack/supply/jars.sh flink-jobs .weir/jars --pin
	stack/supply/jars.sh stack/kafka .weir/kafka --pin && touch $(KAFKA)

sbom: $(VENVS)/stack/.stamp $(VENVS)/clickhouse/.stamp $(VENVS)/superset/.stamp ## Bills of materials (CycloneDX) in .weir/sbom; fails on a licence that stack/supply/licences.yaml does not allow
	@PYTHONPATH=stack $(PYTHON) -m supply.bills .weir/sbom

KEPT := data backups secrets weir.yaml ports.json audit-heads.json logs stacks
clean: ## Remove what was built; stored data, secrets and settings stay (make uninstall removes them, too)
	@# Stop the stack that runs from what goes, the one in .weir, even if $$WEIR_HOME names another.
	-@[ ! -x $(PYTHON) ] || env -u WEIR_HOME $(WEIR) down
	@[ ! -d .weir ] || find .weir -mindepth 1 -maxdepth 1 $(KEPT:%=! -name %) -exec rm -rf {} +
	@[ ! -d .weir ] || rmdir .weir 2>/dev/null || printf 'kept: %s\n' .weir/*
	rm -rf capture/target flink-jobs/target

uninstall: venv-stack ## Name all that Weir left on this machine, and remove it (YES=1: without asking)
	@env -u WEIR_HOME $(WEIR) uninstall $(if $(YES),--yes)

## Measuring and comparing ---------------------------------------------------------------------------------------------

bench-pipeline: build ## Records per second from Kafka to stored rows (RECORDS=20000000)
	$(TESTS) tests/bench/bench_pipeline.py --records $(or $(RECORDS),10000000)

bench-flink: build ## Records per second of each job and of all together, from Kafka to a sink that counts (RECORDS=8000000)
	$(TESTS) tests/bench/bench_flink.py $(if $(RECORDS),--records $(RECORDS)) $(if $(ONLY),--only '$(ONLY)')

bench-bookkeeping: ## CPU and state of progress, ledger and health at 1,000 probes of 4 workers (PROBES=100)
	@mkdir -p .weir
	cd flink-jobs && mvn -q -B test -Dtest=BookkeepingBench -Dweir.probes=$(or $(PROBES),1000) -Dweir.json=$(CURDIR)/.weir/bench-bookkeeping.json
	@cat flink-jobs/target/surefire-reports/io.weir.jobs.BookkeepingBench-output.txt

bench-audit: venv-clickhouse ## What the audit adds to a statement
	$(VENVS)/clickhouse/bin/python clickhouse/tests/bench_audit.py

bench-capture: $(AGENT) venv-stack ## The agent compared with its peers: speed, memory, live loads (ONLY=new_flows, QUICK=1)
	$(TESTS) tests/bench/bench_capture.py $(if $(ONLY),--only '$(ONLY)') $(if $(QUICK),--quick)

bench-collect: $(AGENT) venv-stack ## The collector's cost per record, compared with goflow2, nfcapd and nfacctd (ARGS='--quick --only ipfix')
	$(TESTS) tests/bench/bench_collect.py $(ARGS)

bench-strangers: $(AGENT) venv-stack ## A known exporter during a flood of 100,000 datagrams a second from 30,000 addresses (ARGS='--seconds 60')
	$(TESTS) tests/bench/bench_strangers.py $(ARGS)

bench-privacy: $(BENCH) venv-stack ## Pseudonyms: ns per record of captures and of new addresses, beside nfdump's nfanon (CAPTURES='files')
	$(TESTS) tests/bench/bench_privacy.py $(CAPTURES)

bench-routes: build ## Bytes per record of routers' routing data, in Kafka's messages and in stored rows (ARGS='--rounds 2')
	$(TESTS) tests/bench/bench_routes.py $(ARGS)

bench-catch-up: build ## An hour of 20 probes read at once: rows compared with those of live reading, heap, time (RECORDS=144000000 PROBES=20 ARGS='--flows 20000')
	$(TESTS) tests/bench/bench_catch_up.py $(if $(RECORDS),--records $(RECORDS)) $(if $(PROBES),--probes $(PROBES)) $(ARGS)

bench-store: build ## The store's costs: octets per record, inserts, questions over years (ARGS='--quick')
	$(TESTS) tests/bench/bench_store.py $(ARGS)

bench-availability: venv-stack ## Inserts of 100,000 rows a second beside 5,000 hostile connections: refused, p99 (ARGS='--seconds 60')
	$(TESTS) tests/bench/bench_availability.py $(ARGS)

bench-counted-once: venv-stack ## Cost of counting a flow once at every age, with 5 and 80 % of flows seen by several probes
	$(TESTS) tests/bench/bench_counted_once.py $(ARGS)

bench-detect: build ## Seconds from an attack's first packet to its alert, live (ARGS='--trials 5')
	$(TESTS) tests/bench/bench_detect.py $(ARGS)

bench-late: venv-stack ## Cost of records that arrive after their hour was rolled up (ARGS='--rows 1000000 --late 1')
	$(TESTS) tests/bench/bench_late.py $(ARGS)

bench-nat: build ## Who had this address and port at that moment, over 100 million reports (ROWS=100000000)
	$(TESTS) tests/bench/bench_nat.py $(if $(ROWS),--rows $(ROWS))

simulate: SCHEDULES = $(or $(SEEDS),$(if $(SEED),1,1000))
simulate: ## Random schedules of agents, Kafka, the store and crashes through the jobs, compared with plain sums (SEEDS=1000, SEED=first of them)
	cd flink-jobs && mvn -q -B test -Dtest='*SimulatorTest' -Dweir.seed=$(or $(SEED),1) -Dweir.seeds=$(SCHEDULES)
	@echo '$(SCHEDULES) schedules of the jobs and of their sink, none failing'

# Seeds of the simulators in Rust; one if only SEED is named.
SCHEDULES = $(or $(SEEDS),$(if $(SEED),1,20000))
SIMULATED = SEED=$(or $(SEED),1) SEEDS=$(SCHEDULES) cargo test --locked --lib

simulate-collector: ## Simulated exporters, networks and restarts around the collector (SEEDS=20000, SEED=first of them)
	@capture/path.sh
	cd capture && $(SIMULATED) collect::simulator -- --nocapture
	@echo '$(SCHEDULES) schedules of the collector, none failing'

simulate-agent: ## Simulated packets and clocks around the agent, compared with plain sums (SEEDS=20000, SEED=first of them)
	@capture/path.sh
	cd capture && $(SIMULATED) -- capture::simulator kafka::simulator --nocapture
	@echo '$(SCHEDULES) schedules of the agent, none failing'

mutants: mutants-$(or $(PART),capture) ## Changes that no test would notice: of the agent (MUTANTS=collect/, DRAWN=600, SEED=1, AGAIN=1, T=) or of the jobs (PART=jobs, ONLY=sink.*, T=)

mutants-capture:
	@capture/path.sh
	@command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants --version 27.1.0
	@cargo run --quiet --locked --manifest-path capture/mutants/Cargo.toml --target-dir .weir/mutants/tool -- \
	  $(if $(MUTANTS),--only '$(MUTANTS)') $(if $(T),--tests '$(T)') $(if $(DRAWN),--drawn $(DRAWN)) $(if $(SEED),--seed $(SEED)) $(if $(AGAIN),--again) $(if $(LANES),--lanes $(LANES))

# Without the tests of the tag "engine", which run many operators or a cluster.
mutants-jobs: $(VENVS)/stack/.stamp
	@mkdir -p .weir/mutants/jobs
	cd flink-jobs && mvn -q -B -Pmutants test-compile org.pitest:pitest-maven:mutationCoverage \
	  -Dmutants.classes='io.weir.jobs.$(or $(ONLY),*)' $(if $(T),-Dmutants.tests='io.weir.jobs.*$(T)*Test') -Dmutants.threads=$(or $(LANES),1)
	@$(TESTS) tests/lib/jobs_mutants.py

check-captures: build ## Every public capture through the agent, compared with tshark
	$(TESTS) tests/peers/check_captures.py

check-answers: setup-tests build ## Lists, indicators, mixes and counters computed again from a capture's packets by their definitions (CAPTURE=file.pcap)
	$(TESTS) tests/answers/check_answers.py $(CAPTURE)

check-answers-seeded: setup-tests build ## Errors put into the agent's messages, each of which check-answers must notice
	$(TESTS) tests/answers/seeded.py

check-peers: build ## The agent's exports read by nfcapd, nfacctd, goflow2 and tshark; other exporters' read by Weir
	$(TESTS) tests/peers/check_peers.py

check-exports: build ## Exports of NetFlow, IPFIX and sFlow within captures, compared with tshark (CAPTURES='files')
	$(TESTS) tests/peers/check_exports.py $(CAPTURES)

check-tcp: build ## Round trips, retransmissions, out-of-order segments against tshark (CAPTURES='files or folders')
	$(TESTS) tests/peers/compare_tcp.py $(CAPTURES)

check-names: build ## Names and applications live and from files, beside tshark and ndpiReader (root; CAPTURES='files or folders')
	$(TESTS) tests/peers/check_names.py $(CAPTURES)

check-applications: build ## Applications of flows against ndpiReader (CAPTURES='files or folders')
	$(TESTS) tests/peers/compare_ndpi.py $(CAPTURES)

check-reproducible: setup $(AGENT) $(JOBS) ## Build the agent and the jobs' jar again in another folder, and compare them octet by octet
	nice -n 10 stack/supply/reproducible.sh

check-upgrade: setup-tests build ## Upgrade a stack of an earlier version to this one (FROM=v0.1.0, or a built checkout)
	WEIR_UPGRADE_FROM='$(FROM)' $(PYTHON) -m pytest -q -s -c tests/pyproject.toml --rootdir tests --basetemp .weir/upgrade tests/upgrade

released: venv-stack ## What this release leaves for later versions to upgrade, in tests/upgrade/released (RELEASE=0.1.0)
	$(TESTS) tests/upgrade/make_released.py $(RELEASE)

test-compose: $(VENVS)/stack/.stamp $(KAFKA) ## docker-compose.yml as it stands, in containers: up, captured, restarted, down (root; an hour the first time)
	@stack/setup.sh --containers
	cd tests && PATH="$$PATH:/usr/sbin:/sbin" nice -n 5 ../$(PYTHON) -m pytest -q -v -n 0 -x --junitxml "$${WEIR_TEST_LOGS:-../.weir}"/compose.xml compose

test-machines: build ## First runs on other machines, in containers: no rights, odd paths, two stacks, interrupts, little disk and memory (root; T=)
	@stack/setup.sh --containers
	cd tests && PATH="$$PATH:/usr/sbin:/sbin" nice -n 5 ../$(PYTHON) -m pytest -q -v -s -n 0 $(if $(T),-k '$(T)') --junitxml "$${WEIR_TEST_LOGS:-../.weir}"/machines.xml machines

fuzz: ## Fuzz the agent's parsers, readers and fragment cache (MINUTES=20 for each target)
	@capture/path.sh
	capture/fuzz/run.sh

fuzz-statements: venv-clickhouse ## Fuzz the store with random statements of every role (MINUTES=20, SEED=1 to repeat a run)
	PYTHONPATH=clickhouse:clickhouse/embedded $(VENVS)/clickhouse/bin/python clickhouse/tests/fuzz_statements.py --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED))

docs: build ## Regenerate docs/reference
	$(PYTHON) docs/generate.py

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "%-22s %s\n", $$1, $$2}'

.PHONY: may-capture uninstall demo test check test-long build sbom test-compose test-machines setup setup-tests setup-test-packages peers clean docs help lock venv-stack venv-clickhouse venv-superset \
  bench-availability bench-bookkeeping bench-capture bench-catch-up bench-collect bench-counted-once bench-detect bench-flink bench-late bench-nat bench-pipeline bench-privacy bench-routes bench-store bench-strangers check-answers check-answers-seeded check-captures check-exports check-names check-peers check-reproducible check-tcp check-applications check-upgrade released fuzz fuzz-statements \
  simulate simulate-agent simulate-collector mutants mutants-capture mutants-jobs
