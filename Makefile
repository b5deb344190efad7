# Two commands: `make demo` shows the product, `make test` checks it. Both install what they need into .venv.
# `make image` builds what deploy/ runs, with docker, podman or whatever BUILDER names.
PYTHON ?= python3
BIN := .venv/bin
BUILDER ?= $(firstword $(foreach builder,podman buildah docker,$(shell command -v $(builder))))
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= gpu-admission:$(VERSION)

# Tests start hundreds of processes: each would compile what it imports.
test: export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo quick test lint storm fuzz properties bench bench-check scale lock wheel image image-proof release release-proof sign-image site screenshots manifests chart clean

demo: .venv/installed
	@$(BIN)/gpu-admission demo

test: .venv/installed-dev lint
	$(BIN)/pytest

# What decides about pods, claims, configuration and quotas, without servers, processes and long searches: under a minute on
# two cores. These tests never wait, so that a third process only costs.
CORE := kubernetes nvidia rules settings waivers devices allocation fleet configuration claims access conversion placement wishes \
  quota admission

quick: export PYTHONDONTWRITEBYTECODE :=
quick: .venv/installed-dev
	$(BIN)/pytest -n 2 -m "not hypothesis" $(addprefix tests/,$(CORE))

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m lints.imports_by_name
	$(BIN)/python -m lints.version_comparisons
	$(BIN)/python -m lints.floor_plan
	$(BIN)/python -m lints.plain_sentences

storm: .venv/installed-dev
	STORM=full $(BIN)/pytest -n 0 -s tests/storm

# Mutated reviews in process and over HTTPS, and pods that try to get around what guards the GPUs.
FUZZ_REVIEWS ?= 1000000
FUZZ_CALLS ?= 100000
LONG := --hypothesis-profile=long --timeout 0

fuzz: export FUZZ_REVIEWS := $(FUZZ_REVIEWS)
fuzz: export FUZZ_CALLS := $(FUZZ_CALLS)
fuzz: export FUZZ_EXAMPLES ?= 30000
fuzz: .venv/installed-dev
	$(BIN)/pytest -n 0 -s $(LONG) tests/robustness/fuzzing tests/robustness/bypass tests/allocation/test_allocator_search.py

# Every property of the tests, each with many more examples than `make test` has time for.
properties: export FUZZ_EXAMPLES ?= 3000
properties: .venv/installed-dev
	$(BIN)/pytest -m hypothesis $(LONG)

# Writes benchmarks/results/DATE.json and docs/performance.md, in about a quarter of an hour; KUBEBUILDER_ASSETS names an API server.
bench: .venv/installed-dev
	$(BIN)/python -m benchmarks

# The same figures, and the plan of a cutover; fails if one is over its limit.
bench-check: .venv/installed-dev
	$(BIN)/python -m benchmarks check
	$(BIN)/python benchmarks/proof.py --check

# One replica in a cluster of 5,000 nodes; with a real API server where KUBEBUILDER_ASSETS is set. About five minutes.
scale: .venv/installed-dev
	$(BIN)/python benchmarks/scale.py

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpu-admission needs Python 3.11 or newer; run: make PYTHON=python3.11 $(MAKECMDGOALS)" or 0)'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@ .venv/installed

.venv/installed-release: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[release]'
	@touch $@

# What the image and the plugin contain, with hashes: the versions of constraints.txt for every platform.
LOCK ?= requirements.lock
lock: .venv/installed-release
	$(BIN)/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
	  --constraint constraints.txt --output-file $(LOCK)

# In build/wheel: dist is for what is published.
wheel: .venv/installed-release
	rm -rf build/wheel && $(BIN)/python -m build --wheel --outdir build/wheel .

# The image, and its bill of materials in dist. DEBIAN=debian:trixie-slim@sha256:... pins the base that it is built on;
# BUILD_OPTIONS are for the builder.
image: export SOURCE_DATE_EPOCH := 1580601600
image: BUILD = $(BUILDER) build $(if $(filter docker,$(notdir $(BUILDER))),,--layers --timestamp $(SOURCE_DATE_EPOCH)) $(BUILD_OPTIONS) \
  $(if $(DEBIAN),--build-arg DEBIAN=$(DEBIAN)) --build-arg VERSION=$(VERSION) \
  --build-arg REVISION=$$(git rev-parse HEAD)$$(git diff --quiet HEAD || echo -modified)
image: wheel
	@test -n "$(BUILDER)" || { echo "make image needs docker, podman or buildah; name another one with BUILDER=" >&2; exit 1; }
	$(BUILD) --no-cache --tag $(IMAGE) .
	rm -rf build/image && $(BUILD) --target packages --output type=local,dest=build/image .
	mkdir -p dist && $(BIN)/python -m release.sbom build/image > dist/gpu-admission-$(VERSION)-image.cdx.json

# Builds the image twice on a Debian of packages, compares them, starts it without rights and sends it reviews. As root, on Debian
# with buildah and mmdebstrap.
image-proof: .venv/installed-dev
	IMAGE_PROOF=full $(BIN)/pytest -n 0 -s --timeout 0 tests/image

# Everything that a release publishes, in dist; URL is where its files will be downloaded from, KEY the private key that signs.
release: .venv/installed-release
	@test -n '$(URL)' || { echo "make release URL=https://... [IMAGE=registry/gpu-admission:version] [KEY=release.key]" >&2; exit 1; }
	$(BIN)/python -m release --url '$(URL)' --image '$(IMAGE)' $(if $(KEY),--key '$(KEY)')

# The signature of an image that was pushed, in dist; IMAGE names it by its digest.
sign-image: .venv/installed-release
	@test -n '$(KEY)' || { echo "make sign-image IMAGE=registry/gpu-admission@sha256:... KEY=release.key" >&2; exit 1; }
	$(BIN)/python -m release.signing '$(IMAGE)' --key '$(KEY)'

# Two whole releases are the same, their archives are of their platforms, and krew installs them if it is in PATH. Five minutes.
release-proof: .venv/installed-dev
	RELEASE_PROOF=full $(BIN)/pytest -n 0 -s --timeout 0 tests/release/test_release_proof.py

# The pictures of pages in docs/images, taken by Chromium.
screenshots: .venv/installed-dev
	$(BIN)/python -m testbed.screenshots

# The documentation with navigation and search, in build/site.
site: .venv/installed-dev
	$(BIN)/python -m website

manifests: .venv/installed
	$(BIN)/python deploy/render.py
	$(BIN)/python deploy/render_chart.py

# dist/gpu-admission-VERSION.tgz, the same bytes for the same sources; needs no Helm.
chart: .venv/installed-release
	$(BIN)/python -m release.chart

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
