"""Pods and claims that Kubernetes' own ResourceQuotas refuse, in the words of the API server."""

import pytest

from policies.devices.native_quotas import QuotaUse, refused_claims, refused_pod
from policies.devices.resource_claims import Claim
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
CLASS = k8s.device_class(extendedResourceName=GPU)
DEVICES = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
VERSION = {"serverVersion": {"gitVersion": "v1.36.2"}}


def quota(hard, used=None, **spec):
    made = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team-a"},
        "spec": {"hard": hard, **spec},
    }
    return made if used is None else {**made, "status": {"hard": hard, "used": used}}


def claims_refused(hard, *requests, used=None, pod=None, cluster=(CLASS, VERSION), **options):
    """The texts of the refusals of claims, each with a request, for a pod."""
    view = ManifestsView([quota(hard, used), *cluster])
    claims = [Claim(k8s.claim(each)) for each in requests]
    return [each.text for each in refused_claims(claims, pod or k8s.pod(), "team-a", view, **options)]


def pod_refused(pod, hard, used=None, **spec):
    return [each.text for each in refused_pod(pod, "team-a", ManifestsView([quota(hard, used, **spec)]))]


@pytest.mark.parametrize(
    ("hard", "text"),
    [
        ({DEVICES: "2"}, None),
        ({DEVICES: "1"}, f"{DEVICES}=2, used: {DEVICES}=0, limited: {DEVICES}=1"),
        ({CLAIMS: "0"}, f"{CLAIMS}=1, used: {CLAIMS}=0, limited: {CLAIMS}=0"),
        ({f"requests.{GPU}": "1"}, f"requests.{GPU}=2, used: requests.{GPU}=0, limited: requests.{GPU}=1"),
        (
            {f"requests.{IMPLICIT}": "1"},
            f"requests.{IMPLICIT}=2, used: requests.{IMPLICIT}=0, limited: requests.{IMPLICIT}=1",
        ),
        (
            {f"requests.{GPU}": "1", DEVICES: "1", CLAIMS: "1"},
            f"{DEVICES}=2,requests.{GPU}=2, used: {DEVICES}=0,requests.{GPU}=0, limited: {DEVICES}=1,requests.{GPU}=1",
        ),
        ({"mig.nvidia.com.deviceclass.resource.k8s.io/devices": "0", "requests.example.com/gpu": "0"}, None),
        ({"pods": "0", "requests.cpu": "0"}, None),
    ],
)
def test_claim_beyond_a_limit_is_refused(hard, text):
    assert claims_refused(hard, {"count": 2}) == ([f"exceeded quota: q, requested: {text}"] if text else [])


@pytest.mark.parametrize(
    ("request_", "devices"),
    [
        ({}, 1),
        ({"allocationMode": "All"}, 32),
        ({"count": 3, "adminAccess": True}, 3),
    ],
)
def test_devices_of_a_request_are_counted(request_, devices):
    (text,) = claims_refused({DEVICES: "0"}, request_)
    assert f"requested: {DEVICES}={devices}, " in text


def test_alternatives_count_as_the_most_of_each_class():
    wanted = [("a", "gpu.nvidia.com", 2), ("b", "gpu.nvidia.com", 1), ("c", "mig.nvidia.com", 4)]
    listed = [{"name": name, "deviceClassName": of_class, "count": count} for name, of_class, count in wanted]
    claim = k8s.claim()
    claim["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": listed}]
    mig = "mig.nvidia.com.deviceclass.resource.k8s.io/devices"
    view = ManifestsView([quota({DEVICES: "0", mig: "0"}), CLASS, VERSION])
    (found,) = refused_claims([Claim(claim)], k8s.pod(), "team-a", view)
    assert found.text.startswith(f"exceeded quota: q, requested: {DEVICES}=2,{mig}=4, ")


def test_claims_of_one_pod_add_up():
    assert claims_refused({DEVICES: "2"}, {}, {"count": 2}) == [
        f"exceeded quota: q, requested: {DEVICES}=3, used: {DEVICES}=0, limited: {DEVICES}=2"
    ]


def test_status_tells_what_is_used():
    assert claims_refused({DEVICES: "8"}, {"count": 2}, used={DEVICES: "7"}) == [
        f"exceeded quota: q, requested: {DEVICES}=2, used: {DEVICES}=7, limited: {DEVICES}=8"
    ]


HELD = k8s.claim({"count": 7}, name="held")


@pytest.mark.parametrize(("use", "refused"), [(QuotaUse.NOTHING, 0), (QuotaUse.SHOWN, 0), (QuotaUse.COUNTED, 1)])
def test_objects_tell_what_is_used_where_the_status_does_not(use, refused):
    assert len(claims_refused({DEVICES: "8"}, {"count": 2}, cluster=(CLASS, VERSION, HELD), use=use)) == refused


def test_unknown_use_is_not_named():
    assert claims_refused({DEVICES: "1"}, {"count": 2}, use=QuotaUse.SHOWN) == [
        f"exceeded quota: q, requested: {DEVICES}=2, limited: {DEVICES}=1"
    ]


def test_nothing_is_used_if_only_the_limit_is_asked_for():
    assert claims_refused({DEVICES: "8"}, {"count": 2}, used={DEVICES: "7"}, use=QuotaUse.NOTHING) == []


