"""A pod gets the node conditions of its wish."""

import pytest

from policies.kubernetes.pods import Pod
from policies.placement.place import place
from policies.placement.wish_annotations import read_wishes
from policies.rules.decision import Severity
from policies.rules.patch import Editor
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, WishDefault
from tests.findings import plain_text

GPU = {"nvidia.com/gpu": 1}
MIG = {"nvidia.com/mig-1g.5gb": 1}
BY_CLASS = {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}
BY_MIG_CLASS = {"deviceclass.resource.kubernetes.io/mig.nvidia.com": 1}
WISH = "metadata.annotations[gpu-admission.io/"
CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "mine"}]
ALL = ("f1", "f2", "f3", "f4", "f5", "f6")


@pytest.fixture
def severities():
    """The severities of what was said last."""
    return []


@pytest.fixture
def placed(pod, cluster, severities):
    """The spec of a pod that was placed by its wishes, without containers, and what was said."""

    def placed(words, limits, *parts, settings=DEFAULTS, **spec):
        asking = pod(limits, annotations={f"gpu-admission.io/{word}": text for word, text in words.items()}, **spec)
        edits = Editor(asking.document)
        view = cluster(*parts)
        found = list(place(asking, view, settings, read_wishes(asking, "team-a", view, settings), edits))
        severities[:] = [finding.severity for finding in found]
        given = {key: value for key, value in edits.document["spec"].items() if key != "containers"}
        return given, [(finding.rule.id, plain_text(finding)) for finding in found]

    return placed


def required(*terms):
    """Required node affinity of terms, each of expressions as texts: `key In a b`."""
    read = []
    for term in terms:
        expressions = []
        for text in term:
            key, operator, *values = text.split()
            expressions.append({"key": key, "operator": operator, **({"values": values} if values else {})})
        read.append({"matchExpressions": expressions})
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": read}}}


def test_one_product_becomes_a_node_selector(placed):
    assert placed({"product": "NVIDIA-GB200"}, GPU, *ALL) == (
        {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"}},
        [],
    )


def test_several_products_become_node_affinity(placed):
    spec, found = placed({"product": "A100*40GB,!*MIG*"}, GPU, *ALL)
    assert spec == {"affinity": required(["nvidia.com/gpu.product In NVIDIA-A100-PCIE-40GB NVIDIA-A100-SXM4-40GB"])}
    assert found == []


def test_wish_is_added_to_every_term_of_the_pods_own(placed):
    own = required(["zone In a"], ["zone In b", "disk Exists"])
    spec, _ = placed({"min-memory": "40Gi"}, GPU, *ALL, affinity=own)
    memory = "nvidia.com/gpu.memory Gt 40959"
    assert spec == {"affinity": required(["zone In a", memory], ["zone In b", "disk Exists", memory])}


def test_pod_that_selects_as_it_wishes_stays_as_it_is(placed):
    selector = {"nvidia.com/gpu.product": "NVIDIA-GB200"}
    assert placed({"product": "*GB200"}, GPU, *ALL, nodeSelector=selector) == ({"nodeSelector": selector}, [])


def test_placing_again_changes_nothing(placed):
    spec, _ = placed({"product": "H100*", "min-compute-capability": "8.6"}, GPU, *ALL)
    assert placed({"product": "H100*", "min-compute-capability": "8.6"}, GPU, *ALL, **spec) == (spec, [])


def test_all_resources_of_a_pod_are_as_wished(placed):
    spec, _ = placed({"product": "A100-SXM4-40GB"}, GPU | MIG)
    assert spec == {
        "nodeSelector": {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        }
    }


def test_default_of_the_settings_is_a_wish(placed):
    settings = GPUAdmissionPolicy(placement=Placement(wishes=(WishDefault({"product": "*GB200"}),)))
    assert placed({}, GPU, settings=settings) == ({"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"}}, [])


def test_pod_that_wishes_nothing_stays_as_it_is(placed):
    assert placed({}, GPU, *ALL) == ({}, [])


def test_pod_that_wishes_nothing_is_kept_off_shared_gpus_where_that_is_wanted(placed):
    avoid = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
    strategy = "nvidia.com/gpu.sharing-strategy NotIn mps time-slicing"
    assert placed({}, GPU, *ALL, settings=avoid) == ({"affinity": required([strategy])}, [])
    assert placed({"family": "hopper,ampere"}, GPU, *ALL, settings=avoid)[0] == {
        "affinity": required(["nvidia.com/gpu.family In ampere hopper", strategy])
    }
    assert placed({}, {}, settings=avoid) == ({}, [])


def test_pod_that_has_a_node_is_left_alone(placed):
    assert placed({"product": "T5", "zzz": ""}, GPU, *ALL, nodeName="a") == ({"nodeName": "a"}, [])


