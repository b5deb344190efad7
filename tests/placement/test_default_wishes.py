"""Default wishes yield to everything that a pod says itself."""

import sys

import pytest

from policies.placement.place import place
from policies.placement.wish_annotations import read_wishes
from policies.rules.decision import Severity
from policies.rules.patch import Editor
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, WishDefault
from tests.findings import plain_text

GPU = {"nvidia.com/gpu": 1}
SHARE = {"nvidia.com/gpu.shared": 1}
MIG = {"nvidia.com/mig-1g.5gb": 1}
OVERRULED = "policies.placement.wish_conflicts"


def defaults(**words):
    wish = {word.replace("_", "-"): text for word, text in words.items()}
    return GPUAdmissionPolicy(placement=Placement(wishes=(WishDefault(wish),)))


def terms(*expressions):
    """Required node affinity of one term for each expression: `key In a b`."""
    read = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
        for key, operator, *values in (text.split() for text in expressions)
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": read}}}


@pytest.fixture
def settled(pod, cluster):
    """The words that count of a pod, and the rules by which it is refused."""

    def settled(settings, limits, *parts, words=None, **spec):
        asking = pod(
            limits, annotations={f"gpu-admission.io/{word}": text for word, text in (words or {}).items()}, **spec
        )
        view = cluster(*parts)
        wishes = read_wishes(asking, "team-a", view, settings)
        found = place(asking, view, settings, wishes, Editor(asking.document))
        return dict(wishes.texts), [plain_text(finding) for finding in found if finding.severity is Severity.DENY]

    return settled


def test_exclusive_gives_way_to_a_share(settled):
    assert settled(defaults(sharing="exclusive"), SHARE) == ({}, [])
    assert settled(defaults(sharing="exclusive"), GPU) == ({"sharing": "exclusive"}, [])


@pytest.mark.parametrize("product", ["!*MIG*", "*MIG-2g*"])
def test_product_gives_way_to_a_mig_device(settled, product):
    assert settled(defaults(product=product, family="ampere"), MIG) == ({"family": "ampere"}, [])
    assert settled(defaults(product=product), GPU) == ({"product": product}, [])


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}},
        {"affinity": terms("nvidia.com/gpu.product In Tesla-T4 NVIDIA-L4", "nvidia.com/gpu.product In NVIDIA-L40")},
    ],
    ids=["selector", "affinity"],
)
def test_product_gives_way_to_what_the_pod_selects(settled, spec):
    settings = defaults(product="H100*", min_driver="550")
    assert settled(settings, GPU, "f4", **spec) == ({"min-driver": "550"}, [])


def test_default_that_one_term_allows_stays(settled):
    spec = {"affinity": terms("nvidia.com/gpu.product In Tesla-T4", "nvidia.com/gpu.memory Gt 70000")}
    assert settled(defaults(product="H100*"), GPU, **spec) == ({"product": "H100*"}, [])


def test_only_as_many_defaults_give_way_as_must(settled):
    spec = {"affinity": terms("nvidia.com/gpu.family In hopper", "nvidia.com/cuda.driver-version.major In 550")}
    settings = defaults(min_driver="580", family="ampere", sharing="exclusive")
    assert settled(settings, GPU, **spec) == ({"family": "ampere", "sharing": "exclusive"}, [])


def test_default_gives_way_where_it_meets_a_wish_of_the_pod_and_a_selector(settled):
    spec = {"affinity": terms("nvidia.com/gpu.memory In 40960 81559")}
    settings = defaults(max_memory="60Gi")
    assert settled(settings, GPU, words={"min-memory": "50Gi"}, **spec) == ({"min-memory": "50Gi"}, [])


def test_pods_own_wish_that_contradicts_its_selector_is_reported_without_defaults(settled):
    selector = {"nvidia.com/gpu.memory": "40960"}
    words, reported = settled(defaults(max_memory="80Gi"), GPU, words={"min-memory": "50Gi"}, nodeSelector=selector)
    assert words == {"min-memory": "50Gi"}
    assert reported == [
        (
            "spec.nodeSelector[nvidia.com/gpu.memory]: the pod selects nodes by nvidia.com/gpu.memory: 40960, and "
            "gpu-admission.io/min-memory: 50Gi needs nvidia.com/gpu.memory Gt 51199; change the wish, or the pod's own "
            "condition on nodes"
        )
    ]


def test_defaults_that_contradict_each_other_do_not_give_way(settled):
    words, reported = settled(defaults(min_memory="80Gi", max_memory="40Gi"), GPU)
    assert words == {"min-memory": "80Gi", "max-memory": "40Gi"}
    assert reported == [
        (
            "metadata.annotations[gpu-admission.io/min-memory]: min-memory is 81920Mi and max-memory only 40960Mi (a default "
            "of the GPUAdmissionPolicy, which an annotation replaces); change one of the two"
        )
    ]


def test_affinity_too_large_to_compare_overrules_nothing(settled):
    selector = {"nvidia.com/gpu.product": "Tesla-T4", **{f"zone-{number}": "a" for number in range(1000)}}
    words, reported = settled(defaults(product="*GB200"), GPU, nodeSelector=selector)
    assert words == {"product": "*GB200"}
    assert [text.partition(",")[0] for text in reported] == ["spec.nodeSelector: has 1001 labels"]


def test_pod_that_places_again_keeps_its_defaults(settled):
    settings = defaults(product="*GB200")
    selector = {"nvidia.com/gpu.product": "NVIDIA-GB200"}
    assert settled(settings, GPU, nodeSelector=selector) == ({"product": "*GB200"}, [])


@pytest.mark.parametrize(
    "settings",
    [
        DEFAULTS,
        GPUAdmissionPolicy(placement=Placement(wishes=(WishDefault({"product": "L4"}, namespaces=("other",)),))),
    ],
    ids=["none", "of another namespace"],
)
def test_without_defaults_the_cluster_is_not_read(pod, monkeypatch, settings):
    monkeypatch.setitem(sys.modules, OVERRULED, None)
    asking = pod(GPU, annotations={"gpu-admission.io/product": "H100*"})
    assert read_wishes(asking, "team-a", None, settings).wish
