"""Places, dates of decisions and versions in the pages for newcomers are right."""

import re
import tomllib
from pathlib import Path

import pytest

from webhook.cluster.watched_kinds import DRA_SERVED_SINCE

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
VERSIONS = (ROOT / "docs" / "versions.md").read_text()
DESIGNS = ROOT / "docs" / "designs"
PAGES = sorted(page for page in DESIGNS.iterdir() if page.name != "README.md")


def test_places_of_the_architecture_exist():
    places = set(re.findall(r"`((?:policies|webhook|certs|deploy|docs|tests)/[\w./]+|certs)`", ARCHITECTURE))
    assert len(places) > 30
    assert {place for place in places if not (ROOT / place).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_design_has_a_date_that_the_index_repeats_and_what_was_turned_down(page):
    text = page.read_text()
    (date,) = re.findall(r"^Decided: (\d{4}-\d\d-\d\d)\. Status: ", text, re.MULTILINE)
    assert re.search(r"^## (Turned down|Alternatives)$", text, re.MULTILINE)
    assert re.search(rf"^\| {date} \| \[[^]]+\]\({page.name}\) \|", (DESIGNS / "README.md").read_text(), re.MULTILINE)


def test_supported_kubernetes_is_the_first_that_serves_claims():
    major, minor = DRA_SERVED_SINCE
    assert f"| Kubernetes API server | {major}.{minor} and newer |" in VERSIONS


def test_supported_python_is_that_of_the_package_and_the_image():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert f"| Python | {required} and newer |" in VERSIONS
    (image,) = re.findall(r" python(\d+\.\d+)-minimal", (ROOT / "Dockerfile").read_text())
    assert f"| the image has {image} |" in VERSIONS
