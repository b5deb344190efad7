"""Wishes are explained by their annotations: the warnings of a review, and the annotation to change."""

from __future__ import annotations

import pytest

from policies.analyses.explain import Change, Explanation, explain
from policies.kubernetes.objects import json_document
from policies.nvidia.wishes import WORDS
from policies.outcome import Feasibility, questions
from policies.rules.settings import GPUAdmissionPolicy
from policies.rules.settings.choices import Placement, WishDefault
from tests.findings import labelled_text
from webhook.cluster.manifests import ManifestsView

DEFAULT = " (a default of the GPUAdmissionPolicy, which an annotation replaces)"


def wishing(pod, **wish):
    annotations = {f"gpu-admission.io/{word.replace('_', '-')}": text for word, text in wish.items()}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def preferring(**wish):
    """Settings with defaults."""
    wishes = (WishDefault({word.replace("_", "-"): text for word, text in wish.items()}),)
    return GPUAdmissionPolicy(placement=Placement(wishes=wishes))


def texts_of(answer):
    return [(each.sentence, each.nodes) for each in answer.suggestions]


def warned(answer):
    return [labelled_text(finding) for finding in answer.warnings]


@pytest.fixture
def pod(k8s):
    return k8s.pod({"nvidia.com/gpu": "1"})


@pytest.fixture
def labelled(k8s):
    """Nodes of a device plugin: one H100, two T4."""

    def gpu_node(name, product, memory):
        labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
        return k8s.node(name, labels, allocatable={"nvidia.com/gpu": "4"})

    return [
        gpu_node("h100", "NVIDIA-H100-80GB-HBM3", "81559"),
        *(gpu_node(f"t4-{number}", "Tesla-T4", "15360") for number in range(2)),
    ]


@pytest.fixture
def devices(k8s):
    """The same by DRA, in a namespace that converts."""
    return [
        k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"}),
        k8s.node("h100"),
        k8s.resource_slice(k8s.gpus(4), "h100"),
        k8s.node("t4"),
        k8s.resource_slice(k8s.gpus(4, memory="15Gi", product="Tesla T4"), "t4"),
    ]


@pytest.fixture
def ask_by(k8s):
    """The explanation of a document by settings."""

    def ask(settings, document, *objects):
        known = [k8s.device_class(), k8s.namespace(), k8s.empty_list("Pod")]
        view = ManifestsView([*known, k8s.empty_list("ResourceClaim", "resource.k8s.io/v1"), *objects])
        (question,) = questions(document, "team-a", view, settings)
        return explain(question, view, settings)

    return ask


def test_wish_that_no_node_meets_is_reported_as_review_does(ask, pod, labelled):
    answer = ask(wishing(pod, product="H200*"), *labelled)
    assert answer.verdict is Feasibility.IMPOSSIBLE
    assert warned(answer) == [
        (
            "metadata.annotations[gpu-admission.io/product]: 2 nodes have Tesla-T4, 1 has NVIDIA-H100-80GB-HBM3; none has "
            "H200*; request a GPU that exists, or wait for such a node [GA404]"
        )
    ]


def test_device_that_no_slice_offers_is_reported_as_review_does(ask, pod, devices):
    assert warned(ask(wishing(pod, product="H200*"), *devices)) == [
        (
            "spec.containers[0].resources.limits[nvidia.com/gpu]: no device matches product H200*; the cluster has "
            "NVIDIA-H100-80GB-HBM3 on 1 node, Tesla-T4 on 1 node; request a device that exists, or wait for such a node [GA313]"
        )
    ]


def test_resource_that_no_node_advertises_is_reported_as_review_does(ask, k8s, labelled):
    answer = ask(k8s.pod({"nvidia.com/mig-1g.5gb": "1"}), *labelled)
    assert [warning.rule for warning in answer.warnings] == ["GA413"]


def test_wish_without_effect_is_reported_as_review_does(ask, k8s):
    answer = ask(wishing(k8s.pod(), product="H100*"), k8s.node())
    assert answer.verdict is Feasibility.FITS
    assert warned(answer) == [
        (
            "metadata.annotations[gpu-admission.io/product]: has no effect: the pod requests no GPU; remove the annotation, or "
            "request a GPU [GA407]"
        )
    ]


