"""Workloads in a namespace with a quota: warnings about all their pods together."""

from __future__ import annotations

import copy

import pytest

from policies.admission import review
from policies.devices.pod_groups import POD_GROUP_VERSIONS
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import labelled_text
from tests.quota.pod_group_objects import ENTRY, group, group_claim
from tests.quota.reported_quotas import charge, counted
from webhook.cluster.manifests import ManifestsView


def quota(**spec):
    metadata = {"name": "gpu", "namespace": "team-a"}
    spec = {"limits": [{"name": "all", "gpus": 8}], **spec}
    return {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota", "metadata": metadata, "spec": spec}


def namespace(**labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


def running(name, gpus):
    return {**pod(gpus), "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"}}


def pod(gpus):
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    spec = {"containers": [{"name": "train", "image": "train", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def deployment(replicas, gpus, **metadata):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "team-a", **metadata},
        "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": pod(gpus)["spec"]}},
    }


def ringed(replicas, gpus):
    """A Deployment whose pods share the claim `gpus` with the PodGroup `ring`."""
    made = deployment(replicas, gpus)
    made["spec"]["template"]["spec"] |= {"resourceClaims": [ENTRY], "schedulingGroup": {"podGroupName": "ring"}}
    return made


def findings_of(workload, *objects, old=None):
    """What quotas have to say, by rule and path."""
    view = ManifestsView([namespace(), quota(), *objects])
    operation = "CREATE" if old is None else "UPDATE"
    request = Request(workload, old, operation, group="apps", kind="Deployment", namespace="team-a")
    decision = review(request, view, DEFAULTS)
    assert decision.allowed
    return [(each.rule.id, str(each.path)) for each in decision.findings if each.rule.id.startswith("GA5")]


def test_deployment_that_fits_is_reported_nothing():
    assert findings_of(deployment(4, 2)) == []


def test_deployment_whose_pods_do_not_fit_together_is_reported_at_its_replicas():
    assert findings_of(deployment(4, 2), running("other", 1)) == [("GA506", "spec.replicas")]


def test_deployment_whose_pods_do_not_fit_alone_gets_a_warning_of_the_refusal():
    assert findings_of(deployment(2, 4), running("other", 6)) == [("GA502", "spec.template")]


@pytest.mark.parametrize(("replicas", "gpus"), [(4, 2), (1, 8)])
def test_allowance_of_a_replica_gives_no_warning(replicas, gpus):
    reserved = counted(quota(), charge("replica-1", "Allowance", amount="4"), all="0")
    assert findings_of(deployment(replicas, gpus), reserved) == []


def test_deployment_that_scales_beyond_the_quota_is_reported():
    assert findings_of(deployment(5, 2), old=deployment(4, 2)) == [("GA506", "spec.replicas")]


def test_new_image_of_a_deployment_that_fills_its_quota_is_reported_nothing():
    new = deployment(4, 2)
    new["spec"]["template"]["spec"] = copy.deepcopy(new["spec"]["template"]["spec"])
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "train:2"
    assert findings_of(new, *(running(f"train-{number}", 2) for number in range(4)), old=deployment(4, 2)) == []


def test_label_change_of_a_deployment_beyond_its_quota_gives_no_second_warning():
    assert findings_of(deployment(9, 2, labels={"a": "b"}), old=deployment(9, 2)) == []


def test_converted_pods_are_charged_as_they_are_converted():
    classes = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}}
    label = {"gpu-admission.io/dra": "enabled"}
    assert findings_of(deployment(5, 2), namespace(**label), {**classes, "spec": {}}) == [("GA506", "spec.replicas")]


@pytest.mark.parametrize("spec", [{"limits": []}, {"limits": [{"name": "all", "gpus": 0.5}]}], ids=["empty", "float"])
def test_quota_that_cannot_be_read_is_reported_for_each_pod_only(spec):
    assert findings_of(deployment(9, 2), quota(**spec)) == [("GA504", "spec.template")]


def test_workload_without_gpus_is_reported_nothing():
    assert findings_of(deployment(100, 0)) == []


@pytest.mark.parametrize("is_made", [False, True], ids=["claim-to-be-made", "claim-made"])
def test_claim_of_a_pod_group_counts_once_for_all_pods_of_a_workload(template, claim, request_for, is_made):
    objects = [template(request_for(count=4)), group(claim="ring-gpus-x" if is_made else "")]
    objects += [group_claim(claim(request_for(count=4)))] if is_made else []
    assert findings_of(ringed(4, 1), *objects) == []
    assert findings_of(ringed(5, 1), *objects) == [("GA506", "spec.replicas")]
    assert findings_of(ringed(4, 1), *objects, old=ringed(3, 1)) == []
    assert findings_of(ringed(5, 1), *objects, old=ringed(4, 1)) == [("GA506", "spec.replicas")]


VERSIONS = {minor: {"serverVersion": {"gitVersion": f"v1.{minor}.0"}} for minor in (36, 37)}


