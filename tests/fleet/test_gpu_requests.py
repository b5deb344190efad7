"""GPU requests of a pod: extended resources, implicit names, classes, claims."""

import subprocess
import sys
from pathlib import Path

import pytest

from policies.fleet import GPUAccess, RequestKind, extended_requests, gpu_access, gpu_requests, may_request_gpu
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.view import UNKNOWN
from policies.rules.settings import DEFAULTS, Conversion, GPUAdmissionPolicy
from tests.fleet.fleet_objects import (
    CHANNEL,
    EITHER,
    GPU,
    IMPLICIT,
    MIG,
    NVIDIAS,
    OTHER,
    claim,
    cluster,
    container,
    device_class,
    exactly,
    first_available,
    pod,
    template,
)
from webhook.cluster.manifests import ManifestsView

CERTAIN, POSSIBLE, NONE, UNSEEN = GPUAccess.CERTAIN, GPUAccess.POSSIBLE, GPUAccess.NONE, GPUAccess.UNKNOWN
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_CLAIM = {"name": "gpu", "resourceClaimName": "c"}


def access(gpu_pod, *objects, settings=DEFAULTS):
    """What each container is given, by its path."""
    view = objects[0] if objects and isinstance(objects[0], ManifestsView) else cluster(*objects)
    return {str(path): each for path, each in gpu_access(gpu_pod, "team-a", view, settings).items()}


def by_resource(name, *objects, amount=1):
    (found,) = access(pod(container(limits={name: amount})), *objects).values()
    return found


def by_claim(request, *objects, version="v1", reference=None):
    gpu_pod = pod(container(claims=[reference or {"name": "gpu"}]), claims=[BY_TEMPLATE])
    (found,) = access(gpu_pod, template(request, version=version), *objects).values()
    return found


# Extended resources


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.shared"],
)
def test_resource_of_the_device_plugin_is_certain(name):
    assert by_resource(name) is CERTAIN
    assert by_resource(name, ManifestsView()) is CERTAIN


@pytest.mark.parametrize("name", ["cpu", "memory", "amd.com/gpu", "nvidia.com/gpus", "nvidia.com/hostdev", "gpu"])
def test_other_resource_gives_none(name):
    assert by_resource(name) is NONE


@pytest.mark.parametrize("amount", [0, "0", "0m", "0Gi", 0.0])
def test_zero_amount_gives_none(amount):
    assert by_resource("nvidia.com/gpu", amount=amount) is NONE


def test_text_that_is_no_amount_counts():
    assert by_resource("nvidia.com/gpu", amount="many") is CERTAIN


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ([GPU], CERTAIN),
        ([MIG], CERTAIN),
        ([OTHER], NONE),
        ([CHANNEL], NONE),
        ([GPU, OTHER], NONE),
        ([EITHER], POSSIBLE),
        ([], POSSIBLE),
        (["not CEL"], POSSIBLE),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["gpu.nvidia.com", "fast.gpu.nvidia.com", "fast.example.com"])
@pytest.mark.parametrize("by", ["implicit name", "extended resource", "claim"])
def test_class_is_judged_by_its_selectors_and_not_by_its_name(by, name, selectors, expected):
    own = device_class(name, *selectors, extended="example.com/fast")
    if by == "claim":
        assert by_claim(exactly(name), own) is expected
    else:
        assert by_resource("example.com/fast" if by == "extended resource" else IMPLICIT + name, own) is expected


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"])
@pytest.mark.parametrize(
    ("selectors", "expected"), [([GPU], CERTAIN), ([OTHER], POSSIBLE), ([EITHER], POSSIBLE)], ids=str
)
def test_class_that_stands_for_a_name_of_the_device_plugin_can_give_another_device(name, selectors, expected):
    assert by_resource(name, device_class("fast.example.com", *selectors, extended=name)) is expected


@pytest.mark.parametrize("name", ["gpu.nvidia.com", "fast.example.com"])
def test_missing_class_is_unknown(name):
    assert by_resource(IMPLICIT + name) is UNSEEN
    assert by_claim(exactly(name)) is UNSEEN


def test_unlisted_classes_are_unknown():
    assert by_resource(IMPLICIT + "gpu.nvidia.com", ManifestsView()) is UNSEEN
    assert by_resource("example.com/fast", ManifestsView()) is UNSEEN


