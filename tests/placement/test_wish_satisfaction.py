"""Wishes that no GPU meets now, with what exists."""

import pytest

from policies.placement.node_conditions import met_wishes
from policies.placement.wanted_nodes import requested_gpus
from policies.placement.wish_annotations import read_wishes
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, WishDefault
from tests.findings import plain_text

GPU = {"nvidia.com/gpu": 1}
MIG = {"nvidia.com/mig-1g.5gb": 1}
BY_CLASS_NAME = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
BY_CLASS = {BY_CLASS_NAME: 1}
SERVING_GPU = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {
        "extendedResourceName": "nvidia.com/gpu",
        "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].type == 'gpu'"}}],
    },
}
EMPTY = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
ALL = ("f1", "f2", "f3", "f4", "f5", "f6")


@pytest.fixture
def found(pod, cluster):
    """The findings on a pod with these wishes in a cluster of these parts."""

    def found(words, limits, *parts, settings=DEFAULTS, **spec):
        annotations = {f"gpu-admission.io/{word}": text for word, text in words.items()}
        asking, view = pod(limits, annotations=annotations, **spec), cluster(*parts)
        wishes = read_wishes(asking, "team-a", view, settings)
        return list(met_wishes(requested_gpus(asking, view), view, wishes, settings))

    return found


@pytest.fixture
def said(found):
    """The word and the message of the only finding; None where there is none."""

    def said(*args, **options):
        reported = [
            (finding.path[-1].removeprefix("gpu-admission.io/"), finding.message) for finding in found(*args, **options)
        ]
        assert len(reported) < 2
        return reported[0] if reported else None

    return said


