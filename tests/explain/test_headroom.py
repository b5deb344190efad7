"""The number of further objects that fit: the limits of quotas, and the devices of nodes."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from policies.admission import review
from policies.analyses.explain import headroom
from policies.kubernetes.view import ChangedView
from policies.outcome import Audience, Feasibility, questions, simulate
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.explain.conftest import BASE
from tests.explain.test_explain_replicas import pod_group
from tests.outcome.clusters import GPU
from tests.plan.nodes import gpu_node
from tests.quota.test_cluster_quotas import document as cluster_quota
from webhook.cli.reports.quota_reports import headroom_text
from webhook.cluster.manifests import ManifestsView

NODE = gpu_node("node-1", 8, product="NVIDIA-H100-80GB-HBM3")


def quota(namespace="team-a", limits=({"name": "all", "gpus": 8},), **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [*limits], **spec},
    }


def native(namespace="team-a", used=None, **hard):
    status = {} if used is None else {"status": {"used": used}}
    metadata = {"name": "native", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, **status}


def running(name, gpus, namespace="team-a", node="node-1"):
    return k8s.pod({GPU: str(gpus)}, name=name, namespace=namespace, stored=True, nodeName=node)


def deployment(gpus, replicas):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": k8s.pod({GPU: str(gpus)})["spec"]}
    metadata = {"name": "web", "namespace": "team-a"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": replicas, "template": template},
    }


def fit(document, *objects, base=BASE):
    return headroom(document, "team-a", ManifestsView([*base, quota("other"), *objects]), DEFAULTS)


def pod(gpus=1, **rest):
    return k8s.pod({GPU: str(gpus)}, **rest)


def test_limit_with_the_least_left_decides_and_is_named():
    limits = [{"name": "all", "gpus": 30}, {"name": "h100", "gpus": 24, "selector": {"products": ["*H100*"]}}]
    nodes = [gpu_node(f"node-{number}", 8, product="NVIDIA-H100-80GB-HBM3") for number in range(4)]
    found = fit(pod(8), quota(limits=limits), *nodes)
    assert found.headline == '3 more fit: limit "all" of GPUQuota team-a/gpu has 30 GPUs left, each takes 8'
    assert [(each.name, each.more, each.each, each.left) for each in found.limits] == [
        ("all", 3, 8, 30),
        ("h100", 3, 8, 24),
    ]
    assert (found.more, found.now, found.if_empty, found.at_most) == (3, 4, 4, False)


def test_devices_decide_where_they_are_fewer():
    found = fit(pod(2), quota(limits=[{"name": "all", "gpus": 20}]), NODE, running("other", 3, "team-b"))
    assert found.headline == "2 more fit: the nodes have room for 2, and for 4 if nothing were in use"
    assert [(each.gets, each.now, each.if_empty) for each in found.grants] == [("2 whole NVIDIA-H100-80GB-HBM3", 2, 4)]


def test_one_more_is_singular():
    assert fit(pod(8), NODE).headline == "1 more fits: the nodes have room for 1"


def test_full_nodes_are_explained():
    found = fit(pod(8), NODE, running("other", 3, "team-b"))
    assert found.headline == "none fits: fits none of 1 node now; it would fit 1 if nothing were in use there"
    assert (found.more, found.fits) == (0, False)


def test_what_the_namespace_holds_is_counted():
    found = fit(pod(2), quota(), NODE, running("first", 3))
    assert found.headline == '2 more fit: limit "all" of GPUQuota team-a/gpu has 5 GPUs left, each takes 2'


def test_stored_pod_is_counted_and_asked_for_once_more():
    stored = running("first", 3)
    found = fit(stored, quota(), NODE, stored)
    assert (found.label, found.limits[0].left, found.more) == ("pod team-a/first", 5, 1)


def test_workload_counts_with_all_of_its_pods():
    found = fit(deployment(2, 3), quota(limits=[{"name": "all", "gpus": 14}]), NODE, gpu_node("node-2", 8))
    assert found.headline == '2 more fit: limit "all" of GPUQuota team-a/gpu has 14 GPUs left, each takes 6'
    assert (found.label, found.pods, found.now) == ("Deployment team-a/web", 3, 2)


def test_workload_that_is_scaled_to_zero_counts_with_one_pod():
    found = fit(deployment(2, 0), NODE)
    assert (found.label, found.pods, found.now) == ("a pod of Deployment team-a/web", 1, 4)


def torch_job(master, worker, workers=3):
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "big", "namespace": "team-a"},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": {"spec": pod(master)["spec"]}},
                "Worker": {"replicas": workers, "template": {"spec": pod(worker)["spec"]}},
            }
        },
    }


def test_equal_pods_of_several_templates_are_placed_together():
    found = fit(torch_job(1, 1, 2), NODE)
    assert (found.pods, found.at_most, found.headline) == (3, False, "2 more fit: the nodes have room for 2")


def test_templates_that_want_the_same_nodes_make_an_upper_bound():
    found = fit(torch_job(2, 1), NODE)
    assert (found.pods, found.at_most) == (4, True)
    assert found.headline == "at most 2 more fit: the nodes have room for 2"
    assert fit(torch_job(2, 1), quota(limits=[{"name": "all", "gpus": 9}]), NODE).headline == (
        'at most 1 more fits: limit "all" of GPUQuota team-a/gpu has 9 GPUs left, each takes 5'
    )


def sharing(count, pods=0):
    """A Job whose pods share a claim for GPUs, or a pod of the PodGroup `ring` that does."""
    entry = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
    spec = k8s.pod({"cpu": "1"}, resourceClaims=[entry])["spec"]
    objects = (k8s.node(), k8s.resource_slice(k8s.gpus(8)), k8s.template({"count": count}))
    if not pods:
        spec = {**spec, "schedulingGroup": {"podGroupName": "ring"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team-a"},
            "spec": spec,
        }, objects
    job = {"parallelism": pods, "scheduling": {"resourceClaims": [entry]}, "template": {"spec": spec}}
    metadata = {"name": "ring", "namespace": "team-a"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}, objects


def test_claim_that_the_pods_of_a_job_share_counts_once_for_each_job():
    job, objects = sharing(2, pods=3)
    found = fit(job, quota(limits=[{"name": "all", "gpus": 7}]), *objects)
    assert [(each.each, each.more) for each in found.limits] == [(2, 3)]
    assert (found.pods, found.now, found.headline) == (
        3,
        1,
        "at least 1 more fits: the nodes have room for at least 1",
    )


@pytest.mark.parametrize(("left", "expected"), [(2, []), (1, [0])], ids=["enough", "too little"])
def test_claim_of_a_group_counts_once_for_all_of_its_pods(left, expected):
    member, objects = sharing(2)
    found = fit(member, quota(limits=[{"name": "all", "gpus": left}]), pod_group(), *objects)
    assert [each.more for each in found.limits] == expected
    assert found.headline == (
        'none fits: GPUQuota team-a/gpu: 1 GPU left in limit "all", the shared claims take 2'
        if expected
        else "110 more fit: the nodes have room for 110"
    )


def test_limit_of_memory_is_exact():
    found = fit(pod(1), quota(limits=[{"name": "memory", "memory": "160Gi"}]), NODE)
    (limit,) = found.limits
    assert (limit.more, limit.left, limit.each) == (4, 160 * 2**30, 40 * 2**30)


def test_quota_that_only_warns_does_not_decide():
    found = fit(pod(4), quota(mode="Warn"), NODE, running("first", 6), gpu_node("node-2", 8))
    assert (found.limits[0].more, found.limits[0].refuses, found.more) == (0, False, 2)


def test_product_that_must_be_named_admits_none():
    limits = [{"name": "h100", "gpus": 8, "selector": {"products": ["*H100*"]}}]
    found = fit(pod(1), quota(limits=limits, unknownProducts="Deny"))
    assert found.more == 0
    assert found.headline.startswith(
        'none fits: GPUQuota team-a/gpu: limit "h100" counts by product, the request could'
    )


@pytest.mark.parametrize("used", [None, {"requests.nvidia.com/gpu": "1"}], ids=["counted here", "in the status"])
def test_resource_quota_decides(used):
    found = fit(pod(2), native(used=used, **{"requests.nvidia.com/gpu": "4"}), NODE, running("first", 1))
    assert found.headline == "1 more fits: ResourceQuota team-a/native has 3 requests.nvidia.com/gpu left, each takes 2"


def test_resource_quota_of_pods_decides_only_if_its_status_counts_them():
    assert fit(pod(2), native(pods="1"), NODE).limits == ()
    found = fit(pod(2), native(used={"pods": "4"}, pods="5"), NODE)
    assert found.headline == "1 more fits: ResourceQuota team-a/native has 1 pods left, each takes 1"


def test_group_of_the_namespace_is_counted_over_its_namespaces():
    team = cluster_quota(selector={}, groupBy="team")
    spaces = [k8s.namespace(name, team="a") for name in ("team-a", "team-a2")]
    objects = [team, *spaces, k8s.namespace("team-b", team="b"), NODE]
    base = [each for each in BASE if each["kind"] != "Namespace"]
    used = [running("one", 2), running("two", 1, "team-a2"), running("three", 4, "team-b", "gone")]
    found = fit(pod(2), *objects, *used, quota(), base=base)
    assert found.headline == '2 more fit: limit "all" of GPUQuotaGroup research.a has 5 GPUs left, each takes 2'
    assert [each.owner for each in found.limits] == ["GPUQuota team-a/gpu", "GPUQuotaGroup research.a"]


def test_devices_are_counted_although_the_group_is_full():
    team = cluster_quota(selector={}, limits=[{"name": "all", "gpus": 2}])
    found = fit(pod(2), team, NODE, running("one", 1))
    assert (found.more, found.now, found.if_empty) == (0, 3, 4)
    assert found.headline == 'none fits: limit "all" of GPUQuotaGroup research has 1 GPU left, each takes 2'


def test_unknown_quotas_make_an_upper_bound():
    found = headroom(pod(1), "team-a", ManifestsView([*BASE, NODE]), DEFAULTS)
    assert (found.headline, found.remarks) == (
        "at most 8 more fit: the nodes have room for 8",
        ("GPUQuotas are unknown, so their limits are left out",),
    )


def test_unknown_nodes_leave_the_limits():
    found = fit(pod(2), quota())
    assert found.headline == 'at most 4 more fit: limit "all" of GPUQuota team-a/gpu has 8 GPUs left, each takes 2'
    assert (found.now, found.if_empty) == (None, None)


def test_number_is_unknown_without_limits_and_nodes():
    found = fit(pod(2))
    assert (found.more, found.fits) == (None, False)
    assert found.headline == "it is unknown how many more fit"
    assert found.remarks[0].startswith("the number that the devices hold is unknown: no Nodes are known")


def test_pod_without_gpus_is_not_limited():
    assert fit(k8s.pod(), quota(), NODE).headline == "nothing limits it: it requests no GPU"


def test_refused_pod_does_not_fit():
    found = fit(pod("1.5"), quota(), NODE)
    assert (found.more, found.limits) == (0, ())
    assert found.headline.startswith("none fits: ")


def test_claim_and_template_are_counted():
    objects = (quota(), k8s.node(), k8s.resource_slice(k8s.gpus(6)))
    for document in (k8s.claim({"count": 4}), k8s.template({"count": 4})):
        found = fit(document, *objects)
        assert (found.pods, found.limits[0].more, found.now, found.more) == (0, 2, 1, 1)


def test_kind_without_pods_has_no_answer():
    assert fit(quota()) is None


@pytest.mark.parametrize(("sees_nodes", "shown"), [(True, "zz-2"), (False, "<node>")])
def test_names_of_nodes_are_shown_only_to_who_may_see_them(sees_nodes, shown):
    labels = {f"{GPU}.sharing-strategy": "mps", f"{GPU}.replicas": "4", f"{GPU}.present": "true"}
    shared = k8s.node("zz-2", labels, allocatable={GPU: "4"})
    view = ManifestsView([*BASE, quota("other"), NODE, shared, running("other", 8, "team-b")])
    found = headroom(pod(2), "team-a", view, DEFAULTS, audience=Audience("team-a", sees_nodes))
    assert found.headline.endswith(f"; the scheduler may choose {shown}, where the device plugin refuses it")


def test_text_fits_eighty_columns():
    text = headroom_text([fit(pod(2), quota(), NODE, running("first", 3), native(pods="9"))], 80)
    assert text == (
        '2 more fit: limit "all" of GPUQuota team-a/gpu has 5 GPUs left, each takes 2.\n'
        "Each is pod team-a/train.\n\n"
        "LIMIT                       EACH    LEFT  MORE\n"
        "all of GPUQuota team-a/gpu     2  5 GPUs     2\n\n"
        "EACH POD GETS                  NOW  IF EMPTY\n"
        "2 whole NVIDIA-H100-80GB-HBM3    2         4"
    )


PRODUCTS = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4")


def random_cluster(choose):
    """Nodes with a device plugin or with DRA, partly in use, and a pod for one of both."""
    slices = k8s.empty_list("ResourceSlice", "resource.k8s.io/v1")
    objects = [*BASE, slices, quota("other"), k8s.template({"count": choose.choice([1, 2, 3])})]
    for number in range(choose.randrange(1, 5)):
        name = f"node-{number}"
        if choose.random() < 0.5:
            objects.append(gpu_node(name, choose.randrange(1, 6), product=choose.choice(PRODUCTS)))
            objects.append(running(f"old-{number}", choose.randrange(2), node=name))
        else:
            objects += [k8s.node(name), k8s.resource_slice(k8s.gpus(choose.randrange(1, 7)), name)]
            objects.append(k8s.holding(f"old-{number}", [0], name))
    claims = k8s.claiming(resourceClaimTemplateName="gpus")
    asked = pod(choose.choice([1, 2])) if choose.random() < 0.5 else k8s.pod({"cpu": "30"}, resourceClaims=claims)
    return asked, objects


def placed(asked, number, view, choose):
    """The view with the pod on one of the nodes that fit; None if none does."""
    (question,) = questions(asked, "team-a", view, DEFAULTS)
    outcome = simulate(question, view, DEFAULTS)
    if outcome.verdict is not Feasibility.FITS:
        return None
    alike = choose.choice([each for each in outcome.survey.groups if each.fits])
    position = choose.choice(alike.positions) if not question.claims else alike.solution.node
    name, node = f"more-{number}", outcome.survey.cluster.nodes[position]["metadata"]["name"]
    made = {**asked, "metadata": {"name": name, "namespace": "team-a", "uid": name}}
    made["spec"] = {**asked["spec"], "nodeName": node}
    changed = {("Pod", "team-a", name): made}
    for allocation in alike.solution.allocations if question.claims else ():
        claim = k8s.holding(name, [], node, "team-a")
        made["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": claim["metadata"]["name"]}]}
        claim["status"] = {**claim["status"], "allocation": allocation}
        changed["ResourceClaim", "team-a", claim["metadata"]["name"]] = claim
    return ChangedView(view, changed)


@pytest.mark.parametrize("seed", range(40))
def test_so_many_find_a_place_one_after_the_other_and_no_more(seed):
    choose = random.Random(seed)
    asked, objects = random_cluster(choose)
    view = ManifestsView(objects)
    found = headroom(asked, "team-a", view, DEFAULTS)
    number = 0
    while (after := placed(asked, number, view, choose)) is not None:
        view, number = after, number + 1
    assert found.now == number, found


@pytest.mark.parametrize("seed", range(20))
def test_so_many_are_charged_one_after_the_other_and_no_more(seed):
    choose = random.Random(seed)
    limits = [
        {"name": "all", "gpus": choose.choice([3, 7, "15/2"])},
        {"name": "memory", "memory": choose.choice(["200Gi", "500Gi"])},
        {"name": "h100", "gpus": choose.randrange(9), "selector": {"products": ["*H100*"]}},
    ]
    asked = pod(choose.choice([1, 2]))
    objects = [
        *BASE,
        quota(limits=limits),
        NODE,
        gpu_node("node-2", 8, product="NVIDIA-A100-SXM4-40GB"),
        running("old", 1),
    ]
    found = headroom(asked, "team-a", ManifestsView(objects), DEFAULTS)
    number = 0
    while not review(Request(asked, namespace="team-a"), ManifestsView(objects), DEFAULTS).denials:
        number += 1
        objects.append({**asked, "metadata": {"name": f"more-{number}", "namespace": "team-a", "uid": str(number)}})
    assert min(each.more for each in found.limits) == number
    assert all(isinstance(each.left, Fraction) for each in found.limits)