def test_class_that_is_reviewed_is_known_by_name():
    view = ManifestsView(reviewed=[device_class("fast.example.com", OTHER)])
    assert by_resource(IMPLICIT + "fast.example.com", view) is NONE


def test_class_whose_selectors_cannot_be_read_is_unknown():
    own = device_class("fast.example.com", extended="example.com/fast")
    own["spec"]["selectors"] = [{"cel": None}]
    assert by_resource("example.com/fast", own) is UNSEEN
    assert by_resource(IMPLICIT + "fast.example.com", own) is UNSEEN


def test_resource_of_two_classes_is_possible():
    old = device_class("a.example.com", GPU, extended="example.com/fast", created="2026-01-01T00:00:00Z")
    new = device_class("b.example.com", OTHER, extended="example.com/fast", created="2026-02-01T00:00:00Z")
    assert by_resource("example.com/fast", old, new) is POSSIBLE


# Claims


def test_request_for_a_class_is_certain():
    assert by_claim(exactly("gpu.nvidia.com"), *NVIDIAS) is CERTAIN


@pytest.mark.parametrize(
    "classes", [NVIDIAS, [device_class("gpu.nvidia.com", EITHER)], []], ids=["gpu", "any", "missing"]
)
def test_selectors_of_the_request_exclude_gpus(classes):
    assert by_claim(exactly("gpu.nvidia.com", OTHER), *classes) is NONE


def test_selectors_of_the_request_exclude_other_devices():
    every = device_class("any.example.com")
    assert by_claim(exactly("any.example.com"), every) is POSSIBLE
    assert by_claim(exactly("any.example.com", GPU), every) is CERTAIN
    assert by_claim(exactly("missing.example.com", GPU), every) is CERTAIN


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["gpu.nvidia.com", "mig.nvidia.com"], CERTAIN),
        (["fast.example.com", "gpu.nvidia.com"], POSSIBLE),
        (["fast.example.com"], NONE),
        (["missing.example.com", "gpu.nvidia.com"], POSSIBLE),
        (["missing.example.com", "fast.example.com"], UNSEEN),
    ],
    ids=str,
)
def test_prioritized_list_gives_one_of_its_alternatives(classes, expected):
    assert by_claim(first_available(*classes), *NVIDIAS, device_class("fast.example.com", OTHER)) is expected


@pytest.mark.parametrize(
    ("request_of_claim", "version"),
    [
        (exactly("gpu.nvidia.com"), "v1"),
        (exactly("gpu.nvidia.com"), "v1beta2"),
        ({"name": "gpu", "deviceClassName": "gpu.nvidia.com"}, "v1beta1"),
        (first_available("gpu.nvidia.com"), "v1beta1"),
    ],
)
def test_claims_of_every_served_version_are_read(request_of_claim, version):
    assert by_claim(request_of_claim, *NVIDIAS, version=version) is CERTAIN


@pytest.mark.parametrize("request_of_claim", [{}, {"name": "gpu"}, {"name": "gpu", "exactly": {}}, "x", None], ids=str)
def test_request_of_any_shape_is_read(request_of_claim):
    assert by_claim(request_of_claim, *NVIDIAS) in (NONE, UNSEEN)


@pytest.mark.parametrize("entry", [BY_TEMPLATE, BY_CLAIM, {"name": "gpu"}, {"name": "gpu", "laterName": "x"}], ids=str)
def test_claim_that_cannot_be_seen_is_unknown(entry):
    gpu_pod = pod(container(claims=[{"name": "gpu"}]), claims=[entry])
    for view in (cluster(), ManifestsView(), cluster(template(namespace="team-b"), claim(namespace="team-b"))):
        assert access(gpu_pod, view) == {"spec.containers[0]": UNSEEN}


def test_object_on_which_an_unknown_access_depends_is_named():
    gpu_pod = pod(claims=[BY_TEMPLATE, BY_CLAIM])
    found = gpu_requests(gpu_pod, "team-a", cluster(claim(exactly("missing.example.com"))))
    assert [each.unseen for each in found] == [
        (("ResourceClaimTemplate", "t"),),
        (("DeviceClass", "missing.example.com"),),
    ]