def test_impossible_wish_changes_nothing(placed):
    spec, found = placed({"min-memory": "80Gi", "max-memory": "40Gi"}, GPU, *ALL)
    assert (spec, [rule for rule, _ in found]) == ({}, ["GA402"])
    selector = {"nvidia.com/gpu.product": "Tesla-T4"}
    spec, found = placed({"product": "H100*"}, GPU, *ALL, nodeSelector=selector)
    assert (spec, [rule for rule, _ in found]) == ({"nodeSelector": selector}, ["GA403"])


def test_unmet_wish_is_still_required(placed):
    spec, found = placed({"product": "H200-NVL"}, GPU, "f5")
    assert spec == {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200-NVL"}}
    assert [rule for rule, _ in found] == ["GA404"]


def test_misspelt_product_keeps_the_pod_waiting(placed):
    spec, found = placed({"product": "H10O*"}, GPU, "f4")
    assert spec == {"affinity": required(["nvidia.com/gpu.product In H10O NVIDIA-H10O"])}
    assert [rule for rule, _ in found] == ["GA405", "GA404"]


def test_nodes_without_labels_are_named(placed):
    spec, found = placed({"product": "NVIDIA-H100-80GB-HBM3"}, BY_CLASS, "gpucluster")
    assert spec == {
        "affinity": required(
            ["nvidia.com/gpu.product In NVIDIA-H100-80GB-HBM3"], ["kubernetes.io/hostname In h100-dra-1"]
        )
    }
    assert found == [
        (
            "GA408",
            (
                f"{WISH}product]: no label describes the GPUs of 1 node, so the pod is tied to the names of those that have "
                "such a GPU now: h100-dra-1; label the namespace gpu-admission.io/dra: enabled, so that the pod requests by "
                "a claim"
            ),
        )
    ]


def test_wish_without_facts_has_no_effect(placed):
    assert placed({"product": "H100*"}, BY_MIG_CLASS, "gpucluster") == (
        {},
        [
            (
                "GA407",
                (
                    f"{WISH}product]: has no effect: neither labels of nodes nor ResourceSlices show which nodes have such "
                    "a GPU for deviceclass.resource.kubernetes.io/mig.nvidia.com; request it by a claim with such a selector"
                ),
            )
        ],
    )


def test_pod_without_a_gpu_gets_a_warning_that_its_wish_has_no_effect(placed):
    assert placed({"product": "H100*"}, {}, *ALL) == (
        {},
        [
            (
                "GA407",
                f"{WISH}product]: has no effect: the pod requests no GPU; remove the annotation, or request a GPU",
            )
        ],
    )


def test_pod_with_its_own_claim_is_shown_what_to_write_there(placed):
    spec, found = placed({"family": "hopper"}, {}, resourceClaims=CLAIM)
    assert spec == {"resourceClaims": CLAIM}
    assert found == [
        (
            "GA407",
            (
                f"{WISH}family]: has no effect: the pod brings its own claims; write into the claim's request selectors: "
                '[{cel: {expression: \'has(device.attributes["gpu.nvidia.com"].architecture) && '
                'device.attributes["gpu.nvidia.com"].architecture.lowerAscii().replace(" ", "-") == "hopper"\'}}]'
            ),
        )
    ]


def test_wish_that_a_selector_cannot_say_is_to_be_removed(placed):
    assert placed({"sharing": "exclusive"}, {}, resourceClaims=CLAIM)[1] == [
        (
            "GA407",
            (
                f"{WISH}sharing]: has no effect: the pod brings its own claims; remove the annotation, and write the "
                "condition into the claim"
            ),
        )
    ]


def test_several_words_without_effect_are_reported_together(placed):
    ((_, text),) = placed({"family": "hopper", "product": "H100*", "sharing": "any"}, {})[1]
    assert text == (
        "metadata.annotations: gpu-admission.io/product, gpu-admission.io/family and gpu-admission.io/sharing have no "
        "effect: the pod requests no GPU; remove the annotation, or request a GPU"
    )


@pytest.mark.parametrize("claims", [{}, {"resourceClaims": CLAIM}], ids=["no GPU", "own claim"])
def test_default_without_effect_is_not_reported(placed, claims):
    settings = GPUAdmissionPolicy(placement=Placement(wishes=(WishDefault({"product": "H100*"}),)))
    assert placed({}, {}, settings=settings, **claims)[1] == []


def test_wish_that_only_shared_gpus_meet_is_not_made_impossible(placed):
    avoid = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
    spec, found = placed({"family": "hopper"}, GPU, *ALL, settings=avoid)
    assert spec == {"nodeSelector": {"nvidia.com/gpu.family": "hopper"}}
    assert [rule for rule, _ in found] == ["GA411"]
    assert placed({"family": "hopper"}, GPU, *ALL, settings=avoid, **spec)[0] == spec


def test_pod_of_a_daemon_set_is_left_on_its_node(pod, cluster):
    document = pod(GPU, annotations={"gpu-admission.io/family": "hopper"}).document
    document["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "exporter", "controller": True}]
    asking, edits = Pod.read(document), Editor(document)
    settings = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
    view = cluster("f1")
    found = place(asking, view, settings, read_wishes(asking, "team-a", view, settings), edits)
    assert [(finding.rule.id, plain_text(finding)) for finding in found] == [
        (
            "GA407",
            (
                f"{WISH}family]: has no effect: a DaemonSet makes a pod for every node that its template selects, and one "
                "that wishes another would wait there for ever; write the condition into the node selector of the "
                "DaemonSet's pod template"
            ),
        )
    ]
    assert not edits


@pytest.mark.parametrize("claims", [{}, {"resourceClaims": CLAIM}], ids=["no GPU", "own claim"])
def test_malformed_wish_without_effect_refuses_nothing(pod, cluster, claims):
    asking = pod({"cpu": 1}, annotations={"gpu-admission.io/min-memory": "80GB"}, **claims)
    view = cluster("f1")
    wishes = read_wishes(asking, "team-a", view, DEFAULTS)
    found = place(asking, view, DEFAULTS, wishes, Editor(asking.document))
    assert [(finding.rule.id, finding.severity) for finding in found] == [("GA401", Severity.WARN)]


def test_malformed_wish_is_reported_and_the_rest_kept(placed):
    spec, found = placed({"product": "*GB200", "min-cuda": "new"}, GPU)
    assert spec == {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"}}
    assert [rule for rule, _ in found] == ["GA401"]


@pytest.mark.parametrize("by_default", [False, True], ids=["own", "default"])
def test_wish_that_would_make_the_affinity_too_large_is_refused(placed, severities, by_default):
    own = required(*([f"zone In z{number}"] for number in range(150)))
    wish = {"min-compute-capability": "8.6"}
    settings = GPUAdmissionPolicy(placement=Placement(wishes=(WishDefault(wish),) if by_default else ()))
    spec, found = placed({} if by_default else wish, GPU, settings=settings, affinity=own)
    said = " (a default of the GPUAdmissionPolicy, which an annotation replaces)" if by_default else ""
    assert spec == {"affinity": own}
    assert found == [
        (
            "GA407",
            (
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: would have "
                "300 terms, and at most 200 are written into a pod, so "
                f"gpu-admission.io/min-compute-capability: 8.6{said} cannot be kept; simplify the pod's own node selector "
                "and affinity"
            ),
        )
    ]
    assert severities == [Severity.DENY]


def test_all_words_that_cannot_be_kept_are_reported(placed):
    selector = {f"zone-{number}": "a" for number in range(1001)}
    ((_, text),) = placed({"family": "hopper", "product": "H100*"}, GPU, nodeSelector=selector)[1]
    assert text == (
        "spec.nodeSelector: has 1001 labels, and at most 1000 can be compared in time, so gpu-admission.io/product: H100* and "
        "gpu-admission.io/family: hopper cannot be kept; simplify the pod's own node selector and affinity"
    )


def test_pod_that_cannot_be_kept_off_shared_gpus_is_warned(placed, severities):
    avoid = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
    selector = {f"zone-{number}": "a" for number in range(1001)}
    assert placed({}, GPU, settings=avoid, nodeSelector=selector) == (
        {"nodeSelector": selector},
        [
            (
                "GA407",
                (
                    "spec.nodeSelector: has 1001 labels, and at most 1000 can be compared in time, so the pod is not kept off shared "
                    "GPUs, although spec.placement.avoidSharedGPUs is true; simplify the pod's own node selector and "
                    "affinity"
                ),
            )
        ],
    )
    assert severities == [Severity.WARN]


def test_wish_that_requires_nothing_of_a_node_is_kept_whatever_the_pod_selects(placed):
    selector = {f"zone-{number}": "a" for number in range(1001)}
    assert placed({"sharing": "any"}, GPU, nodeSelector=selector) == ({"nodeSelector": selector}, [])


def test_findings_warn_but_where_a_wish_cannot_be(pod, cluster):
    words = {"product": "H10O*", "min-cuda": "x", "zzz": "x"}
    asking = pod(GPU, annotations={f"gpu-admission.io/{word}": text for word, text in words.items()})
    view = cluster("f1")
    wishes = read_wishes(asking, "team-a", view, DEFAULTS)
    found = place(asking, view, DEFAULTS, wishes, Editor(asking.document))
    assert [(finding.rule.id, finding.severity) for finding in found] == [
        ("GA401", Severity.DENY),
        ("GA406", Severity.WARN),
        ("GA405", Severity.WARN),
        ("GA404", Severity.WARN),
    ]
