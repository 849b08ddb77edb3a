# `make demo` runs the demo, `make test` the tests; `make help` lists all targets.
SHELL := /bin/bash
VENV := .venv
RELEASES := 3.5 4.0 4.1
RELEASE ?= 4.1
LOWEST := .venv-lowest
SITE := .venv-site
PY := $(VENV)/bin/python
WORKERS ?= 4
PYTEST = -m pytest -p no:cacheprovider -rfEs --no-loadscope-reorder

# The default python3 if it is suitable, otherwise the newest suitable one; venv needs ensurepip.
FIND_PYTHON = for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo $$p; exit 0; }; done; \
	echo 'Python 3.11 or newer with venv is needed: install it, or specify it with make PYTHON=...' >&2; \
	exit 1
PIP = -m pip --quiet --disable-pip-version-check --no-input install
# uv takes a quarter of pip's time; pip also knows indexes that only its own configuration names.
# PySpark is 430 MB of archives without a wheel: not compressing them again halves its time.
INSTALL = f() { $$1/bin/uv pip install --quiet --python $$1/bin/python \
	--config-settings-package pyspark:--build-option=--compression=stored "$${@:2}" \
	|| $$1/bin/python $(PIP) "$${@:2}"; }; f

.DEFAULT_GOAL := help

# Otherwise, each Spark worker would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv install install-all java needs jars demo test test-quick coverage test-all test-deep test-releases test-spark test-python test-lowest torture torture-eos torture-commits model fuzz bench lint format docs notebooks release-check site clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 17

venv: $(VENV)/bin/python ## create the virtual environment

install: $(VENV)/.installed ## install the package, and what `make test` needs, into it

install-all: $(VENV)/.installed-all ## install what all other targets need

demo: java $(VENV)/.demo ## write 336,776 flights to the embedded broker with Spark, and check them with another client
	@$(PY) -m spark_kafka_sink demo

test: java install jars ## run lint and the tests for every commit, in two processes
	@$(MAKE) --no-print-directory -j2 lint test-quick

test-quick:
	@$(PY) $(PYTEST) -n 2 -m 'not deep' tests

test-all: $(if $(PART),,test) $(if $(filter releases,$(PART)),,test-deep) $(if $(filter-out releases,$(PART)),,test-releases) ## run all tests; PART=spark runs one part of those that `make test` omits

# An exception that a test sets in a thread does not end it while it is traced.
coverage: install ## list the lines of the package that no unit or property test runs
	@$(INSTALL) $(VENV) pytest-cov
	@$(PY) $(PYTEST) -n 2 -m 'not deep' --cov=spark_kafka_sink --cov-report=term-missing:skip-covered \
	-k 'not codec_thread_died' tests/unit tests/property

test-deep: needs install-all
	@$(PY) -m tools.support.jars all
	@$(PY) $(PYTEST) -n $(WORKERS) --durations=30 -m 'deep$(if $(PART), and $(PART))' tests

test-releases: java $(RELEASES:%=.venv-pyspark-%/.installed) jars
	@for release in $(RELEASES); do \
	.venv-pyspark-$$release/bin/python $(PYTEST) -n 0 tests/spark/test_releases.py \
	tests/spark/driver/test_internals.py || exit 1; done

test-spark: needs install-all .venv-pyspark-$(RELEASE)/.installed ## run all Spark tests with an older release: RELEASE=4.1
	@$(PY) -m tools.support.jars all
	@.venv-pyspark-$(RELEASE)/bin/python $(PYTEST) -n $(WORKERS) -m 'spark or exactly_once' tests/spark

