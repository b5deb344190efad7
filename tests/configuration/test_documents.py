"""The pages of docs/rules, the tables of docs/catalogue.md, docs/pod-starts.md and docs/versions.md, and the titles for completion match the code.

`python tests/configuration/test_documents.py` writes them anew.
"""

import re
from pathlib import Path

from policies.admission.all_rules import rule_book
from policies.kubernetes.versions import Feature
from policies.nvidia.releases import NVIDIAFeature
from policies.nvidia.start_failures import KNOWN_FAILURES, known_failure, known_text
from tests.nvidia.start_failure_texts import TEXTS
from webhook.cli.shipped_files import read_examples

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "docs" / "catalogue.md"
RULES = ROOT / "docs" / "rules"
TITLES = ROOT / "policies" / "rule_titles.txt"
STARTS = ROOT / "docs" / "pod-starts.md"
VERSIONS = ROOT / "docs" / "versions.md"
SHOWN_MINORS = range(34, 39)
SUBJECTS = {
    "configuration": (
        "configuration",
        "The rules on ClusterPolicy, NVIDIADriver, GPUCluster, ConfigMaps and node labels",
        "configuration.md",
    ),
    "claims": ("claims", "The rules on ResourceClaims, their templates, DeviceClasses and CEL selectors", "claims.md"),
    "conversion": ("conversion", "The rules on pods that become pods with claims", "conversion.md"),
    "placement": ("placement", "The rules on what pods request and on which nodes they can run", "placement.md"),
    "quota": ("quotas", "The rules on GPUQuotas, ResourceQuotas and LimitRanges", "quota.md"),
    "access": (
        "access to GPUs without a request",
        "The rules on containers that use GPUs without a request",
        "access.md",
    ),
    "settings": (
        "settings, waivers and manifests",
        "The rules on the settings, on waivers, and on manifests as such",
        "settings.md",
    ),
}
"""For each subject of rules, the title of its page, what the page has, and the page about the subject."""


def rules_pages():
    """The pages of rules by path: a table of all, and a page for each subject."""
    return {RULES / "README.md": rules_table()} | {RULES / f"{subject}.md": rules_page(subject) for subject in SUBJECTS}


def rules_table():
    lines = [
        "# Rules",
        "",
        f"All {len(rule_book().rules)} rules. Each links to its reason, what to do, a wrong and a right example, and its source. The severity is",
        "the default, which `spec.rules` of the [settings](../settings.md) can change. To search offline: `gpu-admission rules GA132`,",
        "`gpu-admission rules --search time-slicing`, `gpu-admission rules --kind ClusterPolicy`.",
        "",
        "| subject | rules | |",
        "|---|---|---|",
    ]
    for subject, (_, about, page) in SUBJECTS.items():
        count = len(rules_of(subject))
        lines.append(f"| [{subject}]({subject}.md) | {count} | {about}; see [{page}](../{page}) |")
    lines += ["", "| rule | title | severity | subject |", "|---|---|---|---|"]
    for subject in SUBJECTS:
        lines += [
            f"| [{rule.id}]({subject}.md#{rule.id.lower()}) | {cell(rule.title)} | {rule.default} | {subject} |"
            for rule in rules_of(subject)
        ]
    return "\n".join(lines) + "\n"


def rules_page(subject):
    title, about, page = SUBJECTS[subject]
    lines = [
        f"# Rules: {title}",
        "",
        f"{about}, with examples. [{page}](../{page}) explains the subject, [all rules](README.md) has the others.",
        "",
        "| rule | severity | what holds |",
        "|---|---|---|",
    ]
    rules = rules_of(subject)
    lines += [f"| [{rule.id}](#{rule.id.lower()}) | {rule.default} | {cell(rule.title)} |" for rule in rules]
    for rule in rules:
        examples = read_examples(rule.id)
        severity = f"{rule.default}, whatever the settings say" if rule.fixed else rule.default
        administrator = f" An administrator can {rule.administrator}." if rule.administrator else ""
        lines += ["", f"## {rule.id}", "", f"**{rule.title}** ({severity})", "", rule.why, ""]
        lines += [f"What to do: {rule.remedy}.{administrator}", "", "Wrong:", "", "```yaml", examples.wrong, "```", ""]
        lines += ["Right:", "", "```yaml", examples.right, "```", "", f"Source: {rule.source}."]
    return "\n".join(lines) + "\n"