# Containers


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"name": "gpu"}, CERTAIN),
        ({"name": "gpu", "request": ""}, CERTAIN),
        ({"name": "gpu", "request": "device"}, CERTAIN),
        ({"name": "gpu", "request": "channel"}, NONE),
        ({"name": "gpu", "request": "missing"}, NONE),
        ({"name": "other"}, NONE),
        ({"name": []}, NONE),
        ("gpu", NONE),
    ],
    ids=str,
)
def test_container_is_given_the_requests_that_it_refers_to(reference, expected):
    objects = [*NVIDIAS, device_class("channel", CHANNEL)]
    requests = [exactly("channel", name="channel"), exactly("gpu.nvidia.com", name="device")]
    gpu_pod = pod(container(claims=[reference]), claims=[BY_TEMPLATE])
    assert access(gpu_pod, template(*requests), *objects) == {"spec.containers[0]": expected}


def test_containers_of_every_kind_are_reported_apart():
    gpu = {"nvidia.com/gpu": 1}
    gpu_pod = pod(
        container("main"),
        container("other", requests=gpu),
        initContainers=[container("init", limits=gpu), container("sidecar", restartPolicy="Always")],
        ephemeralContainers=[container("debug", limits=gpu)],
    )
    assert access(gpu_pod) == {
        "spec.initContainers[0]": CERTAIN,
        "spec.initContainers[1]": NONE,
        "spec.containers[0]": NONE,
        "spec.containers[1]": CERTAIN,
    }


def test_request_counts_beside_a_limit_of_none():
    assert access(pod(container(limits={"nvidia.com/gpu": 0}, requests={"nvidia.com/gpu": 1}))) == {
        "spec.containers[0]": CERTAIN
    }


def test_container_with_several_requests_has_the_most_certain():
    limits = {"example.com/fast": 1, "nvidia.com/gpu": 1}
    assert access(pod(container(limits=limits)), device_class("any", extended="example.com/fast")) == {
        "spec.containers[0]": CERTAIN
    }


def test_claim_that_no_container_refers_to_is_a_request_of_the_pod():
    gpu_pod = pod(container(), claims=[BY_CLAIM])
    (found,) = gpu_requests(gpu_pod, "team-a", cluster(*NVIDIAS, claim(exactly("gpu.nvidia.com"))))
    assert (found.kind, found.container, found.access) == (RequestKind.CLAIM, None, CERTAIN)
    assert access(gpu_pod, *NVIDIAS, claim(exactly("gpu.nvidia.com"))) == {"spec.containers[0]": NONE}


def test_requests_say_where_they_are():
    limits = {"cpu": 1, "nvidia.com/gpu": 1, IMPLICIT + "gpu.nvidia.com": 1}
    gpu_pod = pod(container(limits=limits, requests=limits | {"example.com/fast": 1}), claims=[BY_TEMPLATE])
    view = cluster(*NVIDIAS, template(exactly("mig.nvidia.com")), device_class("a", extended="example.com/fast"))
    assert [(each.kind, each.name, str(each.path), each.access) for each in gpu_requests(gpu_pod, "team-a", view)] == [
        (RequestKind.DEVICE_PLUGIN, "nvidia.com/gpu", "spec.containers[0].resources.limits[nvidia.com/gpu]", CERTAIN),
        (
            RequestKind.DEVICE_CLASS,
            f"{IMPLICIT}gpu.nvidia.com",
            f"spec.containers[0].resources.limits[{IMPLICIT}gpu.nvidia.com]",
            CERTAIN,
        ),
        (
            RequestKind.EXTENDED_RESOURCE,
            "example.com/fast",
            "spec.containers[0].resources.requests[example.com/fast]",
            POSSIBLE,
        ),
        (RequestKind.CLAIM, "gpu", "spec.resourceClaims[0].resourceClaimTemplateName", CERTAIN),
    ]


@pytest.mark.parametrize(
    ("resource", "probable"),
    [
        (f"{IMPLICIT}gpu.nvidia.com", True),
        (f"{IMPLICIT}mig-1g-12gb.gpu.nvidia.com", True),
        (f"{IMPLICIT}fast.example.com", False),
        ("example.com/fast", False),
    ],
)
def test_class_that_cannot_be_seen_is_probable_by_the_names_of_nvidias(resource, probable):
    (found,) = extended_requests(pod(container(limits={resource: 1})), ManifestsView())
    assert (found.access, found.is_probable) == (UNSEEN, probable)


