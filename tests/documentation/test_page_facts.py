"""Lists, limits, places, dates and versions on the pages of the docs are those of the code."""

import re
import tomllib
from pathlib import Path

import pytest

from policies.admission.all_rules import rule_book
from policies.analyses.audit import MOST_FINDINGS
from policies.analyses.audit.checks import KARPENTER, TEMPLATE_MISSING
from policies.analyses.plan import KINDS
from policies.analyses.usage.node_gpus import UnusableKind
from policies.analyses.wait_reasons import WaitReason
from policies.kubernetes.versions import Feature
from policies.nvidia.product_proposals import choose_products
from policies.outcome import MOST_SUBJECTS
from webhook.controllers.audit_round import AuditMetrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
VERSIONS = (ROOT / "docs" / "versions.md").read_text()
AUDIT = (ROOT / "docs" / "audit.md").read_text()
EXPLAIN = (ROOT / "docs" / "explain.md").read_text()
GENERATE = (ROOT / "docs" / "generate.md").read_text()
PLAN = (ROOT / "docs" / "plan.md").read_text()
USAGE = (ROOT / "docs" / "usage.md").read_text()
DESIGNS = DOCS / "designs"
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
    assert f"| Kubernetes API server | {Feature.ResourceV1.on_since} and newer |" in VERSIONS


def test_supported_python_is_that_of_the_package_and_the_image():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert f"| Python | {required} and newer |" in VERSIONS
    (image,) = re.findall(r" python(\d+\.\d+)-minimal", (ROOT / "Dockerfile").read_text())
    assert f"| the image has {image} |" in VERSIONS


def section(page, title):
    _, _, rest = page.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


def test_page_on_plans_has_the_number_of_templates():
    assert f"**More than {MOST_SUBJECTS:,} pod templates**" in PLAN


def test_page_on_plans_has_every_kind():
    table = section(PLAN, "What can be planned")
    assert [kind for kind in KINDS if not re.search(rf"\b{kind}\b", table)] == []


def test_page_on_usage_has_every_reason():
    table = section(USAGE, "Why free GPUs are unusable")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)[1:] == [str(kind) for kind in UnusableKind]


def test_page_on_explanations_has_every_reason_to_wait():
    table = section(EXPLAIN, "What waits")
    assert re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE) == [
        (str(reason), reason.words) for reason in WaitReason
    ]


def test_page_on_generation_shows_each_kind():
    shown = re.findall(r"^\$ gpu-admission generate (\S+) ", GENERATE, re.MULTILINE)
    assert set(shown) == {"time-slicing", "mps", "sharing", "mig", "quota", "claim", "wish"}


@pytest.mark.parametrize(
    ("written", "meant"), re.findall(r"^\| `([^`]+)` \| `([^`]+)`(?::|\s*\|)", GENERATE, re.MULTILINE)
)
def test_page_on_generation_says_what_names_mean(written, meant):
    assert str(choose_products(written).patterns) == meant


@pytest.mark.parametrize("code", [KARPENTER.id, TEMPLATE_MISSING.id])
def test_page_on_audits_names_the_findings_that_only_an_audit_has(code):
    assert f"| `{code}` |" in AUDIT


def test_rules_that_the_page_on_audits_names_exist():
    named = set(re.findall(r"GA\d{3}", AUDIT))
    assert named
    assert all(rule_book().get(rule) for rule in named)


def test_tests_that_the_page_on_security_names_exist():
    tried = section((DOCS / "security.md").read_text(), "What was tried")
    named = set(re.findall(r"`([a-z_]+/(?:[\w/]+\.py|[\w/]+/)?)`", tried)) - {"tests/"}
    assert len(named) > 50
    assert {path for path in named if not (ROOT / "tests" / path).exists()} == set()


def test_words_of_the_glossary_are_sorted():
    for table in (DOCS / "glossary.md").read_text().split("\n## ")[1:]:
        words = re.findall(r"^\| \*\*(.+?)\*\*", table, re.MULTILINE)
        assert words == sorted(words, key=str.lower)
        assert words


def test_page_on_audits_has_every_metric_with_its_labels():
    reported = {
        name: re.findall(r"`(\w+)`", labels) for name, labels in re.findall(r"\| `(gpu_\w+)` \| (.*?) ?\|", AUDIT)
    }
    assert reported == {family.name: list(family._labelnames) for family in AuditMetrics(lambda: None).collect()}


def test_page_on_audits_has_the_maximal_length_of_a_report():
    assert f"at most {MOST_FINDINGS} findings" in " ".join(AUDIT.split())