def test_warning_is_json(ask, k8s):
    answer = ask(wishing(k8s.pod(), product="H100*"), k8s.node())
    assert json_document(answer, Explanation)["warnings"] == [
        {
            "rule": "GA407",
            "path": "metadata.annotations[gpu-admission.io/product]",
            "message": "has no effect: the pod requests no GPU",
            "remedy": "remove the annotation, or request a GPU",
            "administrator": "",
            "text": "Remove the annotation, or request a GPU: gpu-admission.io/product has no effect: the pod requests no GPU; "
            "metadata.annotations[gpu-admission.io/product]",
        }
    ]


def test_warning_that_the_author_waives_is_left_out(ask, k8s):
    answer = ask(wishing(k8s.pod(), product="H100*", ignore="GA407 because it comes later"), k8s.node())
    assert (answer.verdict, warned(answer)) == (Feasibility.FITS, [])


def test_what_has_nothing_to_do_with_placement_is_left_to_review(ask, k8s, labelled):
    pod = k8s.pod({"nvidia.com/gpu": "1"})
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert warned(ask(pod, *labelled)) == []


def test_warning_of_a_pod_that_is_refused_is_reported(ask, k8s, labelled):
    answer = ask(wishing(k8s.pod({"nvidia.com/gpu": "1"}), product="H10", min_memory="80GB"), *labelled)
    assert [obstacle.rule for obstacle in answer.obstacles] == ["GA401"]
    assert "GA404" in [warning.rule for warning in answer.warnings]


def test_stored_pod_is_explained_as_it_is_with_the_hints_of_review(ask, k8s, labelled):
    pod = wishing(k8s.pod({"nvidia.com/gpu": "9"}, stored=True), product="H200*")
    answer = ask(pod, *labelled)
    assert [each.rule for each in answer.warnings] == ["GA404"]
    assert texts_of(answer) == [("request 4 nvidia.com/gpu instead of 9", 3)]


def test_stored_pod_gets_the_same_hint_as_in_a_file(ask, k8s, labelled):
    pods = [
        k8s.pod(
            {"nvidia.com/gpu": "1"}, stored=stored, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HMB3"}
        )
        for stored in (False, True)
    ]
    written, stored = (ask(pod, *labelled).warnings for pod in pods)
    assert [(each.rule, each.remedy) for each in stored] == [("GA409", 'write "NVIDIA-H100-80GB-HBM3"')]
    assert stored == written


def test_pod_that_is_bound_needs_no_hints(ask, k8s, labelled):
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HMB3"}
    bound = k8s.pod({"nvidia.com/gpu": "1"}, stored=True, nodeName="h100", nodeSelector=selector)
    assert ask(bound, *labelled).warnings == ()


def test_dropping_a_wish_is_suggested(ask, pod, labelled):
    answer = ask(wishing(pod, product="H200*"), *labelled)
    assert texts_of(answer) == [("drop the wish gpu-admission.io/product: H200*", 3)]
    assert answer.suggestions[0].change is Change.WISH


def test_dropping_a_wish_is_suggested_in_the_place_of_its_cel(ask, pod, devices):
    answer = ask(wishing(pod, product="H200*"), *devices)
    assert texts_of(answer) == [("drop the wish gpu-admission.io/product: H200*", 2)]


def test_bound_of_a_wish_moves_to_the_nearest_that_helps(ask, pod, labelled):
    answer = ask(wishing(pod, min_memory="100Gi"), *labelled)
    assert texts_of(answer) == [("write gpu-admission.io/min-memory: 81559Mi instead of 100Gi", 1)]


def test_bound_of_a_wish_moves_in_the_place_of_its_cel(ask, pod, devices):
    answer = ask(wishing(pod, min_memory="100Gi"), *devices)
    assert texts_of(answer) == [("write gpu-admission.io/min-memory: 81559Mi instead of 100Gi", 1)]


def test_upper_bound_moves_up(ask, pod, labelled):
    answer = ask(wishing(pod, max_memory="8Gi"), *labelled)
    assert texts_of(answer) == [("write gpu-admission.io/max-memory: 15360Mi instead of 8Gi", 2)]


