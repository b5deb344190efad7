"""Tolerations of operands: GA175, GA176."""

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text

HEADS = {
    "ClusterPolicy": "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n",
    "GPUCluster": "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\nspec:\n",
    "NVIDIADriver": "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: default}\nspec:\n",
}
GPU = "{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"
SKU = "{key: sku, operator: Equal, value: gpu, effect: NoSchedule}"


def daemonsets(text, *cluster, kind="ClusterPolicy", rest=""):
    return "\n---\n".join([f"{HEADS[kind]}  daemonsets: {{{text}}}\n{rest}", *cluster])


def node(taint="", name="gpu-1", labels=""):
    spec = f"{{taints: [{{{taint}}}]}}" if taint else "{}"
    return (
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{nvidia.com/gpu.present: 'true'{labels}}}}}\n"
        f"spec: {spec}"
    )


def findings_of(found, rule):
    return [(finding.severity, plain_text(finding)) for finding in found if finding.rule.id == rule]


@pytest.mark.parametrize(
    ("kind", "verb"), [("ClusterPolicy", "replaces the default"), ("GPUCluster", "leaves out the")]
)
def test_tolerations_without_the_usual_one_are_warned_of(examined, kind, verb):
    assert findings_of(examined(daemonsets(f"tolerations: [{SKU}]", kind=kind)), "GA175") == [
        (
            Severity.WARN,
            (
                f"spec.daemonsets.tolerations: {verb} toleration of nvidia.com/gpu, which GPU nodes often need; add {{key: "
                "nvidia.com/gpu, operator: Exists, effect: NoSchedule}"
            ),
        )
    ]


def test_gpu_cluster_has_no_default_toleration(examined):
    tainted = node("key: nvidia.com/gpu, value: present, effect: NoSchedule")
    assert findings_of(examined(daemonsets("", tainted, kind="GPUCluster")), "GA175") == [
        (
            Severity.WARN,
            (
                "spec.daemonsets.tolerations: leaves the taint nvidia.com/gpu=present:NoSchedule of the GPU node "
                '"gpu-1" untolerated; no operand runs there; add {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}'
            ),
        )
    ]


@pytest.mark.parametrize(
    "text", ["", "tolerations: []", f"tolerations: [{GPU}, {SKU}]", "tolerations: [{operator: Exists}]"]
)
def test_tolerations_with_the_default_are_left_alone(examined, text):
    assert findings_of(examined(daemonsets(text)), "GA175") == []
    assert (
        findings_of(
            examined(daemonsets(text, node("key: nvidia.com/gpu, value: present, effect: NoSchedule"))), "GA175"
        )
        == []
    )


def test_tolerations_that_suit_the_known_nodes_are_left_alone(examined):
    tainted = node("key: sku, value: gpu, effect: NoSchedule")
    assert findings_of(examined(daemonsets(f"tolerations: [{SKU}]", tainted)), "GA175") == []
    assert findings_of(examined(daemonsets(f"tolerations: [{SKU}]", node())), "GA175") == []


def test_tolerations_that_take_operands_off_nodes_are_refused(examined):
    tainted = node("key: nvidia.com/gpu, value: present, effect: NoSchedule")
    assert findings_of(examined(daemonsets(f"tolerations: [{SKU}]", tainted)), "GA175") == [
        (
            Severity.DENY,
            (
                "spec.daemonsets.tolerations: leaves the taint nvidia.com/gpu=present:NoSchedule of the GPU node "
                '"gpu-1" untolerated; operands would leave these nodes, and no GPU would be offered; add '
                "{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"
            ),
        )
    ]


