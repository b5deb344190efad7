"""The golden table of conversion: what happens to which pod, one file each in `cases/`.

A case is a file of YAML documents, made to be read from top to bottom:

1. `case:` with `what` (one sentence) and, where they differ from the defaults, `namespace` (team-a, which is opted in),
   `cluster` (the name of a file in `clusters/` that takes the place of the nodes and ResourceSlices of
   examples/cluster; `unknown` for a cluster of which nothing is known), `without` (`Kind` or `Kind/name`: what to leave
   out of it), `with` (objects to add, or to put in the place of those of the same name), `settings` (the spec of a
   GPUAdmissionPolicy), `operation` (CREATE), `stored` (of an UPDATE, the pod as it is; the same where absent), `user`
   (its name), `entry` (all that the API server would call).
2. The pod as the API server shows it to webhooks, requests filled in; or a workload, whose pod templates are reviewed
   as the pods that its controller would create.
3. What is decided: `allowed`, the texts of `refusal`, `warnings` and `audit` where there are any, and
   `object: unchanged` if so.
4. Otherwise the admitted pod, whole.
5. The ResourceClaimTemplates that it needs, each by name and spec.

After an intended change, `python tests/conversion/test_golden.py --update [NAME]...` writes 3 to 5 anew; documents 1
and 2 stay as they are. Read the difference: a golden file proves only that somebody once found it right.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import jsonpatch
import pytest
import yaml

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.kubernetes.pod_templates import with_defaults
from policies.kubernetes.workloads import pod_templates
from policies.rules.decision import Severity
from policies.rules.messages import LONGEST
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, parse_settings
from testbed import libyaml
from tests.findings import labelled_text
from webhook.cluster.manifests import ManifestsView, unwrap_lists

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "cluster"
CASES = sorted((HERE / "cases").glob("*.yaml"))
PLACED = ("Node", "ResourceSlice")


class Readable(yaml.SafeDumper):
    """Writes short mappings and lists in one line, and the same object twice rather than an alias."""

    def ignore_aliases(self, data):
        return True

    def represent_sequence(self, tag, sequence, flow_style=None):
        return self._in_one_line(super().represent_sequence(tag, sequence, flow_style))

    def represent_mapping(self, tag, mapping, flow_style=None):
        return self._in_one_line(super().represent_mapping(tag, mapping, flow_style))

    @staticmethod
    def _in_one_line(node):
        leaves = [leaf for item in node.value for leaf in (item if isinstance(item, tuple) else (item,))]
        plain = all(isinstance(leaf, yaml.ScalarNode) for leaf in leaves)
        node.flow_style = plain and sum(len(leaf.value) for leaf in leaves) <= 80
        return node


def load(text):
    return list(libyaml.load_all(text))


def dump(documents):
    return [
        yaml.dump(document, Dumper=Readable, sort_keys=False, width=10**6, allow_unicode=True) for document in documents
    ]


@cache
def cluster(name):
    """The objects of a cluster, without lists around them."""
    if name == "unknown":
        return []
    files = sorted(EXAMPLE.glob("*.yaml"))
    objects = [item for file in files for document in load(file.read_text()) for item in unwrap_or_keep(document)]
    if name != "example":
        objects = [item for item in objects if item.get("kind") not in PLACED]
        objects += load((HERE / "clusters" / f"{name}.yaml").read_text())
    return objects


def unwrap_or_keep(document):
    """`kubectl version` prints a document without a kind."""
    return unwrap_lists(document) if "kind" in document else [document]


def view_of(case):
    without = case.get("without", [])
    objects = [
        item
        for item in cluster(case.get("cluster", "example"))
        if item.get("kind") not in without
        and f"{item.get('kind')}/{item.get('metadata', {}).get('name')}" not in without
    ]
    return ManifestsView([*objects, *case.get("with", [])])


def settings_of(case):
    if "settings" not in case:
        return DEFAULTS
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
    }
    return parse_settings({**document, "spec": case["settings"]})


def pods_of(given):
    """The pods to review, with the places of their templates where it is a workload."""
    if given["kind"] == "Pod":
        return [("", given)]
    return [
        (str(found.path), with_defaults({"apiVersion": "v1", "kind": "Pod", **found.template}))
        for found in pod_templates(given)
    ]


@cache
def reviews(file):
    """What is asked and decided in a case: for each pod its place, the request, the answer, and how to ask again."""
    header, given = load(file.read_text())[:2]
    case = header["case"]
    view, settings = view_of(case), settings_of(case)
    answers = []
    for place, pod in pods_of(given):
        request = Request(
            object=None if case.get("operation") == "DELETE" else pod,
            old_object=case.get("stored", pod) if case.get("operation") in ("UPDATE", "DELETE") else None,
            operation=case.get("operation", "CREATE"),
            namespace=case.get("namespace", "team-a"),
            user=UserInfo(case.get("user", "")),
            entry=case.get("entry", ""),
        )
        answers.append((place, request, review(request, view, settings), lambda again: review(again, view, settings)))
    return answers


def outcome(file):
    """Documents 3 and following of a case, as they are decided now."""
    documents = []
    for place, request, decision, _ in reviews(file):
        unchanged = decision.object == request.object
        documents.append(
            {
                **({"template": place} if place else {}),
                "allowed": decision.allowed,
                **findings_of("refusal", [labelled_text(finding) for finding in decision.denials]),
                **findings_of("warnings", list(decision.warnings)),
                **findings_of(
                    "audit", [labelled_text(each) for each in decision.findings if each.severity is Severity.AUDIT]
                ),
                **({"object": "unchanged"} if unchanged else {}),
            }
        )
        documents += [] if unchanged else [decision.object]
        documents += [{"name": template.name, "spec": template.spec} for template in decision.templates]
    return documents


def findings_of(key, texts):
    return {key: texts} if texts else {}


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_case_ends_as_written(file):
    expected, decided = load(file.read_text())[2:], outcome(file)
    if expected != decided:
        lines = difflib.unified_diff(
            "---\n".join(dump(expected)).splitlines(),
            "---\n".join(dump(decided)).splitlines(),
            "as written",
            "as decided",
            lineterm="",
        )
        pytest.fail(f"{file.name}: {load(file.read_text())[0]['case']['what']}\n" + "\n".join(lines), pytrace=False)


def test_patch_of_every_case_makes_its_object():
    wrong = {
        file.stem
        for file in CASES
        for _, request, decision, _ in reviews(file)
        if jsonpatch.apply_patch(request.object, list(decision.patch)) != decision.object
    }
    assert wrong == set()


def test_second_review_of_every_case_changes_nothing():
    changed = set()
    for file in CASES:
        for _, request, decision, ask in reviews(file):
            if decision.allowed:
                again = ask(replace(request, object=decision.object))
                if (again.allowed, again.patch, again.templates) != (True, (), decision.templates):
                    changed.add(file.stem)
    assert changed == set()


def test_warnings_of_every_case_fit_into_headers():
    warnings = {line for file in CASES for _, _, decision, _ in reviews(file) for line in decision.warnings}
    assert warnings
    assert {line for line in warnings if len(line) > LONGEST or not line.isprintable()} == set()


def test_every_rule_of_conversion_is_reported_by_a_case():
    told_of = {rule for file in CASES for rule in re.findall(r"GA3\d\d", str(load(file.read_text())[2:]))}
    of_pods = {rule.id for rule in rule_book().rules if rule.id.startswith("GA3") and "Pod" in rule.kinds}
    assert told_of == of_pods


def update(names):
    """Write what is decided now into the files of the cases, below their first two documents."""
    for file in CASES:
        if names and file.stem not in names:
            continue
        text = file.read_text()
        new = "---\n".join([given_in(text), *dump(outcome(file))])
        if new != text:
            file.write_text(new)
            sys.stdout.write(f"{file.stem}\n")


def given_in(text):
    """The first two documents of a case, byte for byte."""
    return "---\n".join(re.split(r"^---\n", text, flags=re.MULTILINE)[:2])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Write anew what the golden cases of conversion expect.")
    arguments.add_argument("--update", nargs="*", metavar="NAME", required=True, help="cases; all where none is named")
    update(arguments.parse_args().update)
