# Two commands for a newcomer: `make run` and `make test`. Every target sets itself up: .venv is made when it is missing.
PYTHON  ?= python3
PROFILE ?= smoke
JOBS    ?= 2
OUT     ?= runs/$(PROFILE)
SMOKE   := runs/smoke
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help env run test check weekly lab book bench soak pair lock clean

help:
	@echo "make run    execute the labs on real images and judge the papers' claims (PROFILE=smoke|class|night|gpu|paper, JOBS=2, LABS='00 05', DEEPER=1 for labs/deeper too)"
	@echo "make test   lint, types, contracts between modules, the tests of the package, each lab once (6 minutes after make run, else 12)"
	@echo "make check  that and one test of each slow kind, such as a lab in a browser: what CI runs (20 minutes)"
	@echo "make weekly all of that kind, and a soak of three rounds (an hour)"
	@echo "make lab    open the labs without their solutions in JupyterLab (loopback only, with a token; SOLUTIONS=1 with them, ROOT=1 as root)"
	@echo "make book   build the book in book/_build/html"
	@echo "make bench  measure what the book promises, beside other programs (BENCH_LIMIT=300 for less)"
	@echo "make soak   the whole book at smoke twenty times over: not one flake (an hour or two; SOAK_ROUNDS=3 for less)"
	@echo "make env    make .venv (every target does, once, if it is missing)"

env: $(READY)

$(READY): pyproject.toml requirements.lock
	@bash data_scripts/environment.sh "$(PYTHON)" "$(VENV)"
	@touch $@

run: env
	$(BIN)/python -m privlab run $(LABS) $(if $(DEEPER),--deeper) --profile $(PROFILE) --jobs $(JOBS) --out $(OUT)

# Three tiers of tests, each the one before and more; $(1): the marker expression of what they leave out; $(2): options of the run of the
# labs. What `make run` has run of this very source is not run again. A lab that fails here goes on to the tests, which say so.
define tier
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy privlab
	$(BIN)/lint-imports
	$(BIN)/python -m privlab pair --check
	-$(BIN)/python -m privlab run --profile smoke --jobs $(JOBS) --resume --out $(SMOKE) $(2)
	PRIVLAB_SMOKE=$(SMOKE) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=20 -m "$(1)"
endef

test: env
	$(call tier,not bench and not check and not weekly)

check: env
	$(call tier,not bench and not weekly)

# The soak begins anew each time: two rounds with an empty store, and one that finds everything trained.
weekly: env
	$(call tier,not bench,--deeper)
	rm -rf runs/weekly
	SOAK_OUT=runs/weekly SOAK_ROUNDS=$(or $(SOAK_ROUNDS),3) SOAK_COLD=$(or $(SOAK_COLD),2) $(BIN)/python tests/soak.py

# JupyterLab refuses root, who is who one is in most containers; `run` and `test` do not ask. The folder student is made once: what is in
# it is a reader's work, and stays. data_scripts/jupyter leaves nbgrader's menus to those who teach: a reader has nothing to hand in there.
lab: env
	@[ -n "$(ROOT)" ] || [ "$$(id -u)" != 0 ] || { echo "make lab: you are root, and a notebook could change anything here, so JupyterLab \
	refuses; log in as another user, or say make lab ROOT=1, as in a container"; exit 2; }
	@$(if $(SOLUTIONS),,$(BIN)/python -m privlab student --out student)
	JUPYTER_CONFIG_PATH="$(CURDIR)/data_scripts/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	  $(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 --notebook-dir=$(if $(SOLUTIONS),labs,student) $(if $(ROOT),--allow-root)

book: env
	@$(BIN)/python data_scripts/vendor.py || true
	$(BIN)/sphinx-build -W --keep-going -b html book book/_build/html
	@echo "Open book/_build/html/index.html"

bench: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[bench]'
	$(BIN)/python -m pytest tests/bench -s -m bench

soak: env
	$(BIN)/python tests/soak.py

pair: env
	$(BIN)/python -m privlab pair

lock:  # with the environment as it is: the change in pyproject.toml that asks for a new lock would have it made twice
	@[ -x $(BIN)/uv ] || $(MAKE) env
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url \
	  --all-extras --constraint data_scripts/pins.txt -o requirements.lock

clean:
	rm -rf book/_build book/_generated runs .mypy_cache .ruff_cache .hypothesis
