# The two commands: `make run` rehearses all four gates on this machine, `make test` proves kvgate works.
# Each makes .venv and installs what is missing; a second call starts at once.

SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/ready
PYTHONS := .make/pythons/ready
JOBS ?= 2

.PHONY: run test test-whole test-stats test-corpus test-faults test-lab test-lab-smoke lint bench bench-fanout bench-load bundle test-bundle setup clean help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

run: $(READY) ## rehearse G1 to G4 on this machine over real SSH (about 4 minutes)
	@$(BIN)/kvgate rehearse

test: $(READY) $(PYTHONS) ## prove that kvgate works (under 10 minutes on 2 cores)
	@$(BIN)/python -m pytest tests -n $(JOBS) --dist loadfile -q -m "not whole"

test-whole: $(READY) ## whole gates, sites and devices, killed, resumed and replayed (about 6 minutes)
	@$(BIN)/python -m pytest tests -n $(JOBS) --dist loadfile -q -m whole

test-faults: $(READY) ## kill `kvgate run` at 100 random moments; prints kills survived / tried
	@$(BIN)/python -m pytest tests/faults -q -o norecursedirs= -p no:xdist

test-lab: $(READY) ## a lab of two virtual machines: paths, faults, devices that must not be written (about 45 minutes where the CPU is emulated)
	@$(BIN)/python -m pytest tests/lab -q -o norecursedirs= -o timeout=900 -p no:xdist

test-lab-smoke: $(READY) ## the lab's smoke part: image, up, a path lost and back, down (about 3 minutes)
	@$(BIN)/python -m pytest tests/lab/test_smoke.py -q -o norecursedirs= -o timeout=900 -p no:xdist

test-stats: $(READY) ## the statistics by simulation, in full: coverage and false PASS (about 5 minutes)
	@KVGATE_SIMULATIONS=full $(BIN)/python -m pytest tests/unit/judge/test_simulated.py -q -s -o timeout=3600 -p no:xdist

test-corpus: $(READY) ## outputs that people published, where KVGATE_CORPUS names their folder
	@test -d "$$KVGATE_CORPUS" || { echo 'KVGATE_CORPUS names no folder' >&2; exit 64; }
	@$(BIN)/python -m pytest tests/corpus -q -p no:xdist

lint: $(READY) ## only the linters, types and layers
	@$(BIN)/python -m pytest tests/unit/test_house.py -q

bench: $(READY) ## benchmarks against peers, side by side (not part of `make test`)
	@$(BIN)/python -m pytest tests/benchmarks -q -o norecursedirs= -p no:xdist --benchmark-columns=median,ops,rounds

bench-fanout: $(READY) ## 1,000 hosts at once beside asyncssh, xargs ssh, ansible and parallel-ssh
	-@$(BIN)/python -m pip install -q -e '.[bench]'
	@$(BIN)/python -m pytest tests/benchmarks/test_fanout.py -q -o norecursedirs= -p no:xdist

bench-load: $(READY) ## the load client beside aiohttp and AIPerf (in a venv of its own)
	@test -x .make/aiperf/bin/aiperf || { python3 -m venv .make/aiperf && .make/aiperf/bin/pip install -q aiperf; }
	@KVGATE_AIPERF=$(CURDIR)/.make/aiperf/bin/aiperf $(BIN)/python -m pytest tests/benchmarks/test_load.py -q -o norecursedirs= -p no:xdist

bundle: $(READY) ## one archive in dist/ that installs on a machine without network
	@$(BIN)/python tools/bundle.py

test-bundle: $(READY) ## make the bundle and install it in a network namespace without routes
	@$(BIN)/python -m pytest tests/bundle -q -o norecursedirs= -p no:xdist

setup: $(READY) ## only install what is missing

$(READY): pyproject.toml tools/setup.sh
	@sh tools/setup.sh

# Other Pythons, to judge with: the findings must be the same. None there, or no network: no error.
$(PYTHONS): $(READY) tools/pythons.sh
	@sh tools/pythons.sh

clean: ## remove the virtual environment and caches, never runs
	rm -rf .venv .make .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
