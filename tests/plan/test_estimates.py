"""Plans where the memory of MIG devices is estimated: only what holds at both ends of what is possible is said."""

import pytest

from policies.outcome import Certainty, Outcome
from tests.explain import conftest as k8s
from tests.outcome.clusters import bound
from tests.outcome.test_compare_quotas import quota
from tests.plan.nodes import GPU, gpu_node, plan, situation

A100 = "NVIDIA-A100-SXM4-80GB"
MEMORY = f"{GPU}.memory"
ESTIMATED = "the memory of MIG 1g.10gb (8.6 to 10 GiB) is estimated"


def whole(config="all-disabled", **labels):
    return gpu_node(gpus=1, product=A100, memory="81920", labels={"nvidia.com/mig.config": config, **labels})


def cut(profile="1g.10gb", count=7, memory="9728", config="all-1g.10gb"):
    labels = {
        f"{GPU}.product": f"{A100}-MIG-{profile}",
        f"{GPU}.count": str(count),
        "nvidia.com/mig.config": config,
        MEMORY: memory,
    }
    return gpu_node(labels=labels, **{GPU: str(count)})


def limited(memory):
    return quota(limits=[{"name": "memory", "memory": memory}])


def requiring(operator, *values):
    expression = {"key": MEMORY, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return bound("a", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def fit_of(pod, before=whole, after="all-1g.10gb"):
    (found,) = plan(situation(before(), pod, strategy="single"), whole(after)).fits
    return found.outcome, found.sentence


@pytest.mark.parametrize(
    ("operator", "value", "outcome"),
    [
        ("Gt", "8000", Outcome.CHANGED),
        ("Gt", "9000", Outcome.UNKNOWN),
        ("Gt", "10200", Outcome.UNKNOWN),
        ("Gt", "10300", Outcome.LOST),
        ("NotIn", "9728", Outcome.CHANGED),
    ],
)
def test_selector_of_a_memory_is_unknown_only_within_what_is_possible(operator, value, outcome):
    found, sentence = fit_of(requiring(operator, value))
    assert found is outcome
    assert (ESTIMATED in sentence) is (outcome is Outcome.UNKNOWN)


@pytest.mark.parametrize(("value", "outcome"), [("9728", Outcome.UNKNOWN), ("4864", Outcome.LOST)])
def test_selector_of_one_value_is_unknown_if_the_value_is_possible(value, outcome):
    found, sentence = fit_of(requiring("In", "81920", value))
    assert found is outcome
    if outcome is Outcome.UNKNOWN:
        assert sentence == f"unknown because {ESTIMATED}, and it requires {MEMORY}: 9728"


def test_memory_of_a_product_that_was_measured_is_no_estimate():
    pod = requiring("Gt", "4863")
    before = situation(gpu_node(gpus=1), pod, strategy="single")
    (found,) = plan(before, gpu_node(gpus=1, labels={"nvidia.com/mig.config": "all-1g.5gb"})).fits
    assert found.outcome is Outcome.CHANGED


def test_node_says_which_memory_is_estimated():
    (node,) = plan(situation(whole(), strategy="single"), whole("all-1g.10gb")).nodes
    assert [(each.profile, each.memory, each.least, each.most) for each in node.estimates] == [
        ("1g.10gb", 10112, 8806, 10240)
    ]
    assert node.certainty is Certainty.PREDICTED


def test_limit_of_memory_is_unknown_if_only_some_sizes_exceed_it():
    (found,) = plan(situation(whole(), limited("9500Mi"), bound("a"), strategy="single"), whole("all-1g.10gb")).limits
    assert found.outcome is Outcome.UNKNOWN
    assert found.sentence.startswith(f"unknown because {ESTIMATED}: ")


def test_limit_that_counts_other_amounts_with_every_size_is_broken():
    (found,) = plan(situation(whole(), limited("100Gi"), bound("a"), strategy="single"), whole("all-1g.10gb")).limits
    assert found.outcome is Outcome.LOST
    assert found.sentence.endswith(ESTIMATED)


def test_limit_that_some_sizes_exceed_counts_other_amounts_and_may_be_exceeded():
    before = situation(cut(), limited("20000Mi"), bound("a"), strategy="single")
    (found,) = plan(before, cut(config="all-2g.20gb")).limits
    assert found.outcome is Outcome.LOST
    assert found.sentence == (
        "counts the same pods differently: 18.2 of 19.5 GiB used, before 9.5 of 19.5 GiB; it may be exceeded; "
        "the memory of MIG 2g.20gb (18.2 to 20 GiB) is estimated"
    )


def test_claim_that_selects_by_memory_is_unknown_within_what_is_possible():
    expression = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('9Gi')) >= 0"
    request = {"deviceClassName": "any", **k8s.selecting(expression)}
    facts = (
        k8s.device_class("any", "device.driver == 'gpu.nvidia.com'"),
        k8s.claim(request, name="large", stored=True),
        k8s.resource_slice(k8s.gpus(1, memory="80Gi", product="NVIDIA A100-SXM4-80GB")),
    )
    off = {"nvidia.com/gpu.deploy.device-plugin": "false"}
    (found,) = plan(situation(whole(**off), *facts, strategy="single"), whole("all-1g.10gb", **off)).fits
    assert (found.outcome, ESTIMATED in found.sentence) == (Outcome.UNKNOWN, True)
