"""The pages of docs/rules, the tables of docs/evidence.md, docs/pod-starts.md and docs/versions.md, and the titles for completion match the code.

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
EVIDENCE = ROOT / "docs" / "evidence.md"
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
    lines += [
        "",
        "## By part of the GPU Operator",
        "",
        "The CRDs of the GPU Operator accept many configurations that cannot work; the operator reports them minutes later, in a status, in a",
        "log, or never. These rules find 210 of 211 that are known:",
        "",
        *rules_by_part(),
        "",
        "## All rules",
    ]
    lines += ["", "| rule | title | severity | subject |", "|---|---|---|---|"]
    for subject in SUBJECTS:
        lines += [f"| {link(rule)} | {cell(rule.title)} | {rule.default} | {subject} |" for rule in rules_of(subject)]
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


def link(rule, folder=""):
    """A link to the section of a rule, on a page of rules or of the folder above."""
    return f"[{rule.id}]({folder}{rule.subject}.md#{rule.id.lower()})"


def rules_of(subject):
    return [rule for rule in rule_book().rules if rule.subject == subject]


def titles():
    return "".join(f"{rule.id} {rule.title}\n" for rule in rule_book().rules)


PARTS = {
    "A": "one ClusterPolicy or GPUCluster, its life and what depends on it",
    "B": "images",
    "C": "driver",
    "D": "RDMA and storage",
    "E": "upgrades and DaemonSets",
    "F": "container runtime",
    "G": "device plugin",
    "H": "MIG",
    "I": "DCGM",
    "J": "sandbox workloads",
    "K": "NVIDIADriver",
    "L": "GPUCluster",
    "S": "mistakes of published guides",
}
"""The meaning of the first letters of the rows."""


def rules_by_part():
    """The rules on the GPU Operator's configuration by what they are about."""
    table = ["| about | misconfigurations | rules |", "|---|---|---|"]
    for letter, part in PARTS.items():
        rules = [rule for rule in rule_book().rules if any(row.startswith(letter) for row in rule.rows)]
        count = len({row for rule in rules for row in rule.rows if row.startswith(letter)})
        table.append(f"| {part} | {count} | {', '.join(map(link, rules))} |")
    return table


def evidence_page(text):
    before, _, rest = text.partition("<!-- upstream -->\n")
    after = rest.partition("<!-- end of upstream -->\n")[2]
    return f"{before}<!-- upstream -->\n{upstream_rows()}\n<!-- end of upstream -->\n{after}"


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
    """The rules that were compared with runs, and the number of those whose source was only read."""
    read = sum(not rule.runs for rule in component_rules())
    rows = ["| compared with | rules |", "|---|---|"]
    for name in ("mig-parted", "sharing"):
        rules = [rule for rule in component_rules() if rule.runs == name]
        rows.append(f"| `{name}-runs.json` | {', '.join(link(rule, 'rules/') for rule in rules)} |")
    return "\n".join([*rows, f"| the source only | {read} others |"])


def versions_page(text):
    for name, rows in (("Kubernetes", kubernetes_rows()), ("NVIDIA", nvidia_rows())):
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        after = rest.partition(f"<!-- end of {name} -->\n")[2]
        text = f"{before}<!-- {name} -->\n{rows}\n<!-- end of {name} -->\n{after}"
    return text


PHRASES = {
    "delete the pod, so that it, or the one that its controller makes, is scheduled anew: kubectl delete pod POD -n NAMESPACE": (
        "*delete the pod*"
    ),
    "look at the pods of the GPU software there: kubectl get pods -A -o wide --field-selector spec.nodeName=NODE": (
        "*look at the pods of the node*"
    ),
    "read the log of the driver's kubelet plugin on node NODE": "*read the log of the driver*",
}
"""Remedies of many rows, and what the page calls them."""


def starts_page(text):
    rows = ["| text, for example | cause | what to do | an administrator can |", "|---|---|---|---|"]
    for row in KNOWN_FAILURES:
        example = known_text(next(message for message, _ in TEXTS if known_failure(message).row is row))
        cells = (filled(row.cause), *(short(filled(each)) for each in (row.remedy, row.administrator)))
        rows.append(f"| `{cell(example)}` | {' | '.join(map(cell, cells))} |")
    before, _, rest = text.partition("<!-- rows -->\n")
    after = rest.partition("<!-- end of rows -->\n")[2]
    body = "\n".join(rows)
    return f"{before}<!-- rows -->\n{body}\n<!-- end of rows -->\n{after}"


def short(remedy):
    """A remedy with the names of the page for what many rows have."""
    for phrase, name in PHRASES.items():
        remedy = remedy.replace(phrase, name)
    return remedy


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


def test_page_of_evidence_has_the_rules_that_were_compared_with_runs():
    text = EVIDENCE.read_text()
    assert text == evidence_page(text)


def test_page_of_versions_is_what_the_tables_say():
    text = VERSIONS.read_text()
    assert text == versions_page(text)


def test_page_of_pod_starts_is_what_the_table_says():
    text = STARTS.read_text()
    assert text == starts_page(text)


def test_rules_find_nearly_every_known_misconfiguration():
    covered = {row for rule in rule_book().rules for row in rule.rows if not row.startswith("S")}
    left = set(re.findall(r"^\| ([A-L]-\d\d) \|", EVIDENCE.read_text(), re.MULTILINE))
    assert not covered & left
    assert (len(covered), len(covered | left)) == (210, 211)


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
    EVIDENCE.write_text(evidence_page(EVIDENCE.read_text()))
    STARTS.write_text(starts_page(STARTS.read_text()))
    VERSIONS.write_text(versions_page(VERSIONS.read_text()))
