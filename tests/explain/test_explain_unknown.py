"""Unknown facts are named, and the rest is explained."""

from __future__ import annotations

import json

from policies.analyses.explain import Explanation
from policies.kubernetes.objects import json_document
from policies.outcome import Certainty, Feasibility

OF_DRA = "kubectl get --raw /apis/resource.k8s.io/v1/{0} > {0}.json"
BRING = f"add them: {OF_DRA}, or everything at once: gpu-admission snapshot DIR"
BRING_SLICES = BRING.format("resourceslices")
NO_NODES = (
    "no Nodes are known: each node that a ResourceSlice names counts as one without labels, taints and limits "
    "(add: kubectl get --raw /api/v1/nodes > nodes.json)"
)
NO_CLAIMS = (
    "no ResourceClaims are known, so every device counts as free "
    "(add: kubectl get --raw /apis/resource.k8s.io/v1/resourceclaims > resourceclaims.json)"
)
NO_PODS = (
    "no Pods are known, so nodes count as empty except for devices (add: kubectl get --raw /api/v1/pods > pods.json)"
)
NO_DEVICES = "no {} are known, so only GPUs of device plugins count (add: {})"
NOT_YET = "nodes that do not exist yet, such as those that an autoscaler adds, are not judged"
ALONE = "a claim alone has no tolerations and no node selector, so taints and labels of nodes are ignored"


def test_without_slices_it_says_what_to_bring(ask, k8s):
    answer = ask(k8s.claim(), k8s.node())
    assert answer.verdict is Feasibility.UNKNOWN
    assert answer.headline == "whether it fits is unknown: facts of the cluster are missing"
    assert [(each.sentence, each.remedy) for each in answer.obstacles] == [
        ("no ResourceSlices are known, so the devices are unknown", BRING_SLICES)
    ]


def test_without_classes_it_says_what_to_bring(ask, k8s):
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), base=[k8s.namespace()])
    assert [(each.sentence, each.remedy) for each in answer.obstacles] == [
        (
            "DeviceClass gpu.nvidia.com is unknown, so the devices that the claim can get are unknown",
            BRING.format("deviceclasses"),
        )
    ]


def test_what_is_certainly_wrong_comes_before_what_is_unknown(ask, k8s):
    answer = ask(k8s.claim({"deviceClassName": "gpu.nvida.com"}), k8s.node())
    assert answer.verdict is Feasibility.BLOCKED
    assert [str(each.kind) for each in answer.obstacles] == ["missing", "fact unknown"]


def test_without_nodes_the_slices_tell(ask, k8s):
    slices = [k8s.resource_slice(k8s.gpus(8), f"node-{number}") for number in range(2)]
    pod = k8s.pod(
        {"cpu": "64"}, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), nodeSelector={"zone": "a"}
    )
    answer = ask(pod, *slices, k8s.template({"count": 4}))
    assert answer.headline == "fits 2 of 2 nodes now, 4 replicas in all"
    assert answer.nodes_guessed
    assert answer.remarks == (NO_NODES,)


def test_without_nodes_and_claims_nothing_can_be_reported(ask, k8s):
    answer = ask(k8s.pod({"cpu": "1"}), k8s.resource_slice(k8s.gpus(1)))
    assert [each.sentence for each in answer.obstacles] == [
        "no Nodes are known, and the pod has no claim that would tell where it can run"
    ]


def test_without_claims_devices_count_as_free(ask, k8s):
    known = [k8s.device_class(), k8s.namespace()]
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), base=known)
    assert (answer.verdict, answer.remarks) == (Feasibility.FITS, (NO_CLAIMS, ALONE))


def test_without_pods_nodes_count_as_empty(ask, k8s):
    answer = ask(k8s.pod({"cpu": "1"}), k8s.node(), base=[k8s.namespace()])
    assert (answer.verdict, answer.remarks) == (Feasibility.FITS, (NO_PODS,))


def test_pod_of_another_scheduler_is_reported(ask, k8s):
    answer = ask(k8s.pod(schedulerName="volcano"), k8s.node())
    assert answer.remarks == ("the pod is for scheduler volcano; this is what the default scheduler would do",)


def test_cluster_without_nodes_has_none_that_fit(ask, k8s):
    answer = ask(k8s.pod(), k8s.empty_list("Node"))
    assert (answer.verdict, answer.headline) == (Feasibility.IMPOSSIBLE, "no node exists now")
    assert answer.remarks == (NOT_YET,)


def test_cluster_without_gpu_nodes_says_that_none_has_gpus(ask, k8s):
    slices = k8s.empty_list("ResourceSlice", "resource.k8s.io/v1")
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), k8s.node("cpu-1"), k8s.node("cpu-2"), slices)
    assert answer.headline == "fits none of 2 nodes: none has nvidia.com/gpu"
    assert answer.remarks == (NOT_YET,)


def test_cluster_without_devices_says_that_none_has_them(ask, k8s):
    slices = k8s.empty_list("ResourceSlice", "resource.k8s.io/v1")
    answer = ask(k8s.claim(), k8s.node(), slices)
    assert answer.headline == "fits none of 1 node: none has devices of a DRA driver"


def test_gpus_in_use_are_not_missing(ask, k8s):
    holder = k8s.pod({"nvidia.com/gpu": "1"}, name="holder", stored=True, nodeName="node-1")
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), k8s.node(allocatable={"nvidia.com/gpu": "1"}), holder)
    assert answer.headline == "fits none of 1 node, even if nothing were in use"


