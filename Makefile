# Two commands for a newcomer: `make run` and `make test`. Every target sets itself up: .venv is made when it is missing.
PYTHON  ?= python3
PROFILE ?= smoke
JOBS    ?= 2
OUT     ?= runs/$(PROFILE)
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help env run test lab book bench soak pair lock clean

help:
	@echo "make run    execute the labs on real images and judge the papers' claims (PROFILE=smoke|laptop|gpu|paper, JOBS=2, LABS='00 05')"
	@echo "make test   lint, types and every test"
	@echo "make lab    open the labs in JupyterLab (loopback only, with a token)"
	@echo "make book   build the book in book/_build/html"
	@echo "make bench  measure what the book promises, beside other programs (two hours; BENCH_LIMIT=300 for less)"
	@echo "make soak   the whole book at smoke twenty times over: not one flake (an hour or two; SOAK_ROUNDS=3 for less)"
	@echo "make env    make .venv (every target does, once, if it is missing)"

env: $(READY)

$(READY): pyproject.toml requirements.lock
	@bash data_scripts/environment.sh "$(PYTHON)" "$(VENV)"
	@touch $@

run: env
	$(BIN)/python -m privlab run $(LABS) --profile $(PROFILE) --jobs $(JOBS) --out $(OUT)

test: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy privlab
	$(BIN)/python -m privlab pair --check
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

lab: env
	$(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 --notebook-dir=labs

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