@pytest.mark.parametrize(
    "gpu_pod",
    [
        None,
        {},
        {"spec": None},
        pod("x", None, 3),
        pod({"resources": []}),
        pod({"resources": {"limits": 3, "claims": 3}}),
    ],
    ids=str,
)
def test_pod_of_any_shape_is_read(gpu_pod):
    assert list(gpu_requests(gpu_pod, "team-a", cluster())) == []
    assert not may_request_gpu(gpu_pod)
    assert set(gpu_access(gpu_pod, "team-a", cluster(), DEFAULTS).values()) <= {NONE}


@pytest.mark.parametrize("names", [{3: 1}, {None: 1}], ids=str)
def test_names_of_resources_are_texts(names):
    assert access(pod(container(limits=names))) == {"spec.containers[0]": NONE}


# Bounds


class Untouched(ManifestsView):
    def get(self, kind, name, namespace=""):
        raise AssertionError((kind, name))

    def list(self, kind, namespace=""):
        raise AssertionError(kind)


# The way to the node


FAST = device_class("fast.example.com", GPU, extended="example.com/fast")
SCHEDULERS = GPUAdmissionPolicy(conversion=Conversion(schedulers=("mine",)))


def node(**allocatable):
    status = {"allocatable": allocatable["resources"]} if allocatable else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": status}


def bound(resource, *objects, status=None):
    gpu_pod = pod(container(limits={resource: 1}), nodeName="node-1")
    (found,) = access({**gpu_pod, "status": status or {}}, FAST, *NVIDIAS, *objects).values()
    return found


@pytest.mark.parametrize("resource", ["example.com/fast", f"{IMPLICIT}gpu.nvidia.com"])
def test_class_gives_a_pod_that_names_its_node_nothing(resource):
    assert bound(resource) is NONE
    assert bound(resource, node(resources={resource: "1"})) is NONE


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((), POSSIBLE),
        ((node(),), POSSIBLE),
        ((node(resources={"cpu": "8", "nvidia.com/gpu": "8"}),), CERTAIN),
        ((node(resources={"cpu": "8"}),), NONE),
    ],
    ids=["no-node", "no-status", "offered", "not-offered"],
)
def test_device_plugin_gives_a_pod_that_names_its_node_what_the_node_has(objects, expected):
    assert bound("nvidia.com/gpu", *objects) is expected


@pytest.mark.parametrize("resource", ["example.com/fast", f"{IMPLICIT}gpu.nvidia.com", "nvidia.com/gpu"])
def test_pod_that_its_scheduler_bound_has_its_claim(resource):
    mappings = [{"containerName": "main", "resourceName": resource, "requestName": "r"}]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "made", "requestMappings": mappings}}
    assert bound(resource, node(resources={"cpu": "8"}), status=status) is CERTAIN


@pytest.mark.parametrize(
    ("scheduler", "settings", "expected"),
    [
        (None, DEFAULTS, CERTAIN),
        ("", DEFAULTS, CERTAIN),
        ("default-scheduler", DEFAULTS, CERTAIN),
        ("other", DEFAULTS, NONE),
        ("mine", SCHEDULERS, CERTAIN),
        ("default-scheduler", SCHEDULERS, NONE),
        (["default-scheduler"], DEFAULTS, NONE),
    ],
    ids=str,
)
def test_class_gives_a_gpu_under_the_schedulers_that_make_claims(scheduler, settings, expected):
    gpu_pod = pod(container(limits={"example.com/fast": 1}), schedulerName=scheduler)
    assert access(gpu_pod, FAST, settings=settings) == {"spec.containers[0]": expected}


def test_device_plugin_gives_a_gpu_under_every_scheduler():
    gpu_pod = pod(container(limits={"nvidia.com/gpu": 1}), schedulerName="other")
    assert access(gpu_pod, *NVIDIAS) == {"spec.containers[0]": CERTAIN}


def test_claim_gives_a_gpu_whatever_node_and_scheduler_the_pod_names():
    by_template = pod(container(claims=[{"name": "gpu"}]), claims=[BY_TEMPLATE], nodeName="x", schedulerName="other")
    assert access(by_template, template(exactly("gpu.nvidia.com")), *NVIDIAS) == {"spec.containers[0]": CERTAIN}


def test_request_without_which_the_pod_starts_is_still_a_gpu_request():
    gpu_pod = pod(container(limits={"example.com/fast": 1}), nodeName="node-1")
    (found,) = gpu_requests(gpu_pod, "team-a", cluster(FAST))
    assert found.access is CERTAIN