def test_label_that_is_no_amount_moves_no_bound(ask, k8s, pod):
    labels = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "much"}
    answer = ask(wishing(pod, min_memory="100Gi"), k8s.node(labels=labels, allocatable={"nvidia.com/gpu": "1"}))
    assert texts_of(answer) == [("drop the wish gpu-admission.io/min-memory: 100Gi", 1)]


def test_each_word_that_helps_alone_is_suggested(ask, pod, labelled):
    answer = ask(wishing(pod, product="*H100*", max_memory="20Gi"), *labelled)
    assert texts_of(answer) == [
        ("drop the wish gpu-admission.io/product: *H100*", 2),
        ("write gpu-admission.io/max-memory: 81559Mi instead of 20Gi", 1),
    ]


def test_word_that_does_not_help_alone_is_not_suggested(ask, pod, labelled):
    assert texts_of(ask(wishing(pod, product="H200*", min_compute_capability="10.0"), *labelled)) == []


def test_wish_that_nothing_is_done_about_is_not_suggested(ask, k8s):
    claiming = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    answer = ask(wishing(claiming, product="H200*"), k8s.template({"count": 9}), k8s.node(), k8s.resource_slice([]))
    assert texts_of(answer) == []


def test_default_that_stands_in_the_way_is_named_as_one(ask_by, pod, labelled):
    answer = ask_by(preferring(product="H200*"), pod, *labelled)
    assert texts_of(answer) == [(f"drop the wish gpu-admission.io/product: H200*{DEFAULT}", 3)]


def test_default_that_conversion_keeps_is_named_as_one(ask_by, pod, devices):
    answer = ask_by(preferring(min_memory="100Gi"), pod, *devices)
    assert texts_of(answer) == [(f"write gpu-admission.io/min-memory: 81559Mi instead of 100Gi{DEFAULT}", 1)]


def test_default_that_holds_instead_is_named(ask_by, pod, labelled):
    answer = ask_by(preferring(product="*T4"), wishing(pod, product="H200*"), *labelled)
    assert texts_of(answer) == [
        (f"drop the wish gpu-admission.io/product: H200*, so that gpu-admission.io/product: *T4{DEFAULT} holds", 2)
    ]


def test_default_that_does_not_help_either_leaves_nothing_to_suggest(ask_by, pod, labelled):
    assert texts_of(ask_by(preferring(product="B200*"), wishing(pod, product="H200*"), *labelled)) == []


def test_wish_that_helps_only_once_nothing_is_in_use_says_so(ask, k8s, pod):
    node = k8s.node(labels={"nvidia.com/gpu.product": "Tesla-T4"}, allocatable={"nvidia.com/gpu": "1"})
    running = k8s.pod({"nvidia.com/gpu": "1"}, name="running", nodeName="node-1", stored=True)
    (suggestion,) = ask(wishing(pod, product="H200*"), node, running).suggestions
    assert (suggestion.sentence, suggestion.only_if_empty) == ("drop the wish gpu-admission.io/product: H200*", True)


def test_condition_that_the_pod_selects_by_is_left_out_of_the_selector_as_before(ask, k8s, devices):
    pod = k8s.pod({"nvidia.com/gpu": "1"}, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L40S"})
    (suggestion,) = ask(wishing(pod, min_memory="10Gi"), *devices).suggestions
    assert suggestion.change is Change.SELECTOR


def test_wishes_are_tried_within_the_bound_on_changes(ask, pod, labelled, monkeypatch):
    from policies.analyses.explain import claim_changes

    tried = []
    pod_question = claim_changes.pod_question

    def counted(*arguments, **options):
        tried.append(arguments)
        return pod_question(*arguments, **options)

    monkeypatch.setattr(claim_changes, "pod_question", counted)
    words = ("H200*", "1Gi", "900Gi", "2Gi", "10.0", "hopper", "900", "13.0", "shared", "aligned")
    everything = dict(zip(WORDS, words, strict=True))
    ask(wishing(pod, **everything), *labelled)
    assert len(tried) <= 12
