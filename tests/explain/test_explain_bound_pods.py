"""Explanations of pods on their nodes: why they do not start, and which of their devices are unhealthy."""

import pytest

from policies.analyses.explain import explain
from policies.outcome import Audience, questions
from policies.rules.settings import DEFAULTS
from tests.explain.conftest import empty_list, gpu, resource_slice, running, taint_rule
from tests.nvidia.start_failure_texts import ALLOCATE, PREPARE
from webhook.cluster.manifests import ManifestsView

CLAIM = "resource.k8s.io/v1"


def pod(phase="Pending", *, claimed=True, **status):
    resources = {"claims": [{"name": "gpu"}]} if claimed else {"limits": {"nvidia.com/gpu": "1"}}
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "train-gpu"}]} if claimed else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "uid": "u-1"},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "main", "image": "x", "resources": resources}],
            **claims,
        },
        "status": {"phase": phase, **status},
    }


def claim(*, name="train-gpu", uid="7d1f", pods=("train",), namespace="team-a", devices=(), device="gpu-0"):
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-1", "device": device}
    return {
        "apiVersion": CLAIM,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": each, "uid": "u"} for each in pods],
            "devices": [*devices],
        },
    }


def event(message, reason="FailedPrepareDynamicResources"):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "train.1", "namespace": "team-a"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "namespace": "team-a", "name": "train", "uid": "u-1"},
    }


def explained(subject, *objects, audience=None):
    view = ManifestsView([empty_list("Pod"), subject, *objects])
    (question,) = questions(subject, "team-a", view, DEFAULTS, found=True)
    return explain(question, view, DEFAULTS, **({"audience": audience} if audience else {}))


def test_bound_pod_whose_driver_is_missing_says_so():
    found = explained(pod(), claim(), event(f"{PREPARE}DRA driver gpu.nvidia.com is not registered"))
    assert (found.verdict, found.headline) == ("stuck", "it is bound to node node-1, and does not start")
    (obstacle,) = found.obstacles
    assert obstacle.sentence == (
        "the kubelet of node node-1 has no plugin of driver gpu.nvidia.com: its pod does not run there, or starts again: "
        '"DRA driver gpu.nvidia.com is not registered" (event FailedPrepareDynamicResources)'
    )
    assert "kubectl get pods -A -o wide --field-selector spec.nodeName=node-1" in obstacle.remedy
    assert not found.is_placed


def test_claim_that_still_has_the_device_is_named_with_its_deleted_pod():
    text = f"{PREPARE}requested device gpu-0 is already allocated to different claim 5f0c"
    other = claim(name="old-gpu", uid="5f0c", pods=("old",))
    found = explained(pod(), claim(), other, event(text))
    assert "claim team-a/old-gpu (which is reserved for pod old, which was deleted)" in found.obstacles[0].sentence


def test_claim_that_does_not_exist_any_more_is_said_to_be_deleted():
    text = f"{PREPARE}requested device gpu-0 is already allocated to different claim 5f0c"
    found = explained(pod(), claim(), event(text))
    assert "a claim that was deleted" in found.obstacles[0].sentence


def test_other_claim_is_named_by_its_uid_if_claims_are_unknown():
    text = f"{PREPARE}requested device gpu-0 is already allocated to different claim 5f0c"
    assert "another claim, with uid 5f0c" in explained(pod(), event(text)).obstacles[0].sentence


def test_pods_that_the_claim_is_reserved_for_are_named():
    text = f"{PREPARE}pod train (u-1) is not allowed to use ResourceClaim train-gpu (7d1f)"
    found = explained(pod(), claim(pods=("older",)), event(text))
    assert (
        "not reserved for this pod (which is reserved for pod older, which was deleted)" in found.obstacles[0].sentence
    )


def test_remedy_names_the_claim_that_was_not_prepared():
    text = f'{PREPARE}NodePrepareResources failed for ResourceClaim train-gpu: allocatable not found for device "gpu-9"'
    remedy = explained(pod(), claim(), event(text)).obstacles[0].remedy
    assert "kubectl delete pod/train resourceclaim/train-gpu -n team-a" in remedy


def test_command_that_an_event_has_in_place_of_a_claim_is_not_proposed():
    text = f'{PREPARE}NodePrepareResources failed for ResourceClaim x;reboot: allocatable not found for device "gpu-9"'
    remedy = explained(pod(), claim(), event(text)).obstacles[0].remedy
    assert "reboot" not in remedy
    assert "resourceclaim/CLAIM -n team-a" in remedy


def test_texts_of_one_cause_are_one_reason():
    texts = [f"{PREPARE}fetch ResourceClaim train-gpu: {each}" for each in ("EOF", "connection refused")]
    assert (
        len(
            explained(
                pod(), claim(), *({**event(each), "metadata": {"name": each, "namespace": "team-a"}} for each in texts)
            ).obstacles
        )
        == 1
    )


def test_pod_that_the_kubelet_rejected_says_why():
    text = ALLOCATE.format("requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0")
    rejected = pod("Failed", claimed=False, reason="UnexpectedAdmissionError", message=f"Pod was rejected: {text}")
    found = explained(rejected)
    assert (found.verdict, found.headline) == (
        "stuck",
        "the kubelet of node node-1 rejected it, and it is not scheduled again",
    )
    assert "had 0 free healthy nvidia.com/gpu and needed 1" in found.obstacles[0].sentence


