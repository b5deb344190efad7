"""ResourceQuotas and LimitRanges of Kubernetes: keys that nothing counts, and GPUs that every container gets."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

CLASSES = [
    {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
    for name in ("gpu.nvidia.com", "mig.nvidia.com")
]
CLASSES[1]["spec"]["extendedResourceName"] = "example.com/slice"
KNOWN = ManifestsView(CLASSES)
DEVICES = "deviceclass.resource.k8s.io/devices"


def document(kind, **spec):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "gpus", "namespace": "team-a"}, "spec": spec}


def findings(new, view=KNOWN, old=None, entry="configuration"):
    request = Request(new, old, "UPDATE" if old else "CREATE", kind=new["kind"], namespace="team-a", entry=entry)
    return review(request, view, DEFAULTS).findings


def remedies(hard, view=KNOWN):
    found = findings(document("ResourceQuota", hard=hard), view)
    return {str(each.path): each.remedy for each in found if each.severity is Severity.WARN}


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("nvidia.com/gpu", "requests.nvidia.com/gpu"),
        ("limits.nvidia.com/gpu", "requests.nvidia.com/gpu"),
        ("limits.nvidia.com/mig-1g.10gb", "requests.nvidia.com/mig-1g.10gb"),
        ("requests.nvidia.com/gpus", "requests.nvidia.com/gpu"),
        ("limits.nvidia.com/gpus", "requests.nvidia.com/gpu"),
        ("requests.nvidia.com/mig-1g.10gb+me", "requests.nvidia.com/mig-1g.10gb.me"),
        ("example.com/slice", "requests.example.com/slice"),
        (
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
            "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        ),
        ("gpu.nvidia.con.deviceclass.resource.k8s.io/devices", f"gpu.nvidia.com.{DEVICES}"),
        ("requests.gpu.nvidia.com.deviceclass.resource.k8s.io/devices", f"gpu.nvidia.com.{DEVICES}"),
        ("gpu.nvidia.com.deviceclass.resource.kubernetes.io/devices", f"gpu.nvidia.com.{DEVICES}"),
        (
            "requests.deviceclass.resource.kubernetes.io/mgi.nvidia.com",
            "requests.deviceclass.resource.kubernetes.io/mig.nvidia.com",
        ),
    ],
)
def test_key_that_kubernetes_never_counts_has_the_right_one(key, right):
    assert remedies({key: 8}) == {f"spec.hard[{key}]": f'write "{right}"'}
    assert remedies({right: 8}) == {}


@pytest.mark.parametrize(
    "key",
    [
        *(
            "requests.nvidia.com/gpu",
            "requests.nvidia.com/gpumem",
            "limits.nvidia.com/gpumem",
            "limits.nvidia.com/gpucores",
        ),
        *("requests.cpu", "limits.cpu", "pods", "count/resourceclaims.resource.k8s.io"),
        *("gold.storageclass.storage.k8s.io/requests.storage", "example.com/licence", "limits.example.com/licence"),
        *(f"gpu.nvidia.com.{DEVICES}", "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com"),
    ],
)
def test_key_that_counts_or_is_no_gpu_is_right(key):
    assert remedies({key: 8}) == {}


def test_class_that_does_not_exist_names_those_that_do():
    (remedy,) = remedies({f"a100.example.com.{DEVICES}": 8}).values()
    assert remedy.endswith("write the name of a class that exists: gpu.nvidia.com, mig.nvidia.com")


def test_class_is_not_judged_while_classes_are_unknown():
    assert remedies({f"a100.example.com.{DEVICES}": 8}, ManifestsView()) == {}


@pytest.mark.parametrize(("amount", "severity"), [(8, Severity.AUDIT), (4, Severity.WARN)])
def test_second_key_matters_only_if_it_is_lower_than_the_one_that_counts(amount, severity):
    hard = {"requests.nvidia.com/gpu": 8, "limits.nvidia.com/gpu": amount}
    assert [found.severity for found in findings(document("ResourceQuota", hard=hard))] == [severity]


def test_quota_that_is_applied_again_is_not_spoken_of():
    wrong = document("ResourceQuota", hard={"nvidia.com/gpu": 8})
    assert findings(wrong, old={**wrong, "status": {}}) == ()
    assert findings(wrong, old=document("ResourceQuota", hard={})) != ()


def messages(*items, view=KNOWN):
    found = findings(document("LimitRange", limits=[*items]), view)
    return [f"{str(each.path).removeprefix('spec.limits')}: {each.message}" for each in found]


def test_default_gives_gpus_to_every_container():
    assert messages({"type": "Container", "default": {"nvidia.com/gpu": 1}}) == [
        "[0].default[nvidia.com/gpu]: every container that names no nvidia.com/gpu gets 1"
    ]


def test_maximum_of_containers_is_their_default_too():
    assert messages({"type": "Container", "max": {"nvidia.com/gpu": 2, "cpu": 4}}) == [
        "[0].max[nvidia.com/gpu]: every container that names no nvidia.com/gpu gets 2, because a maximum is the default too"
    ]


def test_maximum_with_a_default_of_zero_is_right():
    item = {"type": "Container", "max": {"nvidia.com/gpu": 2}, "default": {"nvidia.com/gpu": 0}}
    assert messages(item) == []
    assert messages(item, {"type": "Pod", "max": {"nvidia.com/gpu": 4}}) == []


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        ("Container", "min", "every container with less than 1 nvidia.com/gpu is refused, also without GPUs"),
        (
            "Container",
            "defaultRequest",
            "every container that names no nvidia.com/gpu is refused: it gets a request without a limit",
        ),
        ("Pod", "min", "every pod with less than 1 nvidia.com/gpu is refused, also without GPUs"),
        ("Pod", "max", "every pod that names no nvidia.com/gpu is refused: a maximum of pods requires a limit"),
    ],
)
def test_limit_that_refuses_what_has_no_gpus_is_reported(kind, field, said):
    assert messages({"type": kind, field: {"nvidia.com/gpu": 1}}) == [f"[0].{field}[nvidia.com/gpu]: {said}"]


@pytest.mark.parametrize("prefix", ["requests.", "limits."])
def test_key_of_a_resource_quota_is_none_of_a_limit_range(prefix):
    (found,) = findings(document("LimitRange", limits=[{"type": "Container", "max": {f"{prefix}nvidia.com/gpu": 1}}]))
    assert found.remedy == 'write "nvidia.com/gpu"'


def test_limit_range_without_gpus_is_right():
    limits = {"cpu": 4, "memory": "8Gi", "ephemeral-storage": "1Gi"}
    assert messages({"type": "Container", "max": limits, "default": limits, "min": limits}) == []


@pytest.mark.parametrize("spec", [{"hard": []}, {"hard": {"nvidia.com/gpu": []}}, {"limits": [1, {"max": 1}]}, {}])
@pytest.mark.parametrize("kind", ["ResourceQuota", "LimitRange"])
def test_odd_document_is_no_error(kind, spec):
    assert all(each.severity is not Severity.DENY for each in findings(document(kind, **spec), entry=""))


@pytest.mark.parametrize(
    ("hard", "scope", "text"),
    [
        ("4", None, 'is 4, and limit "all" of GPUQuota gpu allows 8 of the same devices; the GPUQuota never refuses'),
        ("16", None, 'is 16, and limit "all" of GPUQuota gpu allows 8 of the same devices; this limit never refuses'),
        ("8", None, None),
        ("4", {"scopeName": "PriorityClass", "operator": "Exists"}, None),
    ],
)
def test_resource_quota_is_compared_with_the_same_limit_of_the_gpu_quota(hard, scope, text):
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 8}]},
    }
    node = k8s.node(labels={"nvidia.com/gpu.product": "Tesla-T4"}, allocatable={"nvidia.com/gpu": "4"})
    empty = [k8s.empty_list(kind, "resource.k8s.io/v1") for kind in ("DeviceClass", "ResourceSlice")]
    selector = {"scopeSelector": {"matchExpressions": [scope]}} if scope else {}
    new = document("ResourceQuota", hard={"requests.nvidia.com/gpu": hard}, **selector)
    found = findings(new, ManifestsView([quota, node, *empty]))
    assert [(each.rule.id, each.severity, each.message) for each in found] == (
        [("GA514", Severity.AUDIT, text)] if text else []
    )
