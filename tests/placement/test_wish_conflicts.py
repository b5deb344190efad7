"""Wishes that can never be met are refused, with both sides shown."""

import pytest

from policies.placement.wish_annotations import read_wishes
from policies.placement.wish_conflicts import wish_problems
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from tests.findings import plain_text

GPU = {"nvidia.com/gpu": 1}
BY_CLASS = {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}
WISH = "metadata.annotations[gpu-admission.io/"
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.fixture
def problems(pod, cluster):
    """What is wrong with the wishes of a pod, whichever way it gets its GPUs."""

    def problems(words, limits, *parts, settings=DEFAULTS, **spec):
        asking = pod(limits, annotations={f"gpu-admission.io/{word}": text for word, text in words.items()}, **spec)
        view = cluster(*parts)
        return list(wish_problems(asking, view, read_wishes(asking, "team-a", view, settings)))

    return problems


@pytest.fixture
def refusals(problems):
    """The rules and texts of problems that refuse."""

    def refusals(*args, **options):
        found = problems(*args, **options)
        return [(finding.rule.id, plain_text(finding)) for finding in found if finding.severity is Severity.DENY]

    return refusals


def affinity(*expressions):
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in expressions]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (
            {"min-memory": "80Gi", "max-memory": "40Gi"},
            f"{WISH}min-memory]: min-memory is 81920Mi and max-memory only 40960Mi; change one of the two",
        ),
        (
            {"product": "H100*,!H*"},
            f"{WISH}product]: product excludes all that it names: H100* by !H*; change one of the two",
        ),
        (
            {"gpu-memory": "20Gi", "min-memory": "40Gi"},
            f"{WISH}gpu-memory]: gpu-memory is 20480Mi and min-memory 40960Mi; change one of the two",
        ),
        (
            {"gpu-memory": "20Gi", "max-memory": "10Gi"},
            f"{WISH}gpu-memory]: gpu-memory is 20480Mi and max-memory only 10240Mi; change one of the two",
        ),
        (
            {"gpu-memory": "20Gi", "sharing": "exclusive"},
            (
                f"{WISH}gpu-memory]: gpu-memory is for a part of a GPU, and sharing: exclusive for all of it; change one of "
                "the two"
            ),
        ),
        (
            {"gpu-memory": "20Gi", "product": "*MIG-1g.10gb"},
            (
                f"{WISH}product]: product names MIG devices with less memory than gpu-memory, which is 20480Mi; change one of "
                "the two"
            ),
        ),
    ],
    ids=["memory", "product", "part of less", "part of more", "part alone", "part of a smaller device"],
)
def test_wish_that_contradicts_itself_is_refused(refusals, words, reported):
    assert refusals(words, GPU) == [("GA402", reported)]


def test_exclusive_share_is_refused(refusals):
    assert refusals({"sharing": "exclusive"}, {"nvidia.com/gpu.shared": 1}) == [
        (
            "GA402",
            (
                f'{WISH}sharing]: is "exclusive", and the pod requests nvidia.com/gpu.shared, which is shared; '
                'request nvidia.com/gpu, or write "shared"'
            ),
        )
    ]


@pytest.mark.parametrize("text", ["!*MIG*", "A100*,!*-MIG-1g*", "!*1g.5gb"])
def test_mig_device_without_mig_is_refused(refusals, text):
    assert refusals({"product": text}, {"nvidia.com/mig-1g.5gb": 1}) == [
        (
            "GA402",
            (
                f"{WISH}product]: excludes all MIG devices 1g.5gb, and the pod requests nvidia.com/mig-1g.5gb; "
                "request nvidia.com/gpu, or remove what excludes them"
            ),
        )
    ]


@pytest.mark.parametrize("text", ["!*T4*", "!H100*MIG*", "!*MIG-2g*"])
def test_mig_device_of_products_that_are_not_excluded_is_not_refused(refusals, text):
    assert refusals({"product": text}, {"nvidia.com/mig-1g.5gb": 1}) == []