def job(parallelism, *entries, gpus=0, kind="Job", replicas=1):
    """A Job, or a JobSet of it, whose pods share the claims of these entries."""
    template = {"spec": {**pod(gpus)["spec"], "restartPolicy": "Never", "resourceClaims": [*entries]}}
    spec = {"parallelism": parallelism, "scheduling": {"resourceClaims": [*entries]}, "template": template}
    metadata = {"name": "train", "namespace": "team-a"}
    if kind == "JobSet":
        jobs = [{"name": "a", "replicas": replicas, "template": {"spec": spec}}]
        spec = {"replicatedJobs": jobs}
        return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": kind, "metadata": metadata, "spec": spec}
    if kind == "CronJob":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}


def shortage_of(workload, *objects):
    """The message of GA506; empty if there is none."""
    view = ManifestsView([namespace(), quota(), *objects])
    names = {"group": workload["apiVersion"].partition("/")[0], "kind": workload["kind"], "namespace": "team-a"}
    found = review(Request(workload, **names), view, DEFAULTS).findings
    return next((each.message for each in found if each.rule.id == "GA506"), "")


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_claim_that_the_pods_of_a_job_share_counts_once(template, request_for, kind):
    objects = [template(request_for(count=8)), VERSIONS[37]]
    assert shortage_of(job(4, ENTRY, kind=kind), *objects) == ""


def test_gpus_beside_a_shared_claim_count_for_each_pod(template, request_for):
    message = shortage_of(job(4, ENTRY, gpus=1), template(request_for(count=6)), VERSIONS[37])
    assert message.startswith("4 pods at once request 10 GPUs (6 GPUs in claims that they share)")


def test_each_job_of_a_job_set_has_a_claim_of_its_own(template, request_for):
    objects = [template(request_for(count=4)), VERSIONS[37]]
    assert shortage_of(job(4, ENTRY, kind="JobSet", replicas=2), *objects) == ""
    message = shortage_of(job(4, ENTRY, kind="JobSet", replicas=3), *objects)
    assert message.startswith("12 pods at once request 12 GPUs")


def test_api_server_before_1_37_drops_the_shared_claims(template, request_for):
    objects = [template(request_for(count=4)), VERSIONS[36]]
    assert shortage_of(job(4, ENTRY), *objects).startswith("4 pods at once request 16 GPUs")


@pytest.mark.parametrize(("is_on", "requested"), [(True, ""), (False, "4 pods at once request 16 GPUs")])
def test_gate_that_the_api_server_shows_decides_whether_jobs_share_claims(template, request_for, is_on, requested):
    shown = {**VERSIONS[37], "featureGates": {"WorkloadWithJob": is_on}}
    message = shortage_of(job(4, ENTRY), template(request_for(count=4)), shown)
    assert message.partition(",")[0] == requested


@pytest.mark.parametrize("version", POD_GROUP_VERSIONS)
def test_jobs_of_a_job_set_share_the_claim_of_the_group_that_they_name(template, request_for, version):
    """As JobSet's own documentation shows it: a PodGroup, and its name in the pods of each Job."""
    workload = job(4, ENTRY, gpus=1, kind="JobSet", replicas=3)
    spec = workload["spec"]["replicatedJobs"][0]["template"]["spec"]
    spec["template"]["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
    grouped = {**group(), "apiVersion": f"scheduling.k8s.io/{version}"}
    message = shortage_of(workload, template(request_for(count=7)), grouped, VERSIONS[37])
    assert message.startswith("12 pods at once request 19 GPUs (7 GPUs in claims that they share)")


def test_workload_whose_group_is_unknown_is_not_said_to_be_too_large(template, request_for):
    assert findings_of(ringed(9, 0), template(request_for(count=8)), VERSIONS[37]) == [
        ("GA505", "spec.template.spec.resourceClaims[0].resourceClaimTemplateName")
    ]


def test_other_claim_of_a_pod_is_its_own(template, request_for):
    other = job(4, ENTRY)
    other["spec"]["scheduling"]["resourceClaims"] = [{**ENTRY, "name": "ring"}]
    assert shortage_of(other, template(request_for(count=4)), VERSIONS[37]).startswith("4 pods at once request 16 GPUs")


def test_deployment_that_does_not_fit_into_the_quota_of_its_team_is_reported():
    spec = {"namespaceSelector": {}, "limits": [{"name": "all", "gpus": 7}]}
    team = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": {"name": "research"},
        "spec": spec,
    }
    view = ManifestsView([namespace(), team])
    request = Request(deployment(4, 2), None, "CREATE", group="apps", kind="Deployment", namespace="team-a")
    (found,) = review(request, view, DEFAULTS).findings
    assert labelled_text(found) == (
        'spec.replicas: 4 pods at once request 8 GPUs, but limit "all" of ClusterGPUQuota research allows at most 7 GPUs, so 3 are '
        "created, and the others are refused until some end; request fewer pods or GPUs [GA506]"
    )
