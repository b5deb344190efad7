"""The resources that dropped pods take of nodes, always equal to a full count."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.quantities import ONE, taken_by
from policies.kubernetes.view import UNKNOWN
from tests import counted_steps
from webhook.cluster.live import LiveView
from webhook.cluster.store import Listing
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

GIBI = 1024**3 * ONE
(PODS,) = [each for each in watched_kinds(()) if each.kind == "Pod"]


def pod(name="web", version="2", node="a", namespace="team-a", phase="Running", labels=None, **spec):
    return {
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": version, "labels": labels or {}},
        "spec": ({"nodeName": node} if node else {}) | spec,
        "status": {"phase": phase},
    }


def containers(**requests):
    return [{"name": "main", "resources": {"requests": requests}}]


WEB = containers(cpu="2", memory="1Gi")
TRAIN = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}}]


@pytest.fixture
def store(take_list):
    """All pods, none of them yet."""
    made = store_of(PODS)
    take_list(made, [])
    return made


@pytest.fixture
def view(store):
    return LiveView([(PODS, store)])


@pytest.fixture
def tell(store):
    def apply(event, item):
        store.apply({"type": event, "object": item})

    return apply


def test_nothing_is_known_before_pods_are_listed():
    assert LiveView([(PODS, store_of(PODS))]).others_on("a") is UNKNOWN
    assert LiveView().others_on("a") is UNKNOWN


def test_node_without_pods_is_empty(view):
    assert view.others_on("a") == {}


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"containers": WEB}, {"cpu": 2 * ONE, "memory": GIBI}),
        ({"containers": WEB, "overhead": {"cpu": "1"}}, {"cpu": 3 * ONE, "memory": GIBI}),
        ({"containers": WEB, "resources": {"requests": {"cpu": "5"}}}, {"cpu": 5 * ONE, "memory": GIBI}),
        ({"containers": WEB, "initContainers": containers(cpu="7")}, {"cpu": 7 * ONE, "memory": GIBI}),
        (
            {"containers": WEB, "initContainers": [{**containers(cpu="7")[0], "restartPolicy": "Always"}]},
            {"cpu": 9 * ONE, "memory": GIBI},
        ),
        ({"containers": containers(**{"ephemeral-storage": "1Gi", "cpu": "0"})}, {"ephemeral-storage": GIBI}),
        ({"containers": [{"name": "main"}]}, {}),
    ],
    ids=["containers", "overhead", "of the whole pod", "init container", "sidecar", "disk", "nothing"],
)
def test_pod_takes_what_the_scheduler_counts(view, tell, spec, amounts):
    tell("ADDED", pod(**spec))
    assert view.others_on("a") == {**amounts, "pods": ONE}


def test_pods_of_a_node_add_up(view, tell):
    tell("ADDED", pod("x", containers=WEB))
    tell("ADDED", pod("x", namespace="team-b", containers=WEB))
    tell("ADDED", pod("x", node="b", namespace="team-c", containers=WEB))
    assert view.others_on("a") == {"cpu": 4 * ONE, "memory": 2 * GIBI, "pods": 2 * ONE}


@pytest.mark.parametrize(
    "item",
    [
        pod(node=None, containers=WEB),
        pod(node="", containers=WEB),
        pod(phase="Succeeded", containers=WEB),
        pod(phase="Failed", containers=WEB),
        pod(containers=TRAIN),
        pod(labels={"app": "gpu-operator"}, containers=WEB),
    ],
    ids=["unbound", "no name of a node", "succeeded", "failed", "with a GPU", "the operator's"],
)
def test_pod_that_takes_nothing_or_is_kept_is_not_counted(store, view, tell, item):
    tell("ADDED", item)
    assert (view.others_on("a"), len(store.others)) == ({}, 0)


@pytest.mark.parametrize(
    ("event", "after", "amounts"),
    [
        ("MODIFIED", pod(version="3", containers=containers(cpu="3")), {"cpu": 3 * ONE, "pods": ONE}),
        ("MODIFIED", pod(version="3", phase="Failed", containers=WEB), {}),
        ("MODIFIED", pod(version="3", labels={"app": "gpu-operator"}, containers=WEB), {}),
        ("MODIFIED", pod(version="3", node="b", containers=WEB), {}),
        ("DELETED", pod(version="3", containers=WEB), {}),
        ("DELETED", pod(version="1", containers=WEB), {"cpu": 2 * ONE, "memory": GIBI, "pods": ONE}),
        (
            "MODIFIED",
            pod(version="1", containers=containers(cpu="9")),
            {"cpu": 2 * ONE, "memory": GIBI, "pods": ONE},
        ),
    ],
    ids=["resized", "failed", "of interest now", "elsewhere", "deleted", "deleted before", "older"],
)
def test_change_of_a_pod_changes_its_node(view, tell, event, after, amounts):
    tell("ADDED", pod(containers=WEB))
    tell(event, after)
    assert view.others_on("a") == amounts


def test_answer_stays_as_it_was_when_pods_change(view, tell):
    tell("ADDED", pod(containers=WEB))
    answer = view.others_on("a")
    tell("ADDED", pod("other", containers=WEB))
    assert answer == {"cpu": 2 * ONE, "memory": GIBI, "pods": ONE}


def test_pods_with_equal_requests_share_them():
    first, second = taken_by(pod("x", containers=WEB)), taken_by(pod("y", node="b", containers=WEB))
    assert first[1] is second[1]


def test_pod_that_is_of_no_interest_any_more_is_counted(store, view, tell):
    tell("ADDED", pod(labels={"app": "gpu-operator"}, containers=WEB))
    tell("MODIFIED", pod(version="3", containers=WEB))
    assert (len(store), view.others_on("a")["cpu"]) == (0, 2 * ONE)


def test_list_takes_the_place_of_everything(view, tell, store, take_list):
    tell("ADDED", pod("x", containers=WEB))
    tell("ADDED", pod("y", node="b", containers=WEB))
    listing = Listing(store)
    listing.add([pod("y", node="b", containers=WEB)])
    assert view.others_on("a")["cpu"] == 2 * ONE
    listing.finish("5")
    assert (view.others_on("a"), view.others_on("b")["cpu"], len(store.others)) == ({}, 2 * ONE, 1)


def test_pods_that_may_not_be_read_any_more_are_not_known(store, view, tell):
    tell("ADDED", pod(containers=WEB))
    store.mark("forbidden", "pods is forbidden")
    assert (view.others_on("a"), len(store.others)) == (UNKNOWN, 0)


def test_pods_are_believed_for_a_while_after_the_watch_broke(cluster, clock):
    cluster.fill("Pod", pod(containers=WEB))
    cluster.store("Pod").mark("stale", "the connection was reset")
    assert cluster.view.others_on("a")["cpu"] == 2 * ONE
    clock.now += 120
    assert cluster.view.others_on("a") is UNKNOWN


def listed_pods(view):
    return len(view.list("Pod"))


def taken_of_a(view):
    return view.others_on("a")


def through_another(view):
    return view.derive(taken_of_a)


def test_digest_that_does_not_request_other_pods_outlives_them(store, view, tell):
    view.derive(listed_pods)
    before = view.generation("Pod")
    tell("ADDED", pod(containers=WEB))
    assert (view.generation("Pod"), store.list()) == (before, ())


@pytest.mark.parametrize("function", [taken_of_a, through_another])
def test_digest_that_requests_other_pods_is_made_anew(store, view, tell, take_list, function):
    tell("ADDED", pod(containers=WEB))
    first = view.derive(function)
    tell("MODIFIED", pod(version="3", labels={"of": "no interest"}, containers=WEB))
    assert view.derive(function) is first
    tell("MODIFIED", pod(version="4", containers=containers(cpu="3")))
    assert view.derive(function) == {"cpu": 3 * ONE, "pods": ONE}
    take_list(store, [])
    assert view.derive(function) == {}
    store.mark("forbidden", "pods is forbidden")
    assert view.derive(function) is UNKNOWN


def key(item):
    return item["metadata"]["namespace"], item["metadata"]["name"]


NAMES, NODES = st.sampled_from(["x", "y", "z"]), st.sampled_from(["a", "b", None])
REQUESTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["0", "1", "250m", "2Gi"]))
ITEMS = st.builds(
    lambda name, namespace, node, phase, labels, requests, gpu: pod(
        name,
        node=node,
        namespace=namespace,
        phase=phase,
        labels=labels,
        containers=[{"name": "main", "resources": {"requests": requests, "limits": gpu}}],
    ),
    NAMES,
    st.sampled_from(["team-a", "team-b"]),
    NODES,
    st.sampled_from(["Running", "Running", "Pending", "Failed"]),
    st.sampled_from([{}, {}, {"app": "gpu-operator"}]),
    REQUESTS,
    st.sampled_from([{}, {}, {"nvidia.com/gpu": "1"}]),
)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["ADDED", "MODIFIED", "MODIFIED", "DELETED", "late"]), ITEMS),
    st.tuples(st.just("list"), st.lists(ITEMS, max_size=4, unique_by=key)),
    st.tuples(st.just("namespace deleted"), st.sampled_from(["team-a", "team-b"])),
    st.tuples(st.sampled_from(["forbidden", "stale"]), st.none()),
)


class Model:
    """The pods of an API server, and what the store is told of them: nothing before a list."""

    def __init__(self, store):
        self.store, self.pods, self.version = store, {}, 10

    def step(self, what, reported):
        match what:
            case "list":
                self.pods = {key(each): each for each in reported}
                self.version += 1
                listing = Listing(self.store)
                listing.add(reported[:2])
                listing.add(reported[2:])
                listing.finish(str(self.version))
            case _ if self.store.state in ("waiting", "forbidden"):
                pass
            case "namespace deleted":
                for each in [each for each in self.pods.values() if each["metadata"]["namespace"] == reported]:
                    self.step("DELETED", each)
            case "forbidden":
                self.pods = {}
                self.store.mark("forbidden", "why")
            case "stale":
                self.store.mark("stale", "why")
            case "late":
                self.store.apply({"type": "MODIFIED", "object": with_version(reported, 3)})
            case _:
                self.version += 1
                self.pods.pop(key(reported), None)
                if what != "DELETED":
                    self.pods[key(reported)] = reported
                self.store.apply({"type": what, "object": with_version(reported, self.version)})


def with_version(item, version):
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}


def summed(pods):
    sums = defaultdict(lambda: defaultdict(int))
    for node, amounts in filter(None, map(taken_by, pods)):
        for name, amount in amounts:
            sums[node][name] += amount
    return sums


@given(st.lists(STEPS, max_size=25))
def test_sums_after_any_events_are_those_made_from_scratch(steps):
    store = store_of(PODS)
    model = Model(store)
    for step in steps:
        model.step(*step)
        kept = {key(each) for each in store.list()}
        others = summed(each for name, each in model.pods.items() if name not in kept)
        assert {node: store.others.on(node) for node in "ab"} == {node: others[node] for node in "ab"}
        everything = summed(model.pods.values())
        together = summed(store.list())
        for node in "ab":
            for name, amount in store.others.on(node).items():
                together[node][name] += amount
        assert together == everything


def test_usage_of_a_pod_takes_few_steps():
    """A replica computes it for every pod of the cluster before it is ready; once it took 172 lines of `policies`."""
    used = pod(containers=containers(cpu="1", memory="16Gi"))
    taken_by(used)
    assert counted_steps.steps(lambda: taken_by(used)) <= 100