def test_unknown_text_is_shown_as_it_is():
    waiting = [
        {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": 'image "x" \x1bnot found'}}}
    ]
    (obstacle,) = explained(pod(containerStatuses=waiting)).obstacles
    assert obstacle.sentence == 'image "x"  not found (container main, ImagePullBackOff)'
    assert not obstacle.remedy


def test_pod_that_starts_waits_without_a_failure():
    creating = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    found = explained(pod(containerStatuses=creating), claim())
    assert (found.verdict, found.obstacles) == ("scheduled", ())
    assert found.remarks == (
        "container main waits",
        "events are unknown here, and only they say why a claim is not prepared: kubectl describe pod train -n team-a",
    )


def test_pod_whose_events_are_known_needs_no_remark():
    found = explained(pod(), claim(), empty_list("Event"))
    assert found.remarks == ()


def test_running_pod_names_its_unhealthy_gpu():
    status = {
        "name": "main",
        "state": {"running": {}},
        "allocatedResourcesStatus": [
            {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}
        ],
    }
    found = explained(pod("Running", claimed=False, containerStatuses=[status]))
    assert found.verdict == "scheduled"
    (obstacle,) = found.obstacles
    assert obstacle.sentence == "nvidia.com/gpu GPU-1 of container main: the kubelet reports it as unhealthy"


@pytest.mark.parametrize("device", ["gpu.nvidia.com/node-1/gpu-0", "k8s.gpu.nvidia.com/claim=7d1f-gpu-0"])
def test_device_of_a_claim_is_found_by_the_id_of_the_kubelet(device):
    health = {"resourceID": device, "health": "Unhealthy", "message": "XID 79"}
    status = {"name": "main", "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [health]}]}
    found = explained(pod("Running", containerStatuses=[status]), claim())
    assert [each.sentence for each in found.obstacles] == ["gpu-0: the kubelet reports it as unhealthy: XID 79"]


@pytest.mark.parametrize(
    ("taint", "said"),
    [
        (
            {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"},
            "gpu-0: the GPU reported XID 79 (taint gpu.nvidia.com/xid=79:NoSchedule)",
        ),
        (
            {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"},
            "gpu-0: the driver has lost the GPU (taint gpu.nvidia.com/gpu-lost:NoSchedule)",
        ),
        ({"key": "gpu.nvidia.com/xid", "value": "43", "effect": "None"}, None),
        ({"key": "gpu.nvidia.com/unmonitored", "effect": "None"}, None),
        ({"key": "example.com/reserved", "effect": "NoSchedule"}, None),
    ],
)
def test_taint_of_the_drivers_health_check_is_a_problem_of_its_holder(taint, said):
    found = explained(claim(), resource_slice([gpu(0, taints=[taint])]))
    assert [each.sentence for each in found.obstacles] == ([said] if said else [])


def ready(status, **more):
    condition = {"type": "Ready", "status": status, "reason": "LinkDown", "message": "no carrier"}
    return {"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0", "conditions": [condition], **more}


def test_device_that_its_driver_reports_as_not_ready_is_named():
    found = explained(claim(devices=[ready("False")]))
    assert [each.sentence for each in found.obstacles] == [
        "gpu-0: its driver reports that it is not ready: LinkDown: no carrier"
    ]
    assert explained(claim(devices=[ready("True")])).obstacles == ()


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"interfaceName": "eth1", "ips": ["10.0.0.5/24", "fd00::5/64"]}, "eth1 with 10.0.0.5/24 and fd00::5/64"),
        ({"interfaceName": "eth1"}, "eth1"),
        ({"hardwareAddress": "ea:9f:cb:40:b1:7b"}, "ea:9f:cb:40:b1:7b"),
    ],
)
def test_network_of_a_device_is_shown(network, said):
    found = explained(claim(devices=[ready("True", networkData=network)]))
    assert found.remarks == (f"gpu-0 of driver gpu.nvidia.com is {said}",)


def test_reader_of_the_namespace_sees_no_node_and_no_claim_of_others():
    text = f"{PREPARE}requested device gpu-0 is already allocated to different claim 5f0c"
    other = claim(name="secret", uid="5f0c", pods=("x",), namespace="team-b")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    found = explained(pod(), claim(), other, node, event(text), audience=Audience("team-a", sees_nodes=False))
    assert "node-1" not in str(found)
    assert "secret" not in str(found)


@pytest.mark.parametrize(("minor", "said"), [(35, True), (36, False)])
def test_cluster_whose_kubelets_report_no_health_is_named(minor, said):
    version = {"serverVersion": {"gitVersion": f"v1.{minor}.0"}}
    found = explained(pod("Running", claimed=False), version)
    text = "unhealthy devices may be missing here, because the cluster has ResourceHealthStatus off"
    assert (text in found.remarks) is said


@pytest.mark.parametrize(("seconds", "when"), [(None, "at once"), (30, "30 seconds after 2026-11-30T10:00:00Z")])
def test_running_pod_names_the_rule_that_ends_it(seconds, when):
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}] if seconds else None
    rule = taint_rule("NoExecute", pool="node-1", taint={"timeAdded": "2026-11-30T10:00:00Z"})
    found = explained(*running(devices=(0, 1), tolerations=tolerations), rule)
    assert found.verdict == "scheduled"
    assert found.remarks[0] == (
        f"Kubernetes ends the pod {when}: gpu-0 and gpu-1 have the taint example.com/repair:NoExecute of DeviceTaintRule "
        f"repair, which its claim does not tolerate{' for longer' if seconds else ''}"
    )


def test_pod_whose_claim_tolerates_the_rule_is_not_said_to_end():
    tolerations = [{"operator": "Exists", "effect": "NoExecute"}]
    found = explained(*running(tolerations=tolerations), taint_rule("NoExecute", pool="node-1"))
    assert not any("ends the pod" in each for each in found.remarks)