@pytest.mark.parametrize(
    ("words", "selector", "reported"),
    [
        (
            {"product": "*GB200"},
            {"nvidia.com/gpu.product": "Tesla-T4"},
            (
                "spec.nodeSelector[nvidia.com/gpu.product]: the pod selects nodes by nvidia.com/gpu.product: Tesla-T4, and "
                "gpu-admission.io/product: *GB200 needs nvidia.com/gpu.product In [NVIDIA-GB200]"
            ),
        ),
        (
            {"product": "A100*", "min-memory": "80Gi"},
            {"zone": "a", "nvidia.com/gpu.memory": "40960"},
            (
                "spec.nodeSelector[nvidia.com/gpu.memory]: the pod selects nodes by nvidia.com/gpu.memory: 40960, and "
                "gpu-admission.io/min-memory: 80Gi needs nvidia.com/gpu.memory Gt 81919"
            ),
        ),
        (
            {"family": "hopper"},
            {"nvidia.com/gpu.family": "ampere"},
            (
                "spec.nodeSelector[nvidia.com/gpu.family]: the pod selects nodes by nvidia.com/gpu.family: ampere, and "
                "gpu-admission.io/family: hopper needs nvidia.com/gpu.family In [hopper]"
            ),
        ),
        (
            {"sharing": "exclusive"},
            {"nvidia.com/gpu.sharing-strategy": "mps"},
            (
                "spec.nodeSelector[nvidia.com/gpu.sharing-strategy]: the pod selects nodes by nvidia.com/gpu.sharing-strategy: "
                "mps, and gpu-admission.io/sharing: exclusive needs nvidia.com/gpu.sharing-strategy In [none]"
            ),
        ),
        (
            {"min-driver": "580"},
            {"nvidia.com/cuda.driver-version.major": "550"},
            (
                "spec.nodeSelector[nvidia.com/cuda.driver-version.major]: the pod selects nodes by "
                "nvidia.com/cuda.driver-version.major: 550, and gpu-admission.io/min-driver: 580 needs "
                "nvidia.com/cuda.driver-version.major Gt 579"
            ),
        ),
        (
            {"product": "!*MIG*"},
            {"nvidia.com/gpu.slices.gi": "1"},
            (
                "spec.nodeSelector[nvidia.com/gpu.slices.gi]: the pod selects nodes by nvidia.com/gpu.slices.gi: 1, and "
                "gpu-admission.io/product: !*MIG* needs nvidia.com/gpu.slices.gi DoesNotExist"
            ),
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) and "zone" not in value else "",
)
def test_wish_that_contradicts_the_node_selector_is_refused_and_both_are_shown(refusals, words, selector, reported):
    assert refusals(words, GPU, nodeSelector=selector) == [
        ("GA403", f"{reported}; change the wish, or the pod's own condition on nodes")
    ]


def test_wish_that_contradicts_every_term_is_refused(refusals):
    terms = affinity(("nvidia.com/gpu.product", "Tesla-T4"), ("nvidia.com/gpu.product", "NVIDIA-L4"))
    ((rule, text),) = refusals({"product": "*GB200"}, GPU, affinity=terms)
    assert rule == "GA403"
    assert text.startswith(
        f"{TERMS}[0].matchExpressions[0]: the pod selects nodes by nvidia.com/gpu.product In [Tesla-T4], and "
        "gpu-admission.io/product: *GB200 needs nvidia.com/gpu.product In [NVIDIA-GB200]; "
    )


def test_wish_that_one_term_allows_is_not_refused(refusals):
    terms = affinity(("nvidia.com/gpu.product", "Tesla-T4"), ("zone", "a"))
    assert refusals({"product": "*GB200"}, GPU, affinity=terms) == []


def test_unknown_product_in_a_wish_is_not_refused(refusals):
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-Not-Yet-Known"}
    assert refusals({"product": "H100*"}, GPU, nodeSelector=selector) == []


def test_nodes_may_be_named_instead(refusals):
    selector = {"kubernetes.io/hostname": "h100-dra-1"}
    assert refusals({"product": "H100*"}, BY_CLASS, "gpucluster", nodeSelector=selector) == []


@pytest.mark.parametrize("text", ["*MIG-2g*", "A100*-MIG-3g.20gb, *1g.10gb", "*MIG-1g.5gb.me"])
def test_mig_device_of_another_profile_is_refused(refusals, text):
    assert refusals({"product": text}, {"nvidia.com/mig-1g.5gb": 1}) == [
        (
            "GA402",
            (
                f"{WISH}product]: names MIG devices of other profiles only, and the pod requests nvidia.com/mig-1g.5gb; "
                "request the profile that is wished, or leave the profile out of the wish"
            ),
        )
    ]


@pytest.mark.parametrize(
    "text",
    ["*MIG-2g*, A100*", "*MIG*", "*-MIG-*", "*MIG?1g*", "*MIG-1g*", "*1g.5gb", "MIG-1g.5gb", "A100*5gb", "*2g*", "*"],
)
def test_mig_device_that_a_pattern_may_name_is_not_refused(refusals, text):
    assert refusals({"product": text}, {"nvidia.com/mig-1g.5gb": 1}) == []


def test_profile_of_part_of_an_instance_may_be_named_by_its_end(refusals):
    assert refusals({"product": "*3g.20gb"}, {"nvidia.com/mig-1c.3g.20gb": 1}) == []


def test_whole_gpu_may_be_wished_as_a_mig_device(refusals):
    assert refusals({"product": "*MIG-2g*"}, GPU) == []


def test_node_without_such_a_device_now_is_no_contradiction(refusals):
    nodes = [
        {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}} for name in ("a", "b")
    ]
    attributes = {"type": {"string": "mig"}, "productName": {"string": "NVIDIA A100-SXM4-40GB"}}
    devices = [{"name": "gpu-0-mig-0", "attributes": {**attributes, "profile": {"string": "1g.5gb"}}}]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": pool, "devices": devices}
    part = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": spec}
    by_class = {"deviceclass.resource.kubernetes.io/mig.nvidia.com": 1}
    selector = {"kubernetes.io/hostname": "b"}
    assert refusals({"product": "A100*"}, by_class, *nodes, part, nodeSelector=selector) == []


def test_affinity_too_large_to_compare_is_not_refused(refusals):
    terms = affinity(*(("nvidia.com/gpu.product", f"x{number}") for number in range(50_000)))
    words = {"product": "H100*", "min-driver": "550.54.15", "min-cuda": "12.4"}
    assert refusals(words, GPU, affinity=terms) == []


def test_nothing_wished_is_no_problem(problems):
    assert problems({}, GPU, "f1") == []


@pytest.mark.parametrize("other", [{"product": "*MIG-2g.20gb"}, {"min-memory": "10Gi"}], ids=["product", "bound"])
def test_part_of_a_gpu_agrees_with_what_it_can_meet(refusals, other):
    assert refusals({"gpu-memory": "20Gi", **other}, GPU) == []


def test_part_of_a_gpu_contradicts_a_mig_resource(refusals):
    ((rule, text),) = refusals({"gpu-memory": "10Gi"}, {"nvidia.com/mig-1g.10gb": 1})
    assert (rule, text) == (
        "GA402",
        (
            f"{WISH}gpu-memory]: is for a part of a GPU, and the pod requests nvidia.com/mig-1g.10gb; request nvidia.com/gpu, "
            "or remove the annotation"
        ),
    )
