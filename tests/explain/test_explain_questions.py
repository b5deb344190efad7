"""The requests of a document, and obstacles before any node is considered."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility, ObstacleKind, questions
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

TEMPLATES = (
    "kubectl get --raw /apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates > resourceclaimtemplates.json"
)


def obstacles(answer):
    return [(str(each.kind), each.sentence, each.remedy) for each in answer.obstacles]


def test_pod_is_explained_after_conversion(ask, k8s):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), opted_in, k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert answer.label == "pod team-a/train"
    assert answer.converted_to.startswith("gpu-")
    assert answer.groups[0].devices == ("main: gpu-0 and gpu-1",)


def test_pod_tolerates_what_review_lets_it_tolerate(ask, k8s):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), opted_in, k8s.node(taints=[taint]), k8s.resource_slice(k8s.gpus(8)))
    assert answer.verdict is Feasibility.FITS


def test_stored_pod_is_taken_as_it_is(ask, k8s):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}, stored=True), opted_in, k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert (answer.converted_to, answer.verdict) == ("", Feasibility.IMPOSSIBLE)


def test_refused_pod_tells_its_rules(ask, k8s):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    answer = ask(k8s.pod({"nvidia.com/gpu": "1.5"}), opted_in, k8s.node())
    (obstacle,) = answer.obstacles
    assert (answer.verdict, obstacle.kind, obstacle.rule) == (Feasibility.BLOCKED, ObstacleKind.REFUSED, "GA302")
    assert answer.headline == "it is refused before scheduling"


def test_refused_claim_tells_its_rules(ask, k8s):
    answer = ask(k8s.claim(k8s.selecting("device.driver =")), k8s.node())
    assert [(each.kind, each.rule) for each in answer.obstacles] == [(ObstacleKind.REFUSED, "GA215")]


def test_malformed_pod_is_reported(ask, k8s):
    broken = {**k8s.pod(stored=True), "spec": {"containers": []}}
    assert obstacles(ask(broken)) == [("malformed", "spec.containers is empty; add a container", "")]


def test_claim_is_made_from_an_existing_template(ask, k8s):
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    answer = ask(pod, k8s.node(), k8s.resource_slice(k8s.gpus(8)), k8s.template({"count": 4}))
    assert answer.groups[0].devices == ("gpu: gpu-0..gpu-3",)


def test_template_alone_is_explained(ask, k8s):
    answer = ask(k8s.template({"count": 4}), k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert (answer.label, answer.replicas) == ("ResourceClaimTemplate team-a/gpus", 2)


def test_missing_template_is_reported(ask, k8s):
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    assert obstacles(ask(pod, k8s.empty_list("ResourceClaimTemplate", "resource.k8s.io/v1"))) == [
        (
            "missing",
            "ResourceClaimTemplate team-a/gpus, from which claim gpus of the pod is to be made, does not exist",
            "create it, or correct resourceClaimTemplateName",
        )
    ]


def test_unknown_template_says_what_to_bring(ask, k8s):
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    answer = ask(pod)
    assert answer.verdict is Feasibility.UNKNOWN
    assert obstacles(answer) == [
        (
            "fact unknown",
            "ResourceClaimTemplate team-a/gpus is unknown, so the requests of claim gpus are unknown",
            f"add them: {TEMPLATES}, or everything at once: gpu-admission snapshot DIR",
        )
    ]


def test_missing_claim_is_reported(ask, k8s):
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimName="shared"))
    assert obstacles(ask(pod)) == [
        (
            "missing",
            "ResourceClaim team-a/shared, which the pod calls gpus, does not exist",
            "create it, or correct resourceClaimName",
        )
    ]


@pytest.mark.parametrize(
    ("reference", "remedy"),
    [
        ({"resourceClaimName": "onbsy"}, "create it, or write resourceClaimName: onbusy"),
        ({"resourceClaimTemplateName": "lage"}, "create it, or write resourceClaimTemplateName: large"),
        (
            {"resourceClaimName": "large"},
            "create it, or write resourceClaimTemplateName: large, for a ResourceClaimTemplate has that name",
        ),
        ({"resourceClaimName": "elsewhere"}, "create it, or correct resourceClaimName"),
    ],
    ids=["claim", "template", "the other kind", "other namespace"],
)
def test_near_name_of_a_claim_or_template_is_offered(ask, k8s, reference, remedy):
    known = [k8s.claim(name="onbusy"), k8s.claim(name="elsewhere", namespace="team-b"), k8s.template(name="large")]
    answer = ask(k8s.pod(resourceClaims=k8s.claiming(**reference)), k8s.node(), *known)
    assert [obstacle.remedy for obstacle in answer.obstacles] == [remedy]


def test_object_that_was_found_in_the_cluster_is_stored_without_a_uid(k8s):
    pod = k8s.pod({"nvidia.com/gpu": "1.5"})
    view = ManifestsView([k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"}), pod])
    refused, stored = (questions(pod, "team-a", view, DEFAULTS, found=found) for found in (False, True))
    assert [bool(question.obstacles) for question in (*refused, *stored)] == [True, False]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gpu.nvida.com", 'write "deviceClassName: gpu.nvidia.com"'),
        ("large", "install the driver that brings it, or write the name of a class that exists: gpu.nvidia.com"),
    ],
)
def test_missing_class_is_reported(ask, k8s, name, remedy):
    answer = ask(k8s.claim({"deviceClassName": name}), k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert obstacles(answer) == [("missing", f"DeviceClass {name} does not exist", remedy)]
    assert answer.headline == "it fits no node: something that it refers to does not exist"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claim_of_any_version_is_explained(ask, k8s, version):
    asked = k8s.claim({"count": 4}, version=version)
    answer = ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert answer.groups[0].devices == ("gpu: gpu-0..gpu-3",)


def test_slices_of_v1beta1_are_read(ask, k8s):
    devices = k8s.resource_slice([{"name": "gpu-0", "basic": {k: v for k, v in k8s.gpu(0).items() if k != "name"}}])
    answer = ask(k8s.claim(), k8s.node(), {**devices, "apiVersion": "resource.k8s.io/v1beta1"})
    assert answer.groups[0].devices == ("gpu: gpu-0",)


def test_allocated_claim_has_its_devices(ask, k8s):
    answer = ask(k8s.holding("train-0", range(4)), k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert answer.verdict is Feasibility.SCHEDULED
    assert answer.headline == "it has its devices already: gpu: gpu-0..gpu-3 of pool node-1"


def test_claim_in_a_file_is_not_allocated(ask, k8s):
    exported = k8s.holding("train-0", range(4))
    del exported["metadata"]["uid"]
    assert ask(exported, k8s.node(), k8s.resource_slice(k8s.gpus(8))).verdict is Feasibility.FITS


def test_bound_pod_needs_no_node(ask, k8s):
    answer = ask(k8s.pod(stored=True, nodeName="node-1"))
    assert (answer.verdict, answer.headline) == (
        Feasibility.SCHEDULED,
        "it is bound to node node-1 already",
    )


def test_claims_made_for_a_stored_pod_are_found(ask, k8s):
    pod = k8s.pod(stored=True, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    pod["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "train-gpus-x7k2p"}]}
    made = k8s.claim({"count": 2}, name="train-gpus-x7k2p", stored=True)
    answer = ask(pod, k8s.node(), k8s.resource_slice(k8s.gpus(8)), made)
    assert answer.groups[0].devices == ("gpu: gpu-0 and gpu-1",)


def test_full_claim_is_reported(ask, k8s):
    held = k8s.holding("other", [0], namespace="team-a")
    held["status"]["reservedFor"] = [{"resource": "pods", "name": f"pod-{number}"} for number in range(256)]
    answer = ask(k8s.pod(resourceClaims=k8s.claiming(resourceClaimName="other-gpu")), held)
    assert obstacles(answer) == [
        (
            "claim full",
            "ResourceClaim team-a/other-gpu is reserved for 256 pods, and 256 can share a claim",
            "wait until one of them ends, or use another claim",
        )
    ]


def test_claim_that_is_being_deleted_is_reported(ask, k8s):
    held = k8s.claim(stored=True)
    held["metadata"]["deletionTimestamp"] = "2026-07-01T00:00:00Z"
    answer = ask(k8s.pod(resourceClaims=k8s.claiming(resourceClaimName="gpus")), held, k8s.resource_slice(k8s.gpus(1)))
    assert obstacles(answer) == [
        (
            "claim deleted",
            "ResourceClaim team-a/gpus is being deleted, so no pod gets it any more",
            "create it again once it is gone",
        )
    ]


def test_claim_that_a_pod_names_twice_is_requested_once(ask, k8s):
    named = [{"name": name, "resourceClaimName": "gpus"} for name in ("one", "two")]
    answer = ask(k8s.pod(resourceClaims=named), k8s.claim(stored=True), k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert answer.verdict is Feasibility.FITS


def test_several_claims_of_a_pod_are_allocated_together(ask, k8s):
    named = [{"name": name, "resourceClaimTemplateName": "gpus"} for name in ("one", "two")]
    answer = ask(k8s.pod(resourceClaims=named), k8s.template({"count": 3}), k8s.node(), k8s.resource_slice(k8s.gpus(5)))
    assert answer.groups[0].reason.sentence == (
        "each request could be served alone, but not all together: 6 requested, 5 available"
    )


def test_workload_is_explained_by_its_pods(ask, k8s):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a"},
        "spec": {"template": {"spec": k8s.pod({"nvidia.com/gpu": "2"})["spec"]}},
    }
    answer = ask(deployment, opted_in, k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert (answer.label, answer.headline) == ("Deployment team-a/web", "fits 1 of 1 node now, 4 replicas in all")


def test_several_pod_templates_are_several_questions(ask_all, k8s):
    workers = {"leaderTemplate": {"spec": k8s.pod()["spec"]}, "workerTemplate": {"spec": k8s.pod()["spec"]}}
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": "team-a"},
        "spec": {"leaderWorkerTemplate": workers},
    }
    assert [answer.label for answer in ask_all(document, k8s.node())] == [
        "LeaderWorkerSet team-a/serve, spec.leaderWorkerTemplate.leaderTemplate",
        "LeaderWorkerSet team-a/serve, spec.leaderWorkerTemplate.workerTemplate",
    ]


def test_other_kinds_are_no_question(k8s):
    assert questions(k8s.node(), "team-a", ManifestsView([]), DEFAULTS) == ()