def test_pod_that_requests_no_device_reads_nothing():
    gpu_pod = pod(container(limits={"cpu": 1, "memory": "1Gi"}))
    assert list(gpu_requests(gpu_pod, "team-a", Untouched())) == []
    assert gpu_access(gpu_pod, "team-a", Untouched(), DEFAULTS) == {FieldPath(("spec", "containers", 0)): NONE}


def test_template_of_many_claims_is_judged_once():
    expressions = []

    class Counted(str):
        __slots__ = ()

        def __hash__(self):
            expressions.append(self)
            return super().__hash__()

    made = template(exactly("gpu.nvidia.com", Counted(GPU)))
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": "t"} for index in range(1000)]
    gpu_pod = pod(container(claims=[{"name": each["name"]} for each in claims]), claims=claims)
    assert len(list(gpu_requests(gpu_pod, "team-a", cluster(*NVIDIAS, made)))) == 1000
    assert access(gpu_pod, made, *NVIDIAS) == {"spec.containers[0]": CERTAIN}
    assert len(expressions) <= 2


def test_selectors_beyond_the_bound_exclude_nothing():
    filler = f"device.driver == 'gpu.nvidia.com' || '{'x' * 5000}' == ''"
    costly = [exactly("gpu.nvidia.com", f"{filler} || {index} == 0", name=f"r{index}") for index in range(3)]
    requests = [*costly, exactly("any.example.com", OTHER, name="last")]
    gpu_pod = pod(container(claims=[{"name": "gpu", "request": "last"}]), claims=[BY_TEMPLATE])
    objects = [*NVIDIAS, device_class("any.example.com")]
    assert access(gpu_pod, template(*requests), *objects) == {"spec.containers[0]": POSSIBLE}
    assert access(gpu_pod, template(*requests[2:]), *objects) == {"spec.containers[0]": NONE}


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "cpu", "example.com/h100", f"{IMPLICIT}h100.example.com", f"{IMPLICIT}gpu.nvidia.com"],
)
def test_selectors_of_nvidia_need_no_cel_engine(resource):
    objects = [
        device_class("h100.example.com", GPU, extended="example.com/h100"),
        device_class("unrequested.example.com", EITHER, extended="example.com/unrequested"),
        template(exactly("h100.example.com")),
    ]
    gpu_pod = pod(container(limits={resource: 1}), claims=[BY_TEMPLATE])
    program = f"""
import sys
from policies.fleet import gpu_access, gpu_requests
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

assert list(gpu_requests({gpu_pod!r}, "team-a", ManifestsView({objects!r})))
assert gpu_access({gpu_pod!r}, "team-a", ManifestsView({objects!r}), DEFAULTS)
assert "policies.cel" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_unknown_kind_is_not_taken_for_an_empty_one():
    assert ManifestsView().list("DeviceClass") is UNKNOWN
    assert by_resource("example.com/fast", ManifestsView()) is UNSEEN
    assert by_resource("example.com/fast", cluster()) is NONE


def test_claim_that_cannot_be_seen_names_its_object():
    asking = pod(container(claims=[{"name": "gpu"}]), claims=[BY_TEMPLATE])
    (found,) = gpu_requests(asking, "team-a", cluster())
    assert (found.kind, found.name, found.unseen) == (
        RequestKind.CLAIM,
        "gpu",
        (("ResourceClaimTemplate", "t"),),
    )


def test_resource_is_unlisted_while_classes_cannot_be_listed():
    (found,) = gpu_requests(pod(container(limits={"example.com/h100": 1})), "team-a", ManifestsView())
    assert found.is_unlisted


def test_resource_of_a_missing_class_is_not_unlisted():
    (found,) = gpu_requests(pod(container(limits={IMPLICIT + "gone": 1})), "team-a", cluster())
    assert found.is_unlisted is False


def test_requests_of_one_name_give_what_the_better_of_them_gives():
    one = template(exactly("gpu.nvidia.com"), exactly("other.example.com"), name="t")
    asking = pod(container(claims=[{"name": "gpu", "request": "gpu"}]), claims=[BY_TEMPLATE])
    (found,) = access(asking, *NVIDIAS, device_class("other.example.com", OTHER), one).values()
    assert found is CERTAIN