def test_taint_that_nothing_tolerates_is_warned_of(examined):
    cluster = [node("key: sku, value: gpu, effect: NoSchedule", name) for name in ("a", "b")]
    assert findings_of(examined(daemonsets("", *cluster)), "GA175") == [
        (
            Severity.WARN,
            (
                'spec.daemonsets.tolerations: leaves the taint sku=gpu:NoSchedule of 2 GPU nodes ("a", "b") untolerated; no '
                "operand runs there; add {key: sku, operator: Exists, effect: NoSchedule}, and the default {key: "
                "nvidia.com/gpu, operator: Exists, effect: NoSchedule}, which is replaced then"
            ),
        )
    ]


@pytest.mark.parametrize(
    "taint",
    [
        "key: sku, effect: PreferNoSchedule",
        "key: node.kubernetes.io/unschedulable, effect: NoSchedule",
        "key: karpenter.sh/disrupted, effect: NoSchedule",
        "key: ToBeDeletedByClusterAutoscaler, value: '1', effect: NoSchedule",
    ],
)
def test_taints_that_pass_are_left_alone(examined, taint):
    assert findings_of(examined(daemonsets(f"tolerations: [{GPU}]", node(taint))), "GA175") == []


def test_nodes_without_operands_are_left_alone(examined):
    off = node("key: sku, effect: NoSchedule", labels=", nvidia.com/gpu.deploy.operands: 'false'")
    assert findings_of(examined(daemonsets("", off)), "GA175") == []


def test_nodes_that_have_lost_their_gpus_are_left_alone(examined):
    """The GPU Operator sets its label to `false` there."""
    lost = node("key: sku, value: gpu, effect: NoSchedule").replace("present: 'true'", "present: 'false'")
    assert findings_of(examined(daemonsets("", lost)), "GA175") == []


GOOD = "write {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        (
            "key: a, operator: Exists, value: b",
            '.value: "b" contradicts operator: Exists, which matches every value; remove value, or write operator: Equal',
        ),
        ("key: a, operator: exists", '.operator: "exists" is neither "Exists" nor "Equal"; write "Exists"'),
        ("key: a, operator: In", '.operator: "In" is neither "Exists" nor "Equal"; write one of Exists, Equal'),
        ("key: a, effect: NoSchedul", '.effect: "NoSchedul" is not an effect of a taint; write "NoSchedule"'),
        (
            "operator: Equal, value: b",
            ".key: is empty, which stands for all keys, and that needs operator: Exists; write a key, or operator: Exists",
        ),
        (
            "key: a, tolerationSeconds: 5, effect: NoSchedule, operator: Exists",
            (
                ".tolerationSeconds: needs effect: NoExecute, because only that evicts running pods; "
                "remove tolerationSeconds, or write effect: NoExecute"
            ),
        ),
        (
            "key: a b, operator: Exists",
            '.key: "a b" cannot be the key of a taint; write the key as the node\'s taint has it',
        ),
        (
            "key: a, value: a b",
            '.value: "a b" cannot be the value of a taint; write the value as the node\'s taint has it',
        ),
    ],
)
def test_toleration_that_the_api_server_refuses_is_refused(examined, toleration, text):
    found = findings_of(examined(daemonsets(f"tolerations: [{GPU}, {{{toleration}}}]")), "GA176")
    assert found == [(Severity.DENY, f"spec.daemonsets.tolerations[1]{text}")]


@pytest.mark.parametrize("kind", ["GPUCluster", "NVIDIADriver"])
def test_tolerations_of_other_kinds_are_read_as_well(examined, kind):
    spec = "  tolerations: [{operator: Equal}]\n" if kind == "NVIDIADriver" else "  daemonsets: {tolerations: [{}]}\n"
    assert len(findings_of(examined(HEADS[kind] + spec), "GA176")) == 1


@pytest.mark.parametrize(
    "toleration",
    [
        "operator: Exists",
        "key: a",
        "key: a, operator: Equal, value: ''",
        "key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 300",
        "key: a, operator: Gt, value: '5'",
    ],
)
def test_toleration_that_the_api_server_takes_is_left_alone(examined, toleration):
    assert findings_of(examined(daemonsets(f"tolerations: [{GPU}, {{{toleration}}}]")), "GA176") == []