@pytest.mark.parametrize(
    ("words", "word", "message"),
    [
        (
            {"product": "H200*"},
            "product",
            (
                "1 node has NVIDIA-A100-SXM4-40GB, 1 has NVIDIA-A100-SXM4-40GB-MIG-1g.5gb, 1 has NVIDIA-GB200, "
                "1 has NVIDIA-H100-80GB-HBM3, 1 has Tesla-T4; none has H200*"
            ),
        ),
        (
            {"product": "H100*", "min-memory": "90000Mi"},
            "min-memory",
            "NVIDIA-H100-80GB-HBM3 on 1 node has 81559Mi of memory; at least 90000Mi is wished",
        ),
        (
            {"product": "*GB200*", "max-memory": "100Gi"},
            "max-memory",
            "NVIDIA-GB200 on 1 node has 189471Mi of memory; at most 100Gi is wished",
        ),
        (
            {"min-memory": "80Gi", "max-memory": "100Gi"},
            "max-memory",
            "NVIDIA-GB200 on 1 node has 189471Mi of memory; at most 100Gi is wished",
        ),
        (
            {"product": "A100*,Tesla-T4", "min-compute-capability": "8.6"},
            "min-compute-capability",
            (
                "NVIDIA-A100-SXM4-40GB on 1 node has compute capability 8.0, NVIDIA-A100-SXM4-40GB-MIG-1g.5gb on 1 node "
                "has 8.0, Tesla-T4 on 1 node has 7.5; at least 8.6 is wished"
            ),
        ),
        (
            {"product": "*T4", "family": "hopper, blackwell"},
            "family",
            "Tesla-T4 on 1 node is of the family turing; hopper or blackwell is wished",
        ),
        (
            {"min-memory": "80000Mi", "family": "hopper", "min-driver": "580.82"},
            "min-driver",
            "NVIDIA-H100-80GB-HBM3 on 1 node has driver 550.54.15; at least 580.82 is wished",
        ),
        (
            {"product": "*T4", "min-cuda": "13"},
            "min-cuda",
            "Tesla-T4 on 1 node supports CUDA 12.4; at least 13 is wished",
        ),
        (
            {"product": "*T4,H100*", "sharing": "exclusive"},
            "sharing",
            (
                "NVIDIA-H100-80GB-HBM3 on 1 node is time-sliced, Tesla-T4 on 1 node is shared by MPS; "
                "exclusive GPUs are wished"
            ),
        ),
        (
            {"product": "*GB200", "sharing": "shared"},
            "sharing",
            "NVIDIA-GB200 on 1 node is exclusive; shared GPUs are wished",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_word_that_nothing_meets_is_reported_with_what_there_is(said, words, word, message):
    assert said(words, GPU, *ALL) == (word, message)


@pytest.mark.parametrize(
    "words",
    [{}, {"product": "H100*"}, {"product": "A100*,!*MIG*", "min-memory": "40Gi"}, {"sharing": "any"}],
    ids=",".join,
)
def test_wish_that_something_meets_is_not_reported(said, words):
    assert said(words, GPU, *ALL) is None


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        ("H100*,H200*", "none has H100* or H200*"),
        ("NVIDIA-H200 or L40", "none has NVIDIA-H200 or L40"),
        ("!*T4*", "none has anything but *T4*"),
        ("*T4*,!Tesla*,!*SXM*", "none has *T4* without Tesla* or *SXM*"),
    ],
)
def test_wished_products_are_reported_as_they_are_written(said, patterns, wanted):
    assert said({"product": patterns}, GPU, "f5") == ("product", f"1 node has Tesla-T4; {wanted}")


def test_nodes_are_counted_and_the_most_frequent_products_reported_first(said, node):
    nodes = [node("f5", f"t4-{number}") for number in range(4)] + [node("f1", f"a100-{number}") for number in range(12)]
    assert said({"product": "H100*"}, GPU, *nodes) == (
        "product",
        "12 nodes have NVIDIA-A100-SXM4-40GB, 4 have Tesla-T4; none has H100*",
    )


def test_at_most_five_products_are_reported(said, node):
    nodes = [node("f1", f"n-{name}", {"nvidia.com/gpu.product": f"NVIDIA-{name}"}) for name in "ABCDEFG"]
    assert said({"product": "H100*"}, GPU, *nodes) == (
        "product",
        (
            "1 node has NVIDIA-A, 1 has NVIDIA-B, 1 has NVIDIA-C, 1 has NVIDIA-D, 1 has NVIDIA-E and 2 more products; "
            "none has H100*"
        ),
    )
    assert said({"min-memory": "80Gi"}, GPU, *nodes[:6])[1].endswith(
        "NVIDIA-E on 1 node has 40960Mi and 1 more product; at least 80Gi is wished"
    )


def test_values_that_differ_between_nodes_are_reported_as_a_range(said, node):
    memory = "nvidia.com/gpu.memory"
    nodes = [node("f1", f"a100-{text}", {memory: text}) for text in ("40960", "40536", "40537")]
    assert said({"min-memory": "80Gi"}, GPU, *nodes) == (
        "min-memory",
        "NVIDIA-A100-SXM4-40GB on 3 nodes has 40536Mi to 40960Mi of memory; at least 80Gi is wished",
    )


def test_ways_of_sharing_that_differ_between_nodes_are_reported(said, node):
    strategy = "nvidia.com/gpu.sharing-strategy"
    nodes = [node("f5", "mps"), node("f5", "time-slicing", {strategy: "time-slicing"})]
    assert said({"sharing": "exclusive"}, GPU, *nodes) == (
        "sharing",
        "Tesla-T4 on 2 nodes is shared by MPS or time-sliced; exclusive GPUs are wished",
    )


def test_label_that_is_missing_is_reported(said, node):
    assert said({"max-memory": "80Gi"}, GPU, node("f1", labels={"nvidia.com/gpu.memory": None})) == (
        "max-memory",
        "NVIDIA-A100-SXM4-40GB on 1 node has no label for it; at most 80Gi is wished",
    )


def test_gpu_without_a_product_is_reported(said, node):
    assert said({"product": "H100*"}, GPU, node("f1", labels={"nvidia.com/gpu.product": None})) == (
        "product",
        "1 node has a GPU without a name; none has H100*",
    )


def test_mig_devices_are_those_of_the_profile(said):
    assert said({"product": "H100*"}, MIG, *ALL) == (
        "product",
        "1 node has NVIDIA-A100-SXM4-40GB-MIG-1g.5gb; none has H100*",
    )
    assert said({"min-memory": "5Gi"}, MIG, *ALL) == (
        "min-memory",
        "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb on 1 node has 4864Mi of memory; at least 5Gi is wished",
    )


def test_each_resource_of_a_pod_is_reported(found):
    messages = [finding.message for finding in found({"min-memory": "1Ti"}, GPU | MIG, "f1", "f2")]
    assert messages == [
        "NVIDIA-A100-SXM4-40GB on 1 node has 40960Mi of memory; at least 1Ti is wished",
        "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb on 1 node has 4864Mi of memory; at least 1Ti is wished",
    ]


def test_resource_slices_are_reported_where_nodes_have_no_labels(said):
    assert said({"product": "H200*"}, BY_CLASS, "gpucluster") == (
        "product",
        "1 node has NVIDIA-A100-SXM4-40GB, 1 has NVIDIA-H100-80GB-HBM3; none has H200*",
    )
    assert said({"min-memory": "80Gi"}, BY_CLASS, "gpucluster") == (
        "min-memory",
        (
            "NVIDIA-A100-SXM4-40GB on 1 node has 40960Mi of memory, NVIDIA-H100-80GB-HBM3 on 1 node has 81559Mi; "
            "at least 80Gi is wished"
        ),
    )
    assert said({"product": "H100*", "min-driver": "590"}, BY_CLASS, "gpucluster") == (
        "min-driver",
        "NVIDIA-H100-80GB-HBM3 on 1 node has driver 580.95.5; at least 590 is wished",
    )
    assert said({"sharing": "shared"}, BY_CLASS, "gpucluster") == (
        "sharing",
        (
            "NVIDIA-A100-SXM4-40GB on 1 node is exclusive, NVIDIA-H100-80GB-HBM3 on 1 node is exclusive; "
            "shared GPUs are wished"
        ),
    )
    assert said({"product": "H100*"}, BY_CLASS, "gpucluster") is None


def test_cluster_without_gpus_is_reported(said):
    assert said({"min-memory": "1Gi"}, GPU, EMPTY) == ("min-memory", "no node of the cluster has a GPU")


def test_resource_that_no_node_offers_is_reported_by_another_rule(said):
    assert said({"product": "H100*"}, GPU, "f2") is None
    assert said({"product": "H100*"}, GPU, "gpucluster") is None


def test_cluster_without_gpus_is_nothing_to_a_pod_that_wishes_none(found):
    assert found({}, GPU, EMPTY) == []


@pytest.fixture
def remedy(found):
    """What the only finding says should be done."""

    def remedy(*args, **options):
        (finding,) = found(*args, **options)
        assert plain_text(finding).endswith(f"{finding.message}; {finding.remedy}")
        return finding.remedy

    return remedy


COMPARE = "request a GPU that exists, or wait for such a node"
UNNOTICED = (
    "request a GPU that exists; the pod will not notice a node that comes later: apply it again then, or label the "
    "namespace gpu-admission.io/dra: enabled"
)
ADD = "add a node with such a GPU, or wait for an autoscaler to add one"


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        ("80Gi", 'write "80G"'),
        (" 80Gi ", 'write "80G"'),
        ("81920Mi", 'write "80G"'),
        ("0.08Ti", COMPARE),
        ("81921Mi", COMPARE),
        ("84Gi", 'write "84G"'),
        ("90Gi", COMPARE),
        ("86G", COMPARE),
        ("85899345920", COMPARE),
    ],
)
def test_gigabytes_that_gpus_are_sold_with_are_suggested(remedy, least, expected):
    assert remedy({"product": "H100*", "min-memory": least}, GPU, "f4", "f5") == expected
    assert remedy({"product": "*T4", "min-memory": least}, GPU, "f4", "f5") == COMPARE