def link(rule):
    """A link to the section of a rule, on a page in docs."""
    return f"[{rule.id}](rules/{rule.subject}.md#{rule.id.lower()})"


def rules_of(subject):
    return [rule for rule in rule_book().rules if rule.subject == subject]


def titles():
    return "".join(f"{rule.id} {rule.title}\n" for rule in rule_book().rules)


def catalogue_page(text):
    start, _, rest = text.partition("<!-- rows -->\n")
    end = rest.partition("<!-- end of rows -->\n")[2]
    rows = {}
    for rule in rule_book().rules:
        for row in rule.rows:
            rows.setdefault(row, []).append(rule)
    reported = ["| row | rule | what holds | needs facts |", "|---|---|---|---|"]
    for row in sorted(rows):
        facts = "yes" if (ROOT / "tests/configuration/catalogue/cluster" / f"{row}.yaml").exists() else ""
        names = ", ".join(map(link, rows[row]))
        reported.append(f"| {row} | {names} | {cell(rows[row][0].title)} | {facts} |")
    before, _, rest = end.partition("<!-- upstream -->\n")
    after = rest.partition("<!-- end of upstream -->\n")[2]
    upstream = f"<!-- upstream -->\n{upstream_rows()}\n<!-- end of upstream -->\n"
    return f"{start}<!-- rows -->\n" + "\n".join(reported) + f"\n<!-- end of rows -->\n{before}{upstream}{after}"


COMPONENTS = (
    "gpu-operator",
    "k8s-device-plugin",
    "mig-parted",
    "dra-driver-nvidia-gpu",
    "gpu-driver-container",
    "k8s-operator-libs",
    "dcgm-exporter",
    "nvidia-container-toolkit",
)
"""NVIDIA's repositories of components that rules make predictions about."""
OF_A_COMPONENT = re.compile(rf"(?:github\.com/)?(?:[\w-]+/)?(?:{'|'.join(COMPONENTS)})\s+\S")


def component_rules():
    """The rules that follow from the source of a component of NVIDIA's, in the words of `Rule.source`."""
    return [rule for rule in rule_book().rules if OF_A_COMPONENT.search(rule.source)]


def upstream_rows():
    compared = {"": "read only", **{name: f"{name}-runs.json" for name in ("mig-parted", "sharing")}}
    rows = ["| rule | severity | upstream file and function | run |", "|---|---|---|---|"]
    rows += [
        f"| {link(rule)} | {rule.default} | {cell(rule.source)} | {compared[rule.runs]} |" for rule in component_rules()
    ]
    return "\n".join(rows)


def versions_page(text):
    for name, rows in (("Kubernetes", kubernetes_rows()), ("NVIDIA", nvidia_rows())):
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        after = rest.partition(f"<!-- end of {name} -->\n")[2]
        text = f"{before}<!-- {name} -->\n{rows}\n<!-- end of {name} -->\n{after}"
    return text


def starts_page(text):
    rows = ["| text, for example | cause | what to do | source |", "|---|---|---|---|"]
    for row in KNOWN_FAILURES:
        example = known_text(next(message for message, _ in TEXTS if known_failure(message).row is row))
        remedies = row.remedy, f"an administrator can {row.administrator}" if row.administrator else ""
        cells = f"`{example}`", filled(row.cause), filled("; ".join(filter(None, remedies))), f"`{row.source}`"
        rows.append(f"| {' | '.join(map(cell, cells))} |")
    before, _, rest = text.partition("<!-- rows -->\n")
    after = rest.partition("<!-- end of rows -->\n")[2]
    body = "\n".join(rows)
    return f"{before}<!-- rows -->\n{body}\n<!-- end of rows -->\n{after}"


