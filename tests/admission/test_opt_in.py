"""Opting in: the label of a namespace says what conversion would do to its workloads."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.admission.opt_in import MOST_FORMS
from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

DRA, STRATEGY = "gpu-admission.io/dra", "gpu-admission.io/dra-strategy"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
}
NO_SLICES = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}
NO_CLASSES = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClassList", "items": []}
NO_PODS = {"apiVersion": "v1", "kind": "PodList", "items": []}
CLUSTER = [NODE, CLASS, NO_SLICES]
REFUSED = {"nodeSelector": {"nvidia.com/gpu.count": "8"}}
LEFT = {"schedulerName": "kai-scheduler"}


def namespace(name="team-a", **labels):
    marks = {f"gpu-admission.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": marks}}


def spec(gpus=1, **fields):
    containers = [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    return {"containers": containers, **fields}


def pod(name, owner="", gpus=1, **fields):
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    metadata = {"name": name, "namespace": "team-a", "uid": name, **({"ownerReferences": owners} if owner else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(gpus, **fields)}


def deployment(name, gpus=1, **fields):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"template": {"metadata": {}, "spec": spec(gpus, **fields)}},
    }


def decision(new, *objects, old=None, entry="opt-in"):
    request = Request(new, old, "UPDATE" if old else "CREATE", kind="Namespace", namespace="team-a", entry=entry)
    return review(request, ManifestsView([*CLUSTER, *objects]), DEFAULTS)


def messages(new, *objects, old=None):
    found = decision(new, *objects, old=old).findings
    assert {each.rule.id for each in found} <= {"GA339"}
    assert all(each.severity is Severity.WARN for each in found)
    return [each.message for each in found]


ENABLED, OFF = namespace(dra="enabled"), namespace()


def test_workloads_are_counted_by_what_becomes_of_them():
    pods = [pod("a-0", "a"), pod("a-1", "a"), pod("b-0", "b", **REFUSED), pod("c-0", "c", **LEFT), pod("lone")]
    summary, *reasons = messages(ENABLED, *pods, old=OFF)
    assert summary == (
        "4 workloads of this namespace request GPUs: 2 would be converted, 1 would stay with the device plugin and 1 would be "
        "refused"
    )
    assert [(each.partition(":")[0], each.rpartition(" ")[2]) for each in reasons] == [
        ("1 workload, such as ReplicaSet b, would be refused", "(GA307)"),
        ("1 workload, such as ReplicaSet c, would stay with the device plugin", "(GA315)"),
    ]


def test_reason_is_one_line_for_all_workloads_that_it_stops():
    pods = [pod(f"{number}-0", f"rs-{number}", gpus=number + 1, **REFUSED) for number in range(3)]
    summary, reason = messages(ENABLED, *pods, old=OFF)
    assert summary == "3 workloads of this namespace request GPUs: none would be converted and 3 would be refused"
    assert reason.startswith("3 workloads, such as ReplicaSet rs-0, would be refused: spec.nodeSelector")


def test_workload_counts_once_for_a_reason_that_stops_several_of_its_containers():
    twice = pod("a-0", "a")
    twice["spec"]["containers"] += [{**twice["spec"]["containers"][0], "name": "other"}]
    request = Request(ENABLED, OFF, "UPDATE", kind="Namespace", namespace="team-a", entry="opt-in")
    _, reason = review(request, ManifestsView([NODE, NO_CLASSES, NO_SLICES, twice]), DEFAULTS).findings
    assert reason.message.startswith("1 workload, such as ReplicaSet a, would be refused: ")


def test_remedy_of_a_reason_names_the_workload():
    found = decision(ENABLED, pod("b-0", "b", **REFUSED), old=OFF).findings
    assert [each.remedy.partition(", ")[::2] for each in found] == [
        (f"label the namespace {DRA}: preview first", "so that its pods get warnings and nothing else"),
        (
            "in ReplicaSet b",
            "remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family",
        ),
    ]
    assert {str(each.path) for each in found} == {f"metadata.labels[{DRA}]"}


def test_namespace_whose_workloads_are_all_converted_gets_their_number():
    answer = decision(ENABLED, pod("a-0", "a"), pod("b-0", "b"), old=OFF)
    assert answer.findings == ()
    assert answer.warnings == ("2 workloads of this namespace request GPUs: 2 would be converted",)


def test_workload_in_a_file_counts_with_its_pods_once():
    owned = {**pod("web-0", "web-1"), "spec": spec()}
    replicas = {
        **deployment("web-1", **REFUSED),
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-1",
            "namespace": "team-a",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "w", "controller": True}
            ],
        },
    }
    summary, reason = messages(ENABLED, deployment("web", **REFUSED), replicas, owned, old=OFF)
    assert summary.startswith("1 workload of this namespace requests GPUs: none would be converted")
    assert reason.startswith("1 workload, such as Deployment web, would be refused")


def test_converted_pod_counts_as_converted():
    view = ManifestsView([*CLUSTER, ENABLED])
    converted = review(Request(pod("a-0", "a"), namespace="team-a"), view, DEFAULTS).object
    assert decision(ENABLED, converted, old=OFF).warnings == (
        "1 workload of this namespace requests GPUs: 1 would be converted",
    )


@pytest.mark.parametrize(
    "other",
    [
        {**pod("done", **REFUSED), "status": {"phase": "Succeeded"}},
        {**pod("web", **REFUSED), "spec": {"containers": [{"name": "web"}]}},
        {**pod("there", **REFUSED), "metadata": {"name": "there", "namespace": "team-b"}},
    ],
    ids=["ended", "without GPUs", "elsewhere"],
)
def test_pod_that_conversion_does_not_concern_is_not_counted(other):
    assert decision(ENABLED, pod("a"), other, old=OFF).warnings == (
        "1 workload of this namespace requests GPUs: 1 would be converted",
    )


def test_namespace_without_a_driver_is_warned_before_it_has_workloads():
    request = Request(ENABLED, OFF, "UPDATE", kind="Namespace", namespace="team-a", entry="opt-in")
    (found,) = review(request, ManifestsView([NODE, NO_CLASSES, NO_SLICES, NO_PODS]), DEFAULTS).findings
    assert found.message.startswith("a pod that requests 1 GPU would be refused: ")
    assert 'DeviceClass "gpu.nvidia.com", which does not exist (GA310)' in found.message
    assert found.remedy.startswith("install NVIDIA's DRA driver")


def test_namespace_without_workloads_is_right_where_a_pod_would_be_converted():
    answer = decision(ENABLED, NO_PODS, old=OFF)
    assert (answer.findings, answer.warnings) == ((), ())


@pytest.mark.parametrize(
    ("new", "old", "label"),
    [
        (ENABLED, OFF, DRA),
        (ENABLED, namespace(dra="preview"), DRA),
        (namespace(dra="preview"), OFF, DRA),
        (namespace(dra="enabled", dra_strategy="rename"), ENABLED, STRATEGY),
        (ENABLED, ENABLED, None),
        (OFF, ENABLED, None),
        (namespace(dra="disabled"), ENABLED, None),
        (namespace(dra_strategy="rename"), OFF, None),
        (namespace(dra="enabled", quota="enforced"), ENABLED, None),
    ],
)
def test_only_a_new_choice_is_spoken_of(new, old, label):
    found = decision(new, pod("b-0", "b", **REFUSED), old=old).findings
    assert {str(each.path) for each in found} == ({f"metadata.labels[{label}]"} if label else set())


def test_preview_is_not_told_to_preview_first():
    summary, _ = decision(namespace(dra="preview"), pod("b-0", "b", **REFUSED), old=OFF).findings
    assert summary.remedy == ""


def test_creating_a_namespace_that_exists_shows_nothing_of_its_workloads():
    answer = decision(ENABLED, pod("secret-0", "secret", **REFUSED))
    assert (answer.findings, answer.warnings) == ((), ())


def test_exempt_namespace_is_not_spoken_of():
    new = namespace("gpu-operator", dra="enabled")
    other = pod("b", **REFUSED)
    other["metadata"]["namespace"] = "gpu-operator"
    old = namespace("gpu-operator")
    request = Request(new, old, "UPDATE", kind="Namespace", namespace="gpu-operator", entry="opt-in")
    assert review(request, ManifestsView([*CLUSTER, other]), DEFAULTS).findings == ()


@pytest.mark.parametrize("missing", ["Node", "DeviceClass", "ResourceSlice", "Pod"])
def test_unknown_facts_are_named_and_nothing_is_guessed(missing):
    known = {"Node": NODE, "DeviceClass": CLASS, "ResourceSlice": NO_SLICES, "Pod": pod("b-0", "b", **REFUSED)}
    view = ManifestsView(document for kind, document in known.items() if kind != missing)
    request = Request(ENABLED, OFF, "UPDATE", kind="Namespace", namespace="team-a", entry="opt-in")
    answer = review(request, view, DEFAULTS)
    assert answer.findings == ()
    assert answer.warnings == (f"what {DRA} would do was not checked, because these are unknown now: {missing}",)


def test_beyond_the_most_forms_numbers_are_at_least():
    zones = [{"nodeSelector": {"zone": str(number), **REFUSED["nodeSelector"]}} for number in range(MOST_FORMS + 5)]
    pods = [pod(f"p-{number:03}", f"rs-{number:03}", **zone) for number, zone in enumerate(zones)]
    summary, reason = messages(ENABLED, *pods, old=OFF)
    assert summary.startswith(f"at least {MOST_FORMS} workloads of this namespace request GPUs")
    assert reason.startswith(f"{MOST_FORMS} workloads, such as")


def test_alike_workloads_are_one_form():
    pods = [pod(f"p-{number}", f"rs-{number}", **REFUSED) for number in range(3 * MOST_FORMS)]
    summary, _ = messages(ENABLED, *pods, old=OFF)
    assert summary.startswith(f"{3 * MOST_FORMS} workloads of this namespace request GPUs")


def test_forms_count_as_work():
    pods = [pod(f"p-{number}", f"rs-{number}", gpus=number + 1) for number in range(20)]
    with pytest.raises(TooMuchWork), bounded_by(Work(15_000)):
        decision(ENABLED, *pods, old=OFF)


def test_pods_without_gpus_count_as_work():
    pods = [{**pod(f"web-{number}"), "spec": {"containers": [{"name": "web"}]}} for number in range(1000)]
    with pytest.raises(TooMuchWork), bounded_by(Work(1000)):
        decision(ENABLED, *pods, old=OFF)


def test_review_of_files_compares_with_the_stored_namespace():
    stored = ManifestsView([*CLUSTER, ENABLED, pod("b-0", "b", **REFUSED)], [ENABLED])
    changed = ManifestsView([*CLUSTER, OFF, pod("b-0", "b", **REFUSED)], [ENABLED])
    request = Request(ENABLED, kind="Namespace", name="team-a")
    found = [[each.rule.id for each in review(request, view, DEFAULTS).findings] for view in (stored, changed)]
    assert found == [["GA706"], ["GA706", "GA339", "GA339"]]


def test_review_of_files_counts_workloads_of_the_same_files():
    view = ManifestsView(CLUSTER, [ENABLED, deployment("web", **REFUSED)])
    found = review(Request(ENABLED, kind="Namespace", name="team-a"), view, DEFAULTS).findings
    assert "1 workload of this namespace requests GPUs" in next(
        each.message for each in found if each.rule.id == "GA339"
    )


@pytest.mark.parametrize("odd", [{"labels": 1}, {"labels": {DRA: 1}}, {"labels": {DRA: "enabled"}, "name": 7}, 5])
def test_odd_namespace_is_no_error(odd):
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": odd}
    assert decision(document, pod("b", **REFUSED), old=OFF).allowed
