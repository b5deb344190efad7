"""matchConditions, compiled and evaluated as the API server does."""

import celpy
import pytest

from policies.admission.all_rules import rule_book
from policies.admission.pods import reapplies_pod
from policies.admission.webhooks import ENTRIES, WEBHOOKS
from policies.cel import compile_condition, value_of
from policies.kubernetes.names import MANAGED
from policies.nvidia.pod_conditions import CHANGES_GPU_ACCESS, PodCondition
from policies.rules.request import Request
from testbed import libyaml
from tests.deploy.match_conditions import BUDGET, Question, called
from webhook.cli.shipped_files import read_examples

GPU = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
CPU = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


def pod(*containers, annotations=None, **spec):
    metadata = {"name": "p", "namespace": "a"} | ({"annotations": annotations} if annotations else {})
    listed = [{"name": "c", "image": "ubuntu", "resources": {}, **each} for each in containers or ({},)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": listed, **spec}}


def deployment(template=None, **metadata):
    template = template or pod({"resources": GPU})
    spec = {"template": {"metadata": template["metadata"], "spec": template["spec"]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", **metadata}, "spec": spec}


CDI = {"nvidia.cdi.k8s.io/container.c": "nvidia.com/gpu=all"}
WISH = {"gpu-admission.io/product": "H100*"}
WAIVER = {"gpu-admission.io/ignore": "GA405 because the GPUs arrive on Monday"}
CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
HOST_PATH = {"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}
NVIDIA = {"convert-pods", "place-pods", "enforce-converted-pods", "enforce-quota", "check-pods"}
"""The webhooks that are called for a pod that requests an NVIDIA device, by the namespace."""
WISHES = {"place-pods", "place-unconverted-pods"}
DEVICES = {*WISHES, "enforce-quota", "check-pods", "check-unconverted-pods"}
GUARD = {"guard-pods"}
PODS = {
    "no resources": (pod(), set()),
    "no resources field": ({"metadata": {}, "spec": {"containers": [{"name": "c"}]}}, set()),
    "no spec": ({"metadata": {}}, set()),
    "no containers": ({"metadata": {}, "spec": {}}, set()),
    "cpu": (pod({"resources": CPU}), set()),
    "gpu": (pod({"resources": GPU}), NVIDIA),
    "zero gpus": (pod({"resources": {"requests": {"nvidia.com/gpu": "0"}}}), NVIDIA),
    "second container": (pod({"resources": CPU}, {"resources": GPU}), NVIDIA),
    "init container": (pod(initContainers=[{"name": "i", "resources": GPU}]), NVIDIA),
    "no init containers": (pod(initContainers=[]), set()),
    "mig": (pod({"resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}), NVIDIA),
    "class name": (
        pod({"resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}}}),
        NVIDIA,
    ),
    "resource of a class": (pod({"resources": {"requests": {"example.com/h100": "1"}}}), DEVICES),
    "claim": (pod(**CLAIM), NVIDIA),
    "no claims": (pod(resourceClaims=[]), set()),
    "wish": (pod(annotations=WISH), WISHES),
    "waiver": (pod(annotations=WAIVER), set()),
    "waiver and wish": (pod(annotations=WAIVER | WISH), WISHES),
    "gpu and waiver": (pod({"resources": GPU}, annotations=WAIVER), NVIDIA),
    "other annotation": (pod(annotations={"a": "b"}), set()),
    "gpu with a node": (pod({"resources": GPU}, nodeName="n"), NVIDIA),
    "gpu with an empty node": (pod({"resources": GPU}, nodeName=""), NVIDIA),
    "visible devices": (pod({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}), GUARD),
    "visible devices of an init container": (
        pod(initContainers=[{"name": "i", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]),
        GUARD,
    ),
    "cuda version": (pod({"env": [{"name": "A"}, {"name": "CUDA_VERSION", "value": "12"}]}), GUARD),
    "other variables": (pod({"env": [{"name": "A", "value": "b"}]}), set()),
    "variables from elsewhere": (pod({"envFrom": [{"configMapRef": {"name": "m"}}]}), set()),
    "runtime class": (pod(runtimeClassName="nvidia"), GUARD),
    "empty runtime class": (pod(runtimeClassName=""), set()),
    "path of the node": (pod(**HOST_PATH), GUARD),
    "other volume": (pod(volumes=[{"name": "v", "emptyDir": {}}]), set()),
    "device list": (
        pod({"volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]}),
        GUARD,
    ),
    "other mount": (pod({"volumeMounts": [{"name": "v", "mountPath": "/data"}]}), set()),
    "image of nvidia": (pod({"image": "nvcr.io/nvidia/pytorch:25.08-py3"}), GUARD),
    "annotation of cdi": (pod(annotations=CDI), GUARD),
    "annotation of cdi under cri-o": (pod(annotations={"cdi.k8s.io/any": "nvidia.com/gpu=all"}), GUARD),
    "ephemeral container": (
        pod(ephemeralContainers=[{"name": "d", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]),
        GUARD,
    ),
    "another domain": (pod({"resources": {"requests": {"example.com/fpga": "1"}}}), DEVICES),
    "privileged": (pod({"securityContext": {"privileged": True}}), set()),
    "gpu and a path of the node": (pod({"resources": GPU}, **HOST_PATH), NVIDIA),
    "another domain and a path of the node": (
        pod({"resources": {"requests": {"example.com/fpga": "1"}}}, **HOST_PATH),
        DEVICES,
    ),
}
ASKED = {name: "mutating" if ENTRIES[name].mutating else "validating" for name in sorted(NVIDIA | DEVICES | GUARD)}


@pytest.mark.parametrize(("document", "expected"), PODS.values(), ids=PODS)
def test_pods_reach_who_reads_them(webhooks, document, expected):
    assert {name for name, kind in ASKED.items() if called(webhooks[kind, name], Question(document))} == expected


@pytest.mark.parametrize(("document", "expected"), PODS.values(), ids=PODS)
def test_cel_python_says_the_same_of_pods(webhooks, document, expected):
    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    known = {name: celpy.json_to_cel(value) for name, value in Question(document).variables.items()}
    for entry, kind in ASKED.items():
        programs = [
            environment.program(environment.compile(each["expression"]))
            for each in webhooks[kind, entry]["matchConditions"]
        ]
        assert all(bool(program.evaluate(known)) for program in programs) == (entry in expected)


FROM_ELSEWHERE = {"GA607"}
"""What is only found by reading ConfigMaps of workloads, which a running service does not."""


EXAMPLES = [
    (entry, rule)
    for entry, prefix in (("access", "GA6"), ("placement", "GA4"))
    for rule in rule_book().rules
    if rule.id.startswith(prefix) and rule.id not in FROM_ELSEWHERE
]


@pytest.mark.parametrize(("entry", "rule"), EXAMPLES, ids=[rule.id for _, rule in EXAMPLES])
def test_example_of_a_rule_reaches_it(webhooks, entry, rule):
    document = next(libyaml.load_all(read_examples(rule.id).wrong))
    if document["kind"] != "Pod":
        pytest.skip("about something else")
    for container in document["spec"]["containers"]:  # as the API server fills it in
        resources = container.setdefault("resources", {})
        resources["requests"] = {**resources.get("limits", {}), **resources.get("requests", {})}
    names = {name for name in ASKED if entry in ENTRIES[name].concerns}
    assert any(called(webhooks[ASKED[name], name], Question(document)) for name in names)


def test_ephemeral_container_that_shows_gpu_access_is_reviewed_in_any_pod(webhooks):
    env = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    stored = pod({"resources": GPU})
    debugged = pod({"resources": GPU}, ephemeralContainers=[{"name": "d", **env}])
    assert called(webhooks["validating", "guard-pods"], Question(debugged, stored))


@pytest.mark.parametrize(("document", "_"), PODS.values(), ids=PODS)
def test_conditions_in_python_are_those_in_cel(document, _):
    conditions = {
        each for webhook in WEBHOOKS for each in webhook.conditions.values() if isinstance(each, PodCondition)
    }
    assert len(conditions) >= 5
    for condition in conditions:
        known = value_of(Question(document).variables)
        assert compile_condition(condition.expression).holds(known)[0] is condition.holds(document), (
            condition.expression
        )


MANY = {f"example.com/{index}": "x" for index in range(1000)}
CUDA = {"image": "nvcr.io/nvidia/cuda:12"}
ONE, OTHER = {"nvidia.cdi.k8s.io/container.c": "a"}, {"nvidia.cdi.k8s.io/container.c": "b"}
CHANGES = {
    "nothing": (pod(annotations=CDI), pod(annotations=CDI), False),
    "label": (pod(annotations=CDI), pod(annotations=CDI) | {"metadata": {"labels": {"a": "b"}}}, False),
    "added annotation": (pod(), pod(annotations=CDI), True),
    "added beside others": (pod(annotations=MANY), pod(annotations=MANY | CDI), True),
    "changed annotation": (pod(annotations=ONE), pod(annotations=OTHER), True),
    "removed annotation": (pod(annotations=CDI), pod(), False),
    "plain key": (pod(), pod(annotations={"nvidia.cdi.k8s.io": "nvidia.com/gpu=0"}), True),
    "key of the whole pod": (pod(), pod(annotations={"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=0"}), True),
    "key under cri-o": (pod(), pod(annotations={"cdi.k8s.io/any": "nvidia.com/gpu=0"}), True),
    "similar keys": (
        pod(),
        pod(annotations={"nvidia.cdi.k8s.iox": "a", "cdi.k8s.io": "b", "x.cdi.k8s.io/a": "c"}),
        False,
    ),
    "other annotation": (pod(annotations=CDI), pod(annotations=CDI | WISH), False),
    "image": (pod({}), pod(CUDA), True),
    "image of a pod with gpus": (pod({"resources": GPU}), pod({"resources": GPU, **CUDA}), True),
    "image of an init container": (
        pod(initContainers=[{"name": "i", "image": "a"}]),
        pod(initContainers=[{"name": "i", "image": "b"}]),
        True,
    ),
    "image of the second container": (pod({}, {}), pod({}, CUDA), True),
    "image of an ephemeral container": (
        pod(ephemeralContainers=[{"name": "e", "image": "a"}]),
        pod(ephemeralContainers=[{"name": "e", "image": "b"}]),
        False,
    ),
    "no image": ({"metadata": {}, "spec": {"containers": [{"name": "c"}]}}, pod(), True),
    "5000 annotations": (*[pod(annotations={f"a{index}": "" for index in range(5000)})] * 2, False),
    "5001 annotations": (*[pod(annotations={f"a{index}": "" for index in range(5001)})] * 2, True),
    "1000 containers": (*[pod(*[{}] * 1000)] * 2, False),
    "1001 containers": (*[pod(*[{}] * 1001)] * 2, True),
    "1001 init containers": (*[pod(initContainers=[{"name": "i"}] * 1001)] * 2, True),
    "gates": (pod(schedulingGates=[{"name": "g"}]), pod(), False),
    "no spec": ({"metadata": {}}, {"metadata": {}}, False),
    "no containers": ({"metadata": {}, "spec": {}}, {"metadata": {}, "spec": {}}, False),
}


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES.values(), ids=CHANGES)
def test_change_of_what_a_node_reads_late_reaches_the_guard(webhooks, before, after, expected):
    assert called(webhooks["validating", "guard-changes"], Question(after, before)) is expected


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES.values(), ids=CHANGES)
def test_change_holds_in_python_as_in_cel(before, after, expected):
    assert CHANGES_GPU_ACCESS.holds(after, before) is expected


def test_large_change_stays_within_the_budget(webhooks):
    containers = [{"image": f"image-{index}"} for index in range(1000)]
    changed = pod(*containers[:-1], CUDA, annotations=MANY)
    assert called(webhooks["validating", "guard-changes"], Question(changed, pod(*containers, annotations=MANY)))


def test_large_pod_stays_within_the_budget(webhooks):
    amounts = {f"example.com/{index}": "1" for index in range(20)}
    env = [{"name": f"VARIABLE_{index}", "value": "x"} for index in range(20)]
    containers = [{"resources": {"requests": {"cpu": "1"}}, "env": env} for _ in range(1000)]
    for (_, entry), webhook in webhooks.items():
        if entry in ASKED:
            called(webhook, Question(pod(*containers)))
            called(webhook, Question(pod(*({"resources": {"requests": amounts}} for _ in range(100)))))


ONE_WAY = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
LARGE = {
    "variables": pod({"env": [*({"name": f"A{index}"} for index in range(110_000)), ONE_WAY]}),
    "annotations": pod(
        {"env": [*({"name": "A"} for _ in range(50_000)), ONE_WAY]},
        annotations={f"a{index}": "" for index in range(70_000)},
    ),
    "volumes": pod(volumes=[*({"name": f"v{i}", "emptyDir": {}} for i in range(210_000)), *HOST_PATH["volumes"]]),
    "mounts": pod({"volumeMounts": [{"name": "v", "mountPath": f"/{i}"} for i in range(120_000)]}, {"env": [ONE_WAY]}),
}
"""Pods whose search would cost more than an expression may."""


@pytest.mark.parametrize("document", LARGE.values(), ids=LARGE)
def test_pod_that_is_too_large_to_search_is_reviewed(webhooks, document):
    assert called(webhooks["validating", "guard-pods"], Question(document))


def test_change_of_a_pod_that_is_too_large_to_compare_is_reviewed(webhooks):
    before = pod(*({"image": f"image-{index}"} for index in range(40_000)), {}, annotations=MANY)
    after = pod(*({"image": f"image-{index}"} for index in range(40_000)), CUDA, annotations=MANY)
    assert called(webhooks["validating", "guard-changes"], Question(after, before))


def largest_that_is_searched():
    """As many entries as a pod may have without a review, and as much text as an API server stores."""
    long = "x" * 80
    container = {
        "env": [{"name": long} for _ in range(100)],
        "volumeMounts": [{"name": "v", "mountPath": long} for _ in range(100)],
    }
    lists = {
        each: [{"name": "i", "image": long, **container}] * 50 for each in ("initContainers", "ephemeralContainers")
    }
    volumes = [{"name": "v", "emptyDir": {}}] * 5000
    return pod(*[container] * 50, annotations={f"{index:0>40}": "" for index in range(5000)}, volumes=volumes, **lists)


@pytest.mark.parametrize("entry", ["guard-pods", "guard-changes"])
def test_largest_pod_that_is_searched_stays_within_the_budget(webhooks, entry):
    document = largest_that_is_searched()
    for each in webhooks["validating", entry]["matchConditions"]:
        answer, cost = compile_condition(each["expression"]).holds(value_of(Question(document, document).variables))
        assert isinstance(answer, bool), answer
        assert cost < 1_000_000


STORED = 1_572_864
"""Bytes of an object that etcd stores, by its default for requests; API servers write pods in Protocol Buffers."""
REQUESTS = {
    "nothing": {},
    "cpu": {"cpu": "1"},
    "cpu and memory": {"cpu": "1", "memory": "1"},
    "everything": {"cpu": "1", "memory": "1", "ephemeral-storage": "1"},
}


def stored_bytes(requests):
    """The least that a container takes: name, image, path and policy of messages, policy of pulls, requests."""
    return 30 + sum(9 + len(name) for name in requests)


@pytest.mark.parametrize("listed", ["containers", "initContainers"])
@pytest.mark.parametrize("requests", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("entry", sorted(ASKED.keys() - GUARD))
def test_pod_with_as_many_containers_as_can_be_stored_stays_within_the_budget(webhooks, entry, requests, listed):
    def costs(count):
        containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}] * count
        document = pod()
        document["spec"][listed] = containers
        known = value_of(Question(document).variables)
        return [
            compile_condition(each["expression"]).holds(known)[1]
            for each in webhooks[ASKED[entry], entry]["matchConditions"]
        ]

    most = STORED // stored_bytes(requests)
    few, more = costs(100), costs(200)
    found = [some + (most - 100) * (other - some) / 100 for some, other in zip(few, more, strict=True)]
    assert all(100 < cost < 1_000_000 for cost in found), found
    assert sum(found) < BUDGET


def marked(*containers, **spec):
    document = pod(*containers, annotations={"gpu-admission.io/converted": "{}"}, **spec)
    document["metadata"]["labels"] = {MANAGED: "true"}
    return document


def deleted(document):
    return document | {"metadata": {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


UPDATES = {
    "nothing": marked(),
    "gpu": marked({"resources": GPU}),
    "gpu while it is deleted": deleted(marked({"resources": GPU})),
    "marks taken away": pod(),
    "marks taken away beside the spec": pod({"resources": GPU}),
    "other annotation": marked() | {"metadata": {**marked()["metadata"], "annotations": {"a": "b"}}},
}


@pytest.mark.parametrize("new", UPDATES.values(), ids=UPDATES)
def test_reapply_matches_the_updates_that_it_answers(webhooks, new):
    request = Request(new, marked(), operation="UPDATE", namespace="a")
    assert called(webhooks["mutating", "reapply"], Question(new, marked())) is reapplies_pod(request)


OWNER = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}
LIMITS = pod({"resources": {"limits": {"nvidia.com/gpu": 1}}})
WORKLOADS = {
    "gpus": (deployment(), "apps", True),
    "limits only, as nothing is filled in": (deployment(LIMITS), "apps", True),
    "no gpus": (deployment(pod()), "apps", False),
    "claim": (deployment(pod(**CLAIM)), "apps", True),
    "wish": (deployment(pod(annotations=WISH)), "apps", True),
    "waiver": (deployment(pod(annotations=WAIVER)), "apps", False),
    "waiver and wish": (deployment(pod(annotations=WAIVER | WISH)), "apps", True),
    "visible devices": (deployment(pod({"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]})), "apps", True),
    "runtime class": (deployment(pod(runtimeClassName="nvidia")), "apps", True),
    "made by a controller": (deployment(ownerReferences=[{**OWNER, "controller": True}]), "apps", False),
    "owned": (deployment(ownerReferences=[OWNER]), "apps", True),
    "being deleted": (deployment(deletionTimestamp="2026-01-01T00:00:00Z"), "apps", False),
    "cron job": (
        {"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": {"spec": pod({"resources": GPU})["spec"]}}}}},
        "batch",
        True,
    ),
    "empty cron job": ({"metadata": {}, "spec": {"jobTemplate": {}}}, "batch", False),
    "pod template": ({"metadata": {}, "template": pod({"resources": GPU})}, "", True),
    "ray cluster": ({"metadata": {}, "spec": {"headGroupSpec": {}}}, "ray.io", True),
}


@pytest.mark.parametrize(("document", "group", "expected"), WORKLOADS.values(), ids=WORKLOADS)
def test_workloads_with_gpus_match(webhooks, document, group, expected):
    assert called(webhooks["validating", "workloads"], Question(document, group=group)) is expected


@pytest.mark.parametrize(
    ("old", "expected"),
    [(deployment(), False), (deployment(labels={"a": "b"}), False), (deployment(pod()), True)],
    ids=["nothing", "labels", "template"],
)
def test_workloads_match_when_their_pods_change(webhooks, old, expected):
    assert called(webhooks["validating", "workloads"], Question(deployment(), old, group="apps")) is expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("alice", True),
        ("system:serviceaccount:kube-system:resource-claim-controller", False),
        ("system:kube-scheduler", False),
        ("system:serviceaccount:gpu-admission:gpu-admission", False),
    ],
)
def test_claims_are_judged_with_who_wrote_them(webhooks, user, expected):
    assert called(webhooks["validating", "claims"], Question({"kind": "ResourceClaim"}, user=user)) is expected


@pytest.mark.parametrize(
    "user", ["alice", "system:serviceaccount:kube-system:resource-claim-controller", "system:kube-scheduler"]
)
def test_every_claim_is_charged_whoever_makes_it(webhooks, user):
    for entry in ("enforce-quota", "check-pods", "check-unconverted-pods"):
        claim = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {}}
        assert called(webhooks["validating", entry], Question(claim, group="resource.k8s.io", user=user))