def filled(text):
    """A text of a row with its placeholders in capitals: `node NODE`."""
    return re.sub(r"\{(\w+)\}", lambda found: "" if found[1] == "reserved" else found[1].upper(), text)


def kubernetes_rows():
    versions = " | ".join(f"1.{minor}" for minor in SHOWN_MINORS)
    rows = [
        f"| | {versions} | what is read differently | proven by | source |",
        f"|---|{'---|' * len(SHOWN_MINORS)}---|---|---|",
    ]
    for feature in Feature:
        row = feature.value
        stages = [feature.stage_in((1, minor)) for minor in SHOWN_MINORS]
        words = [stage.words if stage else "" for stage in stages]
        name = row.what or f"`{feature.name}`"
        source = f"`{row.source}`" if row.source else ""
        rows.append("| " + " | ".join([name, *words, row.reading, row.shown_by, source]) + " |")
    return "\n".join(rows)


def nvidia_rows():
    rows = ["| | component | since | stage | what is read differently | source |", "|---|---|---|---|---|---|"]
    for feature in NVIDIAFeature:
        row = feature.value
        stage = row.stage.words if feature.is_gate else ""
        name, source = row.what or f"`{feature.name}`", f"`{row.source}`" if row.source else ""
        rows.append(f"| {name} | {row.component} | {row.since} | {stage} | {row.reading} | {source} |")
    return "\n".join(rows)


def cell(text):
    return text.replace("|", "\\|")


def test_pages_of_rules_are_what_the_rules_say():
    assert {path: path.read_text() for path in RULES.iterdir()} == rules_pages()


def test_titles_for_completion_are_those_of_the_rules():
    assert TITLES.read_text() == titles()


def test_table_of_the_catalogue_is_what_the_rules_cover():
    text = CATALOGUE.read_text()
    assert text == catalogue_page(text)


def test_page_of_versions_is_what_the_tables_say():
    text = VERSIONS.read_text()
    assert text == versions_page(text)


def test_page_of_pod_starts_is_what_the_table_says():
    text = STARTS.read_text()
    assert text == starts_page(text)


def test_catalogue_covers_nearly_everything():
    covered = {row for rule in rule_book().rules for row in rule.rows if not row.startswith("S")}
    left = set(
        re.findall(r"^\| ([A-L]-\d\d) \|", CATALOGUE.read_text().partition("<!-- end of rows -->")[2], re.MULTILINE)
    )
    assert not covered & left
    assert len(covered | left) == 211
    assert len(covered) >= 190


NAMES_A_COMPONENT = re.compile(
    r"\b(operator|device plugin|config-manager|mig-parted|MIG manager|exporter|DRA driver)\b"
)


def test_rules_about_components_name_their_source():
    """Rules that follow from Kubernetes' own checks name those instead."""
    rules = [rule for rule in rule_book().rules if rule.subject in ("configuration", "claims")]
    named = {rule.id for rule in rules if NAMES_A_COMPONENT.search(rule.why) and not rule.source.startswith("k8s.io/")}
    assert len(named) > 60
    assert named <= {rule.id for rule in component_rules()}


def test_rules_that_were_compared_with_runs_have_a_row():
    compared = {rule.id for rule in rule_book().rules if rule.runs}
    assert compared
    assert compared <= {rule.id for rule in component_rules()}


if __name__ == "__main__":
    for path, text in rules_pages().items():
        path.write_text(text)
    TITLES.write_text(titles())
    CATALOGUE.write_text(catalogue_page(CATALOGUE.read_text()))
    STARTS.write_text(starts_page(STARTS.read_text()))
    VERSIONS.write_text(versions_page(VERSIONS.read_text()))
