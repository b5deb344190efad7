"""A second review of what the first one answered says the same, and changes nothing more.

The API server calls mutating webhooks again when another one changed the pod, and validating webhooks afterwards: all see
the conditions on nodes that placement wrote.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings

from policies.admission import review
from policies.kubernetes.names import RECORD
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement
from tests.findings import plain_text
from tests.robustness.generated_clusters import (
    CLASSES_AS_SHIPPED,
    CLASSES_WITH_RESOURCE,
    CLUSTERS,
    GPU,
    H100,
    LISTS,
    PODS,
    PRODUCTS,
    SETTINGS,
    T4,
)
from webhook.cluster.manifests import ManifestsView


def answered(pod, cluster, chosen=DEFAULTS, **fields):
    return review(Request(pod, namespace="team-a", **fields), ManifestsView(cluster), chosen)


def findings_of(decision):
    return sorted((finding.rule.id, finding.severity) for finding in decision.findings)


ESCAPED = {"GA320", "GA321"}
"""Rules on pods that something else changed after they were converted, or left."""


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pod=PODS, cluster=CLUSTERS, chosen=SETTINGS)
def test_second_review_says_the_same_and_changes_nothing(pod, cluster, chosen):
    first = answered(pod, cluster, chosen)
    note(f"first: {[plain_text(finding) for finding in first.findings]}, {first.patch}")
    assert not ESCAPED & {finding.rule.id for finding in first.findings}
    if not first.allowed:
        return
    second = answered(first.object, cluster, chosen)
    note(f"second: {[plain_text(finding) for finding in second.findings]}")
    assert (second.allowed, second.patch, second.templates) == (True, (), first.templates)
    if RECORD not in first.object["metadata"]["annotations"]:
        # What there is to say of a conversion is said when it happens.
        assert findings_of(second) == findings_of(first)


def node(name, product, sharing="none"):
    known = PRODUCTS[product]
    labels = {
        f"{GPU}.product": f"{product}-SHARED" if sharing != "none" else product,
        f"{GPU}.memory": known["memory"],
        f"{GPU}.family": known["family"],
        f"{GPU}.sharing-strategy": sharing,
    }
    info = {"kubeletVersion": "v1.36.0"}
    status = {"allocatable": {GPU: "8"}, "nodeInfo": info}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def namespace(mode="enabled", **labels):
    labels = {"gpu-admission.io/dra": mode, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


def training(gpus="1", **wish):
    annotations = {f"gpu-admission.io/{word.replace('_', '-')}": text for word, text in wish.items()}
    resources = {"limits": {GPU: gpus}, "requests": {GPU: gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "train:1", "resources": resources}]},
    }


TIME_SLICED = [namespace(), node("node-0", T4, "time-slicing"), *LISTS, *CLASSES_AS_SHIPPED]


def test_pod_left_for_shared_gpus_stays_so_if_no_shared_node_meets_its_wish():
    """Placement writes the wish into the pod; no node is selected then, and nothing would tell that GPUs are shared."""
    first = answered(training(min_memory="60Gi"), TIME_SLICED)
    assert [finding.rule.id for finding in first.findings] == ["GA306", "GA404"]
    assert first.object["spec"]["affinity"]
    for entry in ("", "convert-pods", "enforce-converted-pods"):
        assert "GA321" not in {finding.rule.id for finding in answered(first.object, TIME_SLICED, entry=entry).findings}
    second = answered(first.object, TIME_SLICED)
    assert (second.findings, second.patch) == (first.findings, ())


def test_pod_that_auto_leaves_stays_so_if_it_is_kept_off_shared_gpus():
    """The condition that keeps it off is the administrator's, and no reason for a template."""
    cluster = [
        namespace(**{"gpu-admission.io/dra-strategy": "auto"}),
        node("node-0", H100),
        *LISTS,
        *CLASSES_WITH_RESOURCE,
        {"serverVersion": {"gitVersion": "v1.36.2"}},
    ]
    chosen = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
    first = answered(training(), cluster, chosen)
    assert [finding.rule.id for finding in first.findings] == ["GA333"]
    assert first.object["spec"]["affinity"]
    second = answered(first.object, cluster, chosen)
    assert (second.findings, second.patch) == (first.findings, ())


def test_preview_does_not_speak_of_conditions_that_placement_wrote():
    """The name of a MIG product that is excluded becomes a label that no claim can tell."""
    cluster = [namespace("preview"), node("node-0", H100), *LISTS, *CLASSES_AS_SHIPPED]
    first = answered(training(product="!*MIG*"), cluster)
    second = answered(first.object, cluster)
    assert first.patch
    assert (second.findings, second.remarks, second.patch) == (first.findings, first.remarks, ())


def test_pod_gets_a_warning_of_the_nodes_that_its_wish_leaves():
    """A container gets one share by MPS, and the only node that would give it two GPUs has not the wished ones."""
    cluster = [namespace("disabled"), node("node-0", T4, "mps"), node("node-1", H100), *LISTS]
    first = answered(training("2", family="turing"), cluster)
    assert [finding.rule.id for finding in first.findings] == ["GA412"]
    assert answered(training("2"), cluster).findings == ()
    assert answered(first.object, cluster).findings == first.findings


def test_label_of_shared_gpus_that_placement_wrote_is_no_word_of_the_pods():
    """A wish for a product lists the labels that its nodes have, that of shared GPUs among them."""
    chosen = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
    cluster = [namespace("disabled"), node("node-0", T4, "mps"), *LISTS]
    first = answered(training(product="*T4"), cluster, chosen)
    assert [finding.rule.id for finding in first.findings] == ["GA411"]
    assert answered(first.object, cluster, chosen).findings == first.findings


@pytest.mark.parametrize("mode", ["disabled", "preview"])
def test_products_that_placement_wrote_are_not_reported_as_misspelt(mode):
    """A wish for exclusive GPUs lists the products without the suffix of shared ones, which the only node has."""
    cluster = [namespace(mode), node("node-0", H100, "time-slicing"), *LISTS, *CLASSES_AS_SHIPPED]
    first = answered(training(product="H100*", sharing="exclusive"), cluster)
    assert first.object["spec"]["affinity"]
    assert answered(first.object, cluster).findings == first.findings


def test_conversion_of_a_placed_pod_removes_its_conditions_on_nodes():
    others = [node("node-0", H100), *LISTS, *CLASSES_AS_SHIPPED]
    placed = answered(training(product="*H100*"), [namespace("disabled"), *others]).object
    assert placed["spec"]["affinity"]
    converted = answered(placed, [namespace(), *others])
    assert converted.templates
    assert "affinity" not in converted.object["spec"]