@pytest.mark.parametrize(("version", "refused"), [("v1.35.0", 0), ("v1.36.0", 1)])
def test_claims_count_as_extended_resources_since_kubernetes_1_36(version, refused):
    cluster = CLASS, {"serverVersion": {"gitVersion": version}}
    assert len(claims_refused({f"requests.{GPU}": "1"}, {"count": 2}, cluster=cluster)) == refused
    assert len(claims_refused({DEVICES: "1"}, {"count": 2}, cluster=cluster)) == 1


def test_claims_of_a_class_without_the_resource_do_not_count_as_it():
    assert claims_refused({f"requests.{GPU}": "1"}, {"count": 2}, cluster=(k8s.device_class(), VERSION)) == []


@pytest.mark.parametrize("scopes", [{"scopes": ["NotTerminating"]}, {"scopeSelector": {"matchExpressions": [{}]}}])
def test_quotas_with_scopes_count_no_claims(scopes):
    view = ManifestsView([quota({DEVICES: "0"}, **scopes), CLASS, VERSION])
    assert refused_claims([Claim(k8s.claim())], k8s.pod(), "team-a", view) == ()


def test_scheduler_claim_counts_what_the_pod_has_not_counted():
    pod = k8s.pod({IMPLICIT: "2"})
    assert claims_refused({f"requests.{IMPLICIT}": "2", CLAIMS: "1"}, pod=pod) == []
    assert claims_refused({f"requests.{GPU}": "1"}, pod=pod) == [
        f"exceeded quota: q, requested: requests.{GPU}=2, used: requests.{GPU}=0, limited: requests.{GPU}=1"
    ]


def test_claim_that_the_scheduler_made_counts_with_its_pod_once():
    pod = k8s.pod({IMPLICIT: "2"}, name="old", stored=True)
    claim = k8s.claim({"count": 2}, name="old-claim")
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claim["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "old", "controller": True}]
    key = f"requests.{IMPLICIT}"
    (text,) = claims_refused({key: "3"}, {"count": 2}, cluster=(CLASS, VERSION, pod, claim))
    assert f"used: {key}=2, " in text


@pytest.mark.parametrize("resource", [GPU, IMPLICIT, "nvidia.com/mig-1g.10gb"])
def test_pod_beyond_a_limit_is_refused(resource):
    key = f"requests.{resource}"
    pod = k8s.pod({resource: "2"})
    assert pod_refused(pod, {key: "8"}, {key: "6"}) == []
    assert pod_refused(pod, {key: "8"}, {key: "7"}) == [
        f"exceeded quota: q, requested: {key}=2, used: {key}=7, limited: {key}=8"
    ]


def in_class(operator, *values):
    expression = {"scopeName": "PriorityClass", "operator": operator, **({"values": [*values]} if values else {})}
    return {"scopeSelector": {"matchExpressions": [expression]}}


TERM = {"topologyKey": "zone"}
ELSEWHERE = {**TERM, "namespaces": ["team-b"]}


@pytest.mark.parametrize(
    ("spec", "scope", "counts"),
    [
        ({}, {"scopes": ["Terminating"]}, False),
        ({}, {"scopes": ["NotTerminating"]}, True),
        ({"activeDeadlineSeconds": 60}, {"scopes": ["Terminating"]}, True),
        ({}, {"scopes": ["BestEffort"]}, True),
        ({"resources": {"requests": {"cpu": "1"}}}, {"scopes": ["BestEffort"]}, False),
        ({"resources": {"limits": {"memory": "1Gi"}}}, {"scopes": ["NotBestEffort"]}, True),
        ({}, {"scopes": ["NotTerminating", "NotBestEffort"]}, False),
        ({}, {"scopes": ["VolumeAttributesClass"]}, False),
        ({"priorityClassName": "high"}, in_class("In", "high"), True),
        ({}, in_class("In", "high"), False),
        ({"priorityClassName": "high"}, in_class("NotIn", "high"), False),
        ({}, in_class("NotIn", "high"), True),
        ({"priorityClassName": "high"}, in_class("Exists"), True),
        ({}, in_class("Exists"), False),
        ({}, in_class("DoesNotExist"), True),
        ({}, {"scopes": ["CrossNamespacePodAffinity"]}, False),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
            {"scopes": ["CrossNamespacePodAffinity"]},
            False,
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": ELSEWHERE}]
                    }
                }
            },
            {"scopes": ["CrossNamespacePodAffinity"]},
            True,
        ),
    ],
)
def test_scopes_say_which_pods_count(spec, scope, counts):
    assert bool(pod_refused(k8s.pod({GPU: "1"}, **spec), {f"requests.{GPU}": "0"}, **scope)) is counts


def test_pods_outside_a_scope_are_not_counted_for_it():
    batch = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["batch"]}]}
    others = [k8s.pod({GPU: "1"}, name=name, priorityClassName=name) for name in ("batch", "high", "low")]
    view = ManifestsView([quota({f"requests.{GPU}": "2"}, scopeSelector=batch), *others])
    new = k8s.pod({GPU: "1"}, priorityClassName="batch")
    assert refused_pod(new, "team-a", view) == ()
    assert len(refused_pod(k8s.pod({GPU: "2"}, priorityClassName="batch"), "team-a", view)) == 1
