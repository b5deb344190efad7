"""Whatever a pod says of a label that a real node has: its claim gets the GPU where the pod got the node.

Or the pod is refused, with a message in words. Both hold for both forms in which the driver publishes the GPU.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from policies.admission import review
from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS

LABELS = json.loads(Path(__file__).with_name("h100.json").read_text())["nodeLabels"] | {
    "nvidia.com/gpu.present": "true"
}
TRANSLATED = {
    *("gpu.product", "gpu.family", "gpu.memory", "gpu.compute.major", "gpu.compute.minor", "gpu.present"),
    *("gpu.sharing-strategy", "cuda.driver.major", "cuda.driver.minor", "cuda.driver.rev"),
    *(f"cuda.driver-version.{part}" for part in ("full", "major", "minor", "revision")),
    *("cuda.runtime.major", "cuda.runtime.minor"),
    *(f"cuda.runtime-version.{part}" for part in ("full", "major", "minor")),
}
"""What a device says too; a pod that names the node's own value of it is converted, not refused."""


def in_affinity(*expressions):
    return {
        "affinity": {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}
    }


def ways(key, value):
    """All ways in which a pod can say something of a label, with the value that the node has and others."""
    other = str(2 * int(value) + 1) if value.isdecimal() else f"{value}-x"
    yield {"nodeSelector": {key: value}}
    yield {"nodeSelector": {key: other}}
    for operator in ("In", "NotIn"):
        for values in ([value], [other], [value, other]):
            yield in_affinity({"key": key, "operator": operator, "values": values})
    for operator in ("Exists", "DoesNotExist"):
        yield in_affinity({"key": key, "operator": operator})
    if value.isdecimal():
        for step in (-2000, -406, -1, 0, 1, 406, 2000):
            for operator in ("Gt", "Lt"):
                yield in_affinity({"key": key, "operator": operator, "values": [str(int(value) + step)]})


def pod(spec, annotations=None, resource="nvidia.com/gpu"):
    amounts = {"limits": {resource: "1"}, "requests": {resource: "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "train", "resources": amounts}], **spec},
    }


def conversion(hardware, document):
    return review(Request(object=document, namespace="team-a"), hardware.view, DEFAULTS)


def gets_gpu(hardware, decision):
    return hardware.gives_devices(decision.templates[0].spec["spec"])


def assert_keeps_its_meaning(hardware, spec, resource="nvidia.com/gpu"):
    """The claim gets the device if the node is selected, or the author is told why no claim says this."""
    decision = conversion(hardware, pod(spec, resource=resource))
    if decision.templates:
        assert gets_gpu(hardware, decision) == bool(NodeIndex([hardware.node]).select(spec)), spec
        return
    (reported,) = (
        each for each in decision.findings if (each.rule.id, each.severity) in (("GA307", "deny"), ("GA306", "warn"))
    )
    assert str(reported.path).startswith(("spec.nodeSelector", "spec.affinity"))
    assert len(reported.message.split()) > 3
    assert reported.remedy


@pytest.mark.parametrize("key", LABELS)
def test_condition_on_a_label_gets_the_device_where_it_got_the_node(h100, key):
    for spec in ways(key, LABELS[key]):
        assert_keeps_its_meaning(h100, spec)


def test_memory_of_an_h200_gets_the_device_where_it_got_the_node(h200):
    for spec in ways("nvidia.com/gpu.memory", "143771"):
        assert_keeps_its_meaning(h200, spec)


def test_mig_device_is_found_by_the_labels_of_its_node(h100_divisible):
    for key, value in LABELS.items():
        for spec in ({"nodeSelector": {key: value}}, in_affinity({"key": key, "operator": "NotIn", "values": [value]})):
            assert_keeps_its_meaning(h100_divisible, spec, "nvidia.com/mig-1g.10gb")


def test_labels_that_devices_know_are_not_refused(h100):
    converted = {key for key, value in LABELS.items() if conversion(h100, pod({"nodeSelector": {key: value}})).allowed}
    assert converted == {f"nvidia.com/{name}" for name in TRANSLATED}


def test_all_that_devices_know_gets_the_device_together(h100):
    selector = {f"nvidia.com/{name}": LABELS[f"nvidia.com/{name}"] for name in sorted(TRANSLATED)}
    assert gets_gpu(h100, conversion(h100, pod({"nodeSelector": selector})))


WISHES = [
    ("product", "NVIDIA-H100-80GB-HBM3", True),
    ("product", "H100*", True),
    ("product", "H200*", False),
    ("min-memory", "81559Mi", True),
    ("min-memory", "81560Mi", False),
    ("min-memory", "80G", True),
    ("min-memory", "80Gi", False),
    ("max-memory", "81559Mi", True),
    ("max-memory", "81558Mi", False),
    ("max-memory", "80Gi", True),
    ("min-compute-capability", "9.0", True),
    ("min-compute-capability", "9.1", False),
    ("family", "hopper", True),
    ("family", "blackwell", False),
    ("min-driver", "580.159.04", True),
    ("min-driver", "580.159.4", True),
    ("min-driver", "580.159.05", False),
    ("min-cuda", "13.0", True),
    ("min-cuda", "13.1", False),
    ("sharing", "exclusive", True),
]


@pytest.mark.parametrize(("word", "text", "is_met"), WISHES)
def test_wish_is_met_by_the_device_as_by_the_labels_of_its_node(h100, word, text, is_met):
    decision = conversion(h100, pod({}, {f"gpu-admission.io/{word}": text}))
    assert gets_gpu(h100, decision) is is_met
    assert ("GA313" in {finding.rule.id for finding in decision.findings}) is not is_met


UNREADABLE = [
    (word, text)
    for word in ("min-memory", "max-memory")
    for text in ("80", "80GB", "80 gb", "80GiB", "81559", "81559MiB")
]


@pytest.mark.parametrize(("word", "text"), UNREADABLE)
def test_memory_that_is_proposed_for_an_unreadable_wish_is_what_the_gpu_has(h100, word, text):
    (refused,) = conversion(h100, pod({}, {f"gpu-admission.io/{word}": text})).denials
    assert refused.rule.id == "GA401"
    (proposed,) = re.findall(r'^write "(\w+)"$', refused.remedy)
    decision = conversion(h100, pod({}, {f"gpu-admission.io/{word}": proposed}))
    assert not decision.findings
    assert gets_gpu(h100, decision)