test-python: needs ## run the unit and packaging tests with another Python: make test-python PYTHON=python3.13
	@test -n '$(PYTHON)' || { echo 'Specify it: make test-python PYTHON=python3.13' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip'
	@$(MAKE) --no-print-directory install-all VENV=$(VENV)-$(notdir $(PYTHON))
	@$(VENV)-$(notdir $(PYTHON))/bin/python -m pytest tests/unit tests/packaging

# Test tools have their newest versions, also protoc. Generated pages need the versions of `make install`,
# and unit tests need Spark's Arrow writers; `make test-releases` tests PySpark 3.5 and 4.0. Keys of
# PBES1 with MD5 need a newer cryptography; the error says how to convert them.
test-lowest: $(LOWEST)/bin/python ## run the unit tests with the lowest versions of dependencies that pyproject.toml allows
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	-e '.[spark,cli,plots,notebook,demo,testing,prometheus,redis,oauth,msk-iam,opentelemetry,schema-registry,protobuf]' \
	'pyspark>=4.1'
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python pytest-timeout pytest-xdist hypothesis \
	kafka-python python-snappy aiokafka psutil hatchling 'opentelemetry-sdk<1.25' \
	'grpcio-tools>=1.76'
	@$(LOWEST)/bin/python -m pytest tests/unit tests/property --ignore tests/unit/docs -k 'not MD5'

# uv does not compile packages: the first of two sessions would do so, in each worker.
bench: java install .venv-pyspark-4.1/.installed jars ## compare this sink with similar sinks
	@for venv in $(VENV) .venv-pyspark-4.1; do $$venv/bin/python -m compileall -q -j 0 $$venv/lib >/dev/null || true; done
	@$(PY) -m tools.benchmarks

torture: install-all jars ## run RUNS more seeds of faults against a real Kafka (RUNS=200, SECURED=1)
	@$(PY) -m tools.torture --runs $(or $(RUNS),200) $(if $(SECURED),--secured)

torture-eos: java install jars ## run RUNS streams under faults for each sink (RUNS=30, SINK=exactly-once, PLANTED=1)
	@$(PY) -m tools.torture $(if $(PLANTED),planted,streams) --runs $(or $(RUNS),30) $(if $(SINK),--sink $(SINK))

torture-commits: install ## run RUNS seeds of tasks and drivers that lose requests and crash, on the embedded broker
	@$(PY) -m tests.integration.exactly_once.seeded $(or $(RUNS),2000) $(SEED)

model: install ## search all runs of the exactly-once model (FULL=1 takes minutes)
	@$(PY) -m tools.model $(if $(FULL),--full)

fuzz: install-all ## fuzz the decoders of the protocol and of records (FRAMES=1000000)
	@$(PY) -m tools.torture.fuzz $(or $(FRAMES),1000000)

release-check: java install-all ## build the sdist and the wheel, and run the README's batch example on the wheel
	@$(PY) -m tools.checks.release

lint: install ## run ruff, mypy and import-linter, and check function sizes and package docstrings
	@$(PY) -m ruff check .
	@$(PY) -m ruff check --preview --select RUF027 spark_kafka_sink tools
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command as run; run()'
	@$(PY) -m tools.checks.sizes
	@$(PY) -m tools.checks.names

format: install ## format the code with ruff
	@$(PY) -m ruff check --fix . && $(PY) -m ruff format .

notebooks: java install-all ## run the notebooks and save their outputs
	@$(PY) -m tools.notebooks

docs: install ## update the generated parts of README.md and docs/
	@$(PY) -m tools.docs

clean: ## remove all files that make has created
	rm -rf $(VENV) $(VENV)-* .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	rm -rf .hypothesis .coverage .import_linter_cache spark-warehouse metastore_db derby.log
	find spark_kafka_sink tests -name __pycache__ -type d -prune -exec rm -rf {} +

site: install ## build the documentation as a site in build/site, with an API reference
	@test -x $(SITE)/bin/mkdocs || { $(PY) -m venv $(SITE) && \
	$(SITE)/bin/python $(PIP) 'mkdocs-material>=9.5' 'mkdocstrings[python]>=0.26'; }
	@$(PY) -m tools.docs.site
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict && echo 'open build/site/index.html'

java:
	@python=$$($(FIND_PYTHON)) && $$python tools/checks/needs.py java

needs:
	@python=$$($(FIND_PYTHON)) && $$python tools/checks/needs.py java debian

jars: install
	@$(PY) -m tools.support.jars

# Otherwise, make deletes it as an intermediate file of `.venv-pyspark-%/.installed`.
.PRECIOUS: %/bin/python

%/bin/python:
	@python=$$($(FIND_PYTHON)) && $$python -m venv $* && { $@ $(PIP) uv || true; }

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing the packages for the demo into $(VENV): 600 MB to download, 1 GB on disk'
	@$(INSTALL) $(VENV) -e '.[demo]' && touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing the packages for the tests into $(VENV)'
	@$(INSTALL) $(VENV) -e '.[dev]' $(if $(PYSPARK),'pyspark==$(PYSPARK)') && touch $@ $(VENV)/.demo

# gssapi has no wheels for Linux: it is compiled with MIT's library.
$(VENV)/.installed-all: $(VENV)/.installed | needs
	@echo 'Installing the packages for all tests into $(VENV)'
	@$(INSTALL) $(VENV) -e '.[test-all,gssapi]' $(if $(PYSPARK),'pyspark==$(PYSPARK)') && touch $@

.venv-pyspark-%/.installed: pyproject.toml | .venv-pyspark-%/bin/python
	@echo 'Installing the packages for pyspark $*'
	@$(INSTALL) .venv-pyspark-$* -e '.[test-all]' 'pyspark==$*.*' && touch $@
