"""Explanations for users who may see one namespace and no nodes: the same result without foreign names."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.analyses.explain import explain
from policies.analyses.explain.explanations import Explanation, redacted_explanation
from policies.kubernetes.objects import json_document, parse_document
from policies.outcome import Audience, Feasibility, NodeGroup, questions
from policies.rules.settings import DEFAULTS
from tests.explain.conftest import BASE
from webhook.cli.explain.explanations import text
from webhook.cluster.manifests import ManifestsView

MEMBER = Audience("team-a", sees_nodes=False)
"""A member of `team-a`, who may not list nodes."""
FOREIGN = "zz"
"""Every name that the member must not see contains it, and nothing else does."""


@pytest.fixture
def ask():
    """The one explanation of a document for an audience."""

    def ask(document, *objects, audience=MEMBER):
        view = ManifestsView([*BASE, *objects])
        (question,) = questions(document, "team-a", view, DEFAULTS)
        return explain(question, view, DEFAULTS, audience=audience)

    return ask


@pytest.fixture
def asking(k8s):
    """A pod of `team-a` that requests GPUs by a template."""
    return k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), priority=1000)


def held(k8s, pod, numbers, node, namespace):
    """A running pod, and the claim by which it holds GPUs."""
    running = k8s.pod(name=pod, namespace=namespace, nodeName=node, priority=0)
    return [running, k8s.holding(pod, numbers, node, namespace)]


def test_holders_of_other_namespaces_are_counted_and_own_ones_are_named(ask, k8s, asking):
    objects = [k8s.node("zz-1"), k8s.resource_slice(k8s.gpus(3), "zz-1"), k8s.template()]
    for number, namespace in enumerate(["team-a", "zz-b", "zz-c"]):
        objects += held(k8s, f"run-{number}", [number], "zz-1", namespace)
    (group,) = ask(asking, *objects).groups
    assert group.nodes == ()
    assert group.count == 1
    assert group.reason.details == (
        "gpu-1 and gpu-2 are in use by pods of other namespaces",
        "gpu-0 is in use by team-a/run-0",
    )


def test_holders_in_outcomes_are_counted_and_own_ones_are_named(ask, k8s, asking):
    objects = [k8s.node("zz-1"), k8s.resource_slice(k8s.gpus(3), "zz-1"), k8s.template()]
    for number, namespace in enumerate(["team-a", "zz-b", "zz-c"]):
        objects += held(k8s, f"run-{number}", [number], "zz-1", namespace)
    (group,) = ask(asking, *objects).groups
    assert {outcome.holders: outcome.devices for outcome in group.outcomes} == {
        ("team-a/run-0",): ("gpu-0",),
        ("pods of other namespaces",): ("gpu-1", "gpu-2"),
    }


def test_holders_of_a_device_plugin_are_counted_and_own_ones_are_named(ask, k8s):
    objects = [k8s.node("zz-1", allocatable={"nvidia.com/gpu": "4"})]
    for number, namespace in enumerate(["team-a", "zz-b", "zz-c"]):
        objects.append(k8s.pod({"nvidia.com/gpu": "1"}, name=f"run-{number}", namespace=namespace, nodeName="zz-1"))
    (group,) = ask(k8s.pod({"nvidia.com/gpu": "2"}), *objects).groups
    assert [(outcome.state, outcome.count, outcome.holders) for outcome in group.outcomes] == [
        ("in use", 2, ("pods of other namespaces",)),
        ("in use", 1, ("team-a/run-0",)),
        ("usable", 1, ()),
    ]
    assert FOREIGN not in json.dumps(json_document(group, NodeGroup))


def test_products_of_gpus_are_named(ask, k8s):
    (group,) = ask(k8s.claim(), k8s.node("zz-1"), k8s.resource_slice(k8s.gpus(1), "zz-1")).groups
    assert (group.nodes, group.gets) == ((), ("1 whole NVIDIA-H100-80GB-HBM3",))
    assert FOREIGN not in json.dumps(json_document(group, NodeGroup))


def test_pods_to_delete_are_counted_beside_own_ones(ask, k8s, asking):
    objects = [k8s.node("zz-1"), k8s.resource_slice(k8s.gpus(3), "zz-1"), k8s.template({"count": 3})]
    for number, namespace in enumerate(["team-a", "zz-b", "zz-c"]):
        objects += held(k8s, f"run-{number}", [number], "zz-1", namespace)
    sentences = [each.sentence for each in ask(asking, *objects).suggestions]
    assert sentences == [
        "delete pod team-a/run-0 and 2 pods of other namespaces on one node (priority 0 at most, this pod has 1000)"
    ]


def test_nodes_with_the_same_pods_to_delete_are_one_suggestion(ask, k8s, asking):
    objects = [k8s.template()]
    for node in ("zz-1", "zz-2"):
        objects += [k8s.node(node), k8s.resource_slice(k8s.gpus(1), node)]
        objects += held(k8s, f"run-on-{node}", [0], node, "zz-b")
    sentences = [each.sentence for each in ask(asking, *objects).suggestions]
    assert sentences == ["delete 1 pod of another namespace on one node (priority 0, this pod has 1000)"]


def test_node_of_a_bound_pod_is_not_named(ask, k8s):
    pod = k8s.pod(stored=True, nodeName="zz-1")
    assert ask(pod, k8s.node("zz-1")).headline == "it is bound to a node already"


def test_pool_of_an_allocated_claim_is_not_named(ask, k8s):
    claim = k8s.holding("train", [0, 1], "zz-1", "team-a")
    assert ask(claim, k8s.node("zz-1")).headline == "it has its devices already: gpu: gpu-0 and gpu-1"


def test_pool_of_one_node_is_named_like_a_node(ask, k8s, asking):
    pool = k8s.resource_slice(k8s.gpus(1), "zz-1", count=2)
    (group,) = ask(asking, k8s.node("zz-1"), pool, k8s.template()).groups
    assert (
        group.reason.sentence
        == "pool gpu.nvidia.com/<node> is incomplete: 1 of 2 ResourceSlices of generation 1 are there"
    )
    assert group.reason.facts["pool"] == "gpu.nvidia.com/<node>"


def test_pool_of_several_nodes_is_named(ask, k8s, asking):
    devices = k8s.resource_slice(k8s.gpus(1), None, pool="fabric", count=2, allNodes=True)
    (group,) = ask(asking, k8s.node("zz-1"), devices, k8s.template()).groups
    assert group.reason.sentence.startswith("pool gpu.nvidia.com/fabric is incomplete: ")


def test_node_of_a_failing_device_is_not_named(ask, k8s):
    claim = k8s.claim(k8s.selecting('device.attributes["gpu.nvidia.com"].missing == 1'))
    (obstacle,) = ask(claim, k8s.node("zz-1"), k8s.resource_slice(k8s.gpus(1), "zz-1")).obstacles
    assert obstacle.sentence.startswith("a selector fails on device gpu-0 of node <node>: ")


def test_unreadable_slice_is_not_named(ask, k8s, asking):
    broken = k8s.resource_slice(k8s.gpus(1), "zz-1")
    broken["spec"]["pool"] = {"name": 1}
    answer = ask(asking, k8s.node("zz-1"), broken, k8s.template())
    assert answer.verdict == "blocked"
    assert FOREIGN not in json.dumps(json_document(answer, Explanation))


def test_nodes_with_problems_are_counted(ask, k8s, asking):
    objects = [k8s.template()]
    for name in ("zz-1", "zz-2"):
        objects += [k8s.node(name, allocatable={"nvidia.com/gpu": "1"}), k8s.resource_slice(k8s.gpus(1), name)]
    assert ask(asking, *objects).remarks == (
        "2 nodes hand out the same GPUs by device plugin and by DRA, so a pod can get a GPU there that another pod has",
    )


@pytest.mark.parametrize(
    ("label", "shown"),
    [("nvidia.com/gpu.product", "zz-T4"), ("example.com/owner", "another value or missing")],
    ids=["of a product", "of anything else"],
)
def test_only_labels_of_products_show_their_values(ask, k8s, label, shown):
    pod = k8s.pod(nodeSelector={label: "other"})
    (group,) = ask(pod, k8s.node("node-1", labels={label: "zz-T4"})).groups
    assert group.reason.sentence == f"the pod's nodeSelector requires {label}=other; here {label} is {shown}"


def test_name_that_the_author_wrote_is_shown_whether_it_exists_or_not(ask, k8s):
    sentences = []
    for name in ("node-1", "node-7"):
        pod = k8s.pod(nodeSelector={"kubernetes.io/hostname": name, "example.com/none": "x"})
        answer = ask(pod, k8s.node("node-1", labels={"example.com/none": "y"}))
        sentences.append(json.dumps(json_document(answer, Explanation)).replace(name, "NAME"))
    assert "kubernetes.io/hostname=NAME" in sentences[1]
    assert "<node>" not in "".join(sentences)


def test_holder_is_not_named_to_an_author_who_guesses_its_name(ask, k8s, asking):
    asking["metadata"]["annotations"] = {"guess": "team-b/run on node-1, team-b"}
    objects = [
        k8s.node("node-1"),
        k8s.resource_slice(k8s.gpus(1)),
        k8s.template(),
        *held(k8s, "run", [0], "node-1", "team-b"),
    ]
    answer = json.dumps(json_document(ask(asking, *objects), Explanation))
    assert "run" not in answer.replace("running", "")
    assert "node-1" not in answer


def test_user_who_may_list_nodes_sees_their_names(ask, k8s, asking):
    objects = [k8s.node("zz-1"), k8s.resource_slice(k8s.gpus(1), "zz-1"), k8s.template()]
    objects += held(k8s, "run", [0], "zz-1", "team-b")
    answer = ask(asking, *objects, audience=Audience("team-a"))
    assert answer.groups[0].nodes == ("zz-1",)
    assert answer.groups[0].reason.details == ("gpu-0 is in use by pods of other namespaces",)


def test_names_are_found_at_the_ends_of_words_only(ask, k8s):
    """A node `gpu` does not hide the word in `gpus` or in a name of the author."""
    claim = k8s.claim({"count": 2})
    (group,) = ask(claim, k8s.node("serve"), k8s.resource_slice(k8s.gpus(1), "serve")).groups
    assert group.reason.sentence == "request gpu requests 2 devices of class gpu.nvidia.com; the node has 1"


def test_text_without_names_of_nodes_has_no_column_for_them(ask, k8s, asking):
    objects = [k8s.node("zz-1"), k8s.node("zz-2"), k8s.resource_slice(k8s.gpus(1), "zz-1"), k8s.template()]
    shown = text([ask(asking, *objects)], 100)
    assert "NAMES" not in shown
    assert "more" not in shown


NAMES = st.sampled_from([f"zz-{number}" for number in range(4)])
NODES = st.fixed_dictionaries(
    {
        "cordoned": st.booleans(),
        "plugin": st.booleans(),
        "plugin_holder": st.sampled_from([None, "team-a", "zz-b"]),
        "old": st.booleans(),
        "devices": st.integers(0, 3),
        "count": st.integers(1, 2),
        "label": st.sampled_from(["", "right", "zz-wrong"]),
        "held": st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(["team-a", "zz-b", "zz-c"])),
            max_size=3,
            unique_by=lambda each: each[0],
        ),
        "broken": st.booleans(),
        "pool": st.sampled_from([None, "zz-pool/of-node"]),
    }
)
PODS = st.fixed_dictionaries(
    {
        "count": st.integers(1, 4),
        "selector": st.sampled_from(
            [
                "",
                'device.attributes["gpu.nvidia.com"].productName == "H200"',
                'device.attributes["gpu.nvidia.com"].missing == 1',
            ]
        ),
        "nodeSelector": st.sampled_from([{}, {"example.com/pool": "right"}, {"kubernetes.io/hostname": "elsewhere"}]),
        "constraint": st.booleans(),
        "stored": st.booleans(),
        "plugin": st.booleans(),
    }
)


def cluster_of(k8s, nodes):
    for name, facts in nodes.items():
        labels = {"example.com/pool": facts["label"]} if facts["label"] else {}
        plugin = {"nvidia.com/gpu": "1"} if facts["plugin"] else {}
        node = k8s.node(name, labels, [], plugin, unschedulable=facts["cordoned"])
        if facts["old"]:
            node["status"]["nodeInfo"] = {"kubeletVersion": "v1.33.4"}
        yield node
        if holder := facts["plugin_holder"]:
            own = f"plugged-{name.removeprefix('zz-')}" if holder == "team-a" else f"zz-plugged-on-{name}"
            yield k8s.pod({"nvidia.com/gpu": "1"}, name=own, namespace=holder, nodeName=name)
        if facts["devices"]:
            pool = facts["pool"]
            devices = k8s.resource_slice(k8s.gpus(facts["devices"]), name, count=facts["count"], pool=pool)
            if facts["broken"]:
                devices["spec"]["pool"]["generation"] = "one"
            yield devices
        for number, namespace in facts["held"]:
            run = f"{'run' if namespace == 'team-a' else 'zz-run'}-{number}"
            pod, claim = held(k8s, f"{run}-of-{name}" if namespace != "team-a" else f"{run}", [number], name, namespace)
            claim["status"]["allocation"]["devices"]["results"][0]["pool"] = facts["pool"] or name
            yield from (pod, claim)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=st.dictionaries(NAMES, NODES, min_size=1, max_size=4), facts=PODS)
def test_no_answer_contains_a_foreign_name(ask, k8s, nodes, facts):
    request = k8s.selecting(facts["selector"], count=facts["count"]) if facts["selector"] else {"count": facts["count"]}
    constraints = [{"matchAttribute": "gpu.nvidia.com/uuid"}] if facts["constraint"] else []
    pod = k8s.pod(
        {"nvidia.com/gpu": "2"} if facts["plugin"] else {},
        stored=facts["stored"],
        resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"),
        nodeSelector=facts["nodeSelector"],
        priority=1000,
    )
    objects = [*cluster_of(k8s, nodes), k8s.template(request, constraints=constraints), k8s.namespace("zz-empty")]
    answer = ask(pod, *objects)
    assert FOREIGN not in json.dumps(json_document(answer, Explanation))
    assert FOREIGN not in text([answer], 200)
    assert parse_document(json_document(answer, Explanation), Explanation) == answer
    whole = ask(pod, *objects, audience=Audience())
    assert (answer.verdict, answer.fit_now, answer.replicas) == (whole.verdict, whole.fit_now, whole.replicas)


def test_reference_to_a_foreign_object_is_shown_only_if_the_author_wrote_all_of_it(k8s, asking):
    """A guessed namespace does not show the names of its objects."""
    asking["metadata"]["annotations"] = {"guess": "team-b/other, team-b/known"}
    view = ManifestsView([*BASE, k8s.namespace("team-b"), k8s.template()])
    (question,) = questions(asking, "team-a", view, DEFAULTS)
    found = Explanation("", Feasibility.BLOCKED, "claims team-b/secret, team-b/known and team-c/none are odd")
    shown = redacted_explanation(found, question, view, MEMBER)
    assert shown.headline == "claims <object of another namespace>, team-b/known and team-c/none are odd"
