"""Reviews and explanations of trimmed objects equal those of whole objects."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.analyses.explain import Explanation, explain
from policies.kubernetes.objects import json_document
from policies.outcome import questions
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.properties import examples
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import unwrap_lists

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CLUSTER = EXAMPLES / "cluster"
CASES = sorted((ROOT / "tests" / "conversion" / "cases").glob("*.yaml"))
CLUSTERS = ROOT / "tests" / "conversion" / "clusters"
ASKED = sorted(
    path
    for path in EXAMPLES.glob("*/*.yaml")
    if not path.parent.name.startswith("cluster") and "settings" not in path.name
)
RULES = [rule for rule in rule_book().rules if rule.id.startswith("GA1")]
UNSEEN = {"GA128", "GA130", "GA158"}
"""Rules whose examples have what is not watched: pods without GPUs that take a port of the host, and ConfigMaps in a
namespace where the operator does not look."""


@cache
def documents(path):
    """The objects in a file, and what `kubectl version` printed as it is."""
    read = [document for document in libyaml.load_all(path.read_text()) if document]
    return [item for each in read for item in (unwrap_lists(each) if "kind" in each else [each])]


CASES_OF_PODS = [file for file in CASES if documents(file)[1]["kind"] == "Pod"]


def folder(path):
    return [item for file in sorted(path.glob("*.yaml")) for item in documents(file)]


def findings_of(decision):
    return decision.allowed, decision.findings, decision.warnings, decision.patch, decision.templates


def answered(question, view):
    return json_document(explain(question, view, DEFAULTS), Explanation)


def request_of(item, old=None, operation="CREATE"):
    group, _, _ = (item.get("apiVersion") or "").rpartition("/")
    metadata = item.get("metadata") or {}
    return Request(
        None if operation == "DELETE" else item,
        old_object=item if operation == "DELETE" else old,
        operation=operation,
        group=group,
        kind=item.get("kind") or "",
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )


def test_examples_are_reviewed_as_with_whole_objects(both):
    manifests, live = both([*folder(CLUSTER), *folder(EXAMPLES / "cluster-in-use")])
    different = set()
    for file in ASKED:
        for request in map(request_of, documents(file)):
            if findings_of(review(request, live, DEFAULTS)) != findings_of(review(request, manifests, DEFAULTS)):
                different.add(f"{file.parent.name}/{file.name}")
    assert different == set()


def test_examples_are_explained_as_with_whole_objects(both):
    manifests, live = both([*folder(CLUSTER), *folder(EXAMPLES / "cluster-in-use")])
    different = set()
    for file in ASKED:
        for item in documents(file):
            of_live, of_manifests = (
                [answered(each, view) for each in questions(item, "team-a", view, DEFAULTS)]
                for view in (live, manifests)
            )
            if of_live != of_manifests:
                different.add(f"{file.parent.name}/{file.name}")
    assert different == set()


@pytest.mark.parametrize("kind", ["Pod", "ResourceClaim"])
def test_stored_object_is_explained_as_with_whole_objects(both, kind):
    manifests, live = both([*folder(CLUSTER), *folder(EXAMPLES / "cluster-in-use")])
    names = [(item["metadata"]["name"], item["metadata"]["namespace"]) for item in manifests.list(kind)]
    assert names
    for name, namespace in names:
        explained = [
            [
                answered(each, view)
                for each in questions(view.get(kind, name, namespace), namespace, view, DEFAULTS, found=True)
            ]
            for view in (live, manifests)
        ]
        assert explained[0] == explained[1]


def test_cases_of_conversion_are_decided_as_with_whole_objects(both):
    different = set()
    for file in CASES_OF_PODS:
        header, asked = documents(file)[:2]
        case = header["case"]
        objects = folder(CLUSTER)
        if (named := CLUSTERS / f"{case.get('cluster', '')}.yaml").exists():
            objects = [item for item in objects if item.get("kind") not in ("Node", "ResourceSlice")] + documents(named)
        manifests, live = both([*objects, *case.get("with", [])])
        request = Request(asked, namespace=case.get("namespace", "team-a"), entry=case.get("entry", ""))
        if findings_of(review(request, live, DEFAULTS)) != findings_of(review(request, manifests, DEFAULTS)):
            different.add(file.stem)
    assert different == set()


def examples_of(rule):
    for text in read_examples(rule.id):
        parts = re.split(r"(?m)^---(.*)$", text)
        rest = [(mark, libyaml.load(part)) for mark, part in zip(parts[1::2], parts[2::2], strict=True)]
        old = next((item for mark, item in rest if "before" in mark), None)
        operation = re.match(r"# operation: (\w+)", text)
        done = operation.group(1) if operation else "UPDATE" if old else "CREATE"
        yield request_of(libyaml.load(parts[0]), old, done), [item for mark, item in rest if "before" not in mark]


def test_examples_of_rules_are_judged_as_with_whole_objects(both):
    different = set()
    for rule in RULES:
        if rule.id in UNSEEN:
            continue
        for request, cluster in examples_of(rule):
            manifests, live = both(cluster)
            if findings_of(review(request, live, DEFAULTS)) != findings_of(review(request, manifests, DEFAULTS)):
                different.add(rule.id)
    assert different == set()


AMOUNTS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "cpu", "example.com/other"]),
    st.sampled_from(["0", "1", "2", "16", "500m"]),
    max_size=3,
)
LABELS = st.dictionaries(
    st.sampled_from(
        ["nvidia.com/gpu.product", "nvidia.com/gpu.family", "kubernetes.io/hostname", "node.kubernetes.io/x"]
    ),
    st.sampled_from(["NVIDIA-H100-80GB-HBM3", "NVIDIA-H10O-80GB-HBM3", "hopper", "gpu-h100-01", ""]),
    max_size=2,
)
WISHES = st.dictionaries(
    st.sampled_from(["product", "min-memory", "sharing", "family", "min-cuda"]),
    st.sampled_from(["H100*", "40Gi", "exclusive", "hopper", "12.4", "nothing"]),
    max_size=2,
)


@given(
    amounts=AMOUNTS,
    selector=LABELS,
    wishes=WISHES,
    namespace=st.sampled_from(["team-a", "team-legacy", "team-preview", "nowhere"]),
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_pod_is_reviewed_as_with_whole_objects(both, amounts, selector, wishes, namespace):
    manifests, live = both([*folder(CLUSTER), *folder(EXAMPLES / "cluster-in-use")])
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "any",
            "namespace": namespace,
            "annotations": {f"gpu-admission.io/{word}": text for word, text in wishes.items()},
        },
        "spec": {
            "nodeSelector": selector,
            "containers": [{"name": "main", "image": "any", "resources": {"limits": amounts, "requests": amounts}}],
        },
    }
    request = Request(pod, namespace=namespace)
    assert findings_of(review(request, live, DEFAULTS)) == findings_of(review(request, manifests, DEFAULTS))