def test_gigabytes_are_suggested_where_resource_slices_tell(remedy):
    assert remedy({"min-memory": "80Gi"}, BY_CLASS, "gpucluster") == 'write "80G"'
    assert remedy({"product": "A100*", "min-memory": "80Gi"}, BY_CLASS, "gpucluster") == UNNOTICED


def test_pod_that_is_tied_to_the_devices_that_exist_is_reported(remedy):
    assert remedy({"product": "H200*"}, BY_CLASS, "gpucluster") == UNNOTICED
    assert remedy({"product": "H200*"}, BY_CLASS, "gpucluster", "f1") == UNNOTICED


def test_node_with_labels_may_come_where_there_are_some(remedy, node):
    labelled = node("f1", offers={"nvidia.com/gpu": None, BY_CLASS_NAME: "8"})
    assert remedy({"product": "H200*"}, BY_CLASS, "gpucluster", labelled) == COMPARE


def test_cluster_without_gpus_has_nothing_to_compare_with(remedy):
    assert remedy({"min-memory": "80Gi"}, GPU, EMPTY) == ADD


def test_nothing_is_reported_while_nodes_are_unknown(said):
    assert said({"product": "H100*"}, GPU) is None


def test_devices_may_be_there_while_slices_are_unknown(said):
    assert said({"product": "H100*"}, BY_CLASS, EMPTY) is None
    assert said({"product": "H100*"}, GPU, "f1", SERVING_GPU) is None


def test_what_the_pod_selects_beside_its_wish_does_not_count(said):
    assert said({"product": "A100*"}, GPU, "f1", nodeSelector={"zone": "b"}) is None


def test_setting_makes_it_a_refusal(found):
    deny = GPUAdmissionPolicy(placement=Placement(unsatisfiable="deny"))
    assert [finding.severity for finding in found({"product": "H100*"}, GPU, "f1")] == [Severity.WARN]
    assert [finding.severity for finding in found({"product": "H100*"}, GPU, "f1", settings=deny)] == [Severity.DENY]


def test_default_of_the_settings_is_reported_as_such(found):
    settings = GPUAdmissionPolicy(placement=Placement(wishes=(WishDefault({"product": "H100*"}),)))
    (finding,) = found({}, GPU, "f5", settings=settings)
    assert plain_text(finding) == (
        "metadata.annotations[gpu-admission.io/product]: 1 node has Tesla-T4; none has H100* (a default of the "
        "GPUAdmissionPolicy, which an annotation replaces); request a GPU that exists, or wait for such a node"
    )


def test_thousands_of_nodes_are_read_once(pod, node, cluster):
    nodes = [node("f5", f"t4-{number}") for number in range(2000)]
    view, asking = cluster(*nodes), pod(GPU, annotations={"gpu-admission.io/product": "H100*"})
    asked, wishes = requested_gpus(asking, view), read_wishes(asking, "team-a", view, DEFAULTS)
    (first,) = met_wishes(asked, view, wishes, DEFAULTS)
    nodes.clear()
    view.list = lambda *_: pytest.fail("nodes were read again")
    assert list(met_wishes(asked, view, wishes, DEFAULTS)) == [first]
    assert first.message == "2,000 nodes have Tesla-T4; none has H100*"