def test_json_has_stable_names(ask, k8s):
    answer = ask(k8s.claim({"count": 2}), k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert json.loads(json.dumps(json_document(answer, Explanation))) == {
        "label": "ResourceClaim team-a/gpus",
        "verdict": "impossible",
        "headline": "fits none of 1 node, even if nothing were in use",
        "obstacles": [],
        "nodes": 1,
        "nodesGuessed": False,
        "fitNow": 0,
        "fitIfEmpty": 0,
        "unknownNodes": 0,
        "replicas": 0,
        "replicasAtLeast": False,
        "groups": [
            {
                "count": 1,
                "nodes": ["node-1"],
                "fits": False,
                "fitsIfEmpty": False,
                "reason": {
                    "kind": "devices",
                    "sentence": "request gpu requests 2 devices of class gpu.nvidia.com; the node has 1",
                    "details": [],
                    "facts": {"claim": "gpus", "request": "gpu", "asked": 2, "usable": 1, "rejected": []},
                },
                "devices": [],
                "outcomes": [
                    {
                        "claim": "gpus",
                        "request": "gpu",
                        "state": "usable",
                        "count": 1,
                        "devices": ["gpu-0"],
                        "reason": "",
                        "sentence": "",
                        "holders": [],
                    }
                ],
                "otherReasons": [],
                "certainty": "seen",
                "gets": [],
            }
        ],
        "groupsLeftOut": 0,
        "nodesLeftOut": 0,
        "suggestions": [
            {
                "change": "count",
                "sentence": "request 1 device instead of 2 in request gpu",
                "claim": "gpus",
                "request": "gpu",
                "nodes": 1,
                "atLeast": False,
                "onlyIfEmpty": False,
            }
        ],
        "convertedTo": "",
        "warnings": [],
        "remarks": [ALONE],
        "certainty": "seen",
        "peers": None,
    }


def test_fit_on_devices_that_may_be_in_use_is_assumed(ask, k8s):
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), base=[k8s.device_class(), k8s.namespace()])
    assert (answer.verdict, answer.certainty) == (Feasibility.FITS, Certainty.ASSUMED)
    assert answer.groups[0].certainty is Certainty.ASSUMED


def test_claim_that_fits_no_empty_node_needs_no_assumption(ask, k8s):
    known = [k8s.device_class(), k8s.namespace()]
    answer = ask(k8s.claim({"count": 2}), k8s.node(), k8s.resource_slice(k8s.gpus(1)), base=known)
    assert (answer.verdict, answer.certainty) == (Feasibility.IMPOSSIBLE, Certainty.SEEN)


def test_pod_without_known_classes_is_assumed_not_to_fit(ask, k8s):
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), k8s.node(), base=[k8s.namespace(), k8s.empty_list("Pod")])
    assert (answer.verdict, answer.certainty) == (Feasibility.IMPOSSIBLE, Certainty.ASSUMED)


def test_missing_facts_make_the_answer_unknown(ask, k8s):
    assert ask(k8s.claim(), k8s.node()).certainty is Certainty.UNKNOWN


def test_obstacles_are_json_too(ask, k8s):
    (obstacle,) = json_document(ask(k8s.claim(), k8s.node()), Explanation)["obstacles"]
    assert obstacle == {
        "kind": "fact unknown",
        "sentence": "no ResourceSlices are known, so the devices are unknown",
        "remedy": BRING_SLICES,
        "rule": "",
    }


def served_class(k8s):
    """The DeviceClass by which claims serve nvidia.com/gpu."""
    return k8s.device_class(extendedResourceName="nvidia.com/gpu")


def test_without_claims_devices_of_extended_resources_count_as_free(ask, k8s):
    known = [served_class(k8s), k8s.namespace(), k8s.empty_list("Pod")]
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), k8s.node(), k8s.resource_slice(k8s.gpus(1)), base=known)
    assert (answer.verdict, answer.remarks) == (Feasibility.FITS, (NO_CLAIMS,))


def test_without_slices_it_is_unknown_whether_claims_serve_the_resource(ask, k8s):
    known = [served_class(k8s), k8s.namespace(), k8s.empty_list("Pod")]
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), k8s.node(), base=known)
    assert answer.verdict is Feasibility.UNKNOWN
    assert [(each.sentence, each.remedy) for each in answer.obstacles] == [
        ("no ResourceSlices are known, so the devices that serve nvidia.com/gpu are unknown", BRING_SLICES)
    ]


def test_without_slices_a_node_with_a_device_plugin_fits_for_certain(ask, k8s):
    known = [served_class(k8s), k8s.namespace(), k8s.empty_list("Pod")]
    node = k8s.node(allocatable={"nvidia.com/gpu": "1"})
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), node, base=known)
    assert (answer.verdict, answer.remarks) == (
        Feasibility.FITS,
        (NO_DEVICES.format("ResourceSlices", OF_DRA.format("resourceslices")),),
    )


def test_without_classes_only_device_plugins_count(ask, k8s):
    known = [k8s.namespace(), k8s.empty_list("Pod")]
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), k8s.node(), base=known)
    commands = f"{OF_DRA.format('deviceclasses')}; {OF_DRA.format('resourceslices')}"
    assert answer.remarks == (NOT_YET, NO_DEVICES.format("DeviceClasses and ResourceSlices", commands))


def test_without_classes_nothing_is_missing_before_kubernetes_1_36(ask, k8s):
    known = [k8s.namespace(), k8s.empty_list("Pod"), {"serverVersion": {"gitVersion": "v1.35.0"}}]
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), k8s.node(), base=known)
    assert answer.remarks == (NOT_YET,)
