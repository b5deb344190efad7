"""docs/runbook.md has a section for each alert, with the expression and the threshold of its rule.

`python tests/deploy/test_runbook.py` writes them.
"""

import re
from pathlib import Path

from testbed import libyaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "runbook.md"
MONITORING = ROOT / "deploy" / "components" / "monitoring"
BASE = "https://docs.example.com/gpu-admission/docs/"
SECTION = re.compile(r"^### (GPUAdmission\w+)\n\n(.*?)(?=\n##|\Z)", re.MULTILINE | re.DOTALL)
PARTS = re.compile(
    r"(?P<fires>.*?)\*\*Symptom\.\*\* (?P<symptom>\S.*)\n\n"
    r"\*\*Check\.\*\*\n\n```console\n(?P<commands>(?:[a-z].*\n)+)```\n\n(?P<reading>(?:- .*\n)+)\n"
    r"\*\*Action\.\*\*\n\n(?P<action>(?:\d\. .*\n?)+)",
    re.DOTALL,
)
UNITS = {"m": "minutes", "h": "hour"}


def alerts():
    """The rules that alert, by name."""
    files = [MONITORING / name for name in ("prometheus-rule.yaml", "slo-rule.yaml")]
    groups = [group for file in files for group in libyaml.load(file.read_text())["spec"]["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def fires(rule):
    """The severity, the time and the expression of an alert."""
    after = rule.get("for")
    when = f"after {after[:-1]} {UNITS[after[-1]]} of" if after else "at once with"
    expression = re.sub(r" (and|unless|or|/) (?=[a-z]+[(:{_])", r"\n\1 ", rule["expr"])
    return f"Fires as {rule['labels']['severity']}, {when}:\n\n```promql\n{expression}\n```\n\n"


def page_of(alert):
    return f"{BASE}runbook.html#{alert.lower()}"


def anchors(page):
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_alert_links_to_its_section():
    assert {name: rule["annotations"]["runbook_url"] for name, rule in alerts().items()} == {
        name: page_of(name) for name, _ in SECTION.findall(PAGE.read_text())
    }


def test_every_section_has_what_its_rule_says_and_three_parts():
    rules = alerts()
    for name, text in SECTION.findall(PAGE.read_text()):
        parts = PARTS.fullmatch(text)
        assert parts is not None, name
        assert parts["fires"] == fires(rules[name]), f"python {Path(__file__).relative_to(ROOT)} writes it"


def test_links_within_the_pages_lead_to_sections():
    for page, anchor in re.findall(r"\]\((?:([a-z-]+)\.md)?#([\w-]+)\)", PAGE.read_text()):
        assert anchor in anchors(page or "runbook"), anchor


if __name__ == "__main__":
    rules_by_name = alerts()

    def with_rule(found):
        return f"### {found[1]}\n\n{fires(rules_by_name[found[1]])}**Symptom."

    PAGE.write_text(
        re.sub(
            r"^### (GPUAdmission\w+)\n\n(?:(?!^#).)*?\*\*Symptom\.",
            with_rule,
            PAGE.read_text(),
            flags=re.MULTILINE | re.DOTALL,
        )
    )
