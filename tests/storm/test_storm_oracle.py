"""The oracle of the storm counts right, and notices violations."""

import itertools
from fractions import Fraction

import pytest

from testbed import manifests
from tests.storm.harness.history import Event
from tests.storm.harness.oracle import Truth, quota, replay
from tests.storm.harness.orders import SLICES, share_template

versions = itertools.count(1)


def event(document, *, gone=False, **metadata):
    document["metadata"] = {"uid": document["metadata"]["name"], **document["metadata"], **metadata}
    return Event(next(versions), document["kind"], gone, document)


def pod(name="train", gpus=1, **spec):
    return manifests.pod("team", name, gpus, **spec)


def claim(name="claim", gpus=1, **metadata):
    document = manifests.claim("team", name, "true")
    document["spec"]["devices"]["requests"][0]["exactly"]["count"] = gpus
    document["metadata"] |= metadata
    return document


def limited(gpus=2, used=None, reserved="0"):
    document = quota("team", gpus, 100, 100)
    if used is not None:
        document["status"] = {"limits": [{"name": "gpus", "used": used, "reserved": reserved}]}
    return document


def held(*events):
    return Truth.of(events).amounts("team")["gpus"]


def container(name, gpus, resource="nvidia.com/gpu", **more):
    return {"name": name, "resources": {"limits": {resource: str(gpus)}}, **more}


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({}, 1),
        ({"initContainers": [container("first", 3)]}, 3),
        ({"initContainers": [container("beside", 1, restartPolicy="Always")]}, 2),
        ({"initContainers": [container("beside", 1, restartPolicy="Always"), container("first", 3)]}, 4),
        ({"initContainers": [container("first", 3), container("beside", 1, restartPolicy="Always")]}, 3),
        ({"containers": [container("main", 2, SLICES)]}, Fraction(2, 7)),
        ({"containers": [{"name": "main"}]}, 0),
    ],
    ids=["main", "init", "sidecar", "sidecar-before-init", "sidecar-after-init", "slices", "none"],
)
def test_oracle_counts_the_most_that_a_pod_ever_holds(spec, gpus):
    assert held(event({**pod(), "spec": {**pod()["spec"], **spec}})) == gpus


def test_oracle_counts_claims_beside_pods():
    assert held(event(pod()), event(claim(gpus=2))) == 3


@pytest.mark.parametrize(("product", "part"), [("Tesla T4", "1/4"), ("NVIDIA L4", "1/8")])
def test_oracle_counts_shares_as_parts_of_a_gpu(product, part):
    document = {**claim(), "spec": share_template("team", product)["spec"]["spec"]}
    assert Truth.of([event(document)]).amounts("team") == {"gpus": Fraction(part), "devices": 1, "slices": 0}


def test_oracle_counts_what_ended_no_more():
    assert held(event(pod()), event(pod(), gone=True)) == 0


def test_oracle_counts_devices_of_the_scheduler_for_a_pod_once():
    metadata = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"uid": "train", "controller": True}],
    }
    named = {**pod(gpus=2), "status": {"extendedResourceClaimStatus": {"resourceClaimName": "claim"}}}
    assert held(event(named), event(claim(gpus=2, **metadata))) == 2
    assert held(event(pod(gpus=2)), event(claim(gpus=2, **metadata))) == 4
    made = {**metadata, "managedFields": [{"manager": "kube-scheduler"}]}
    assert held(event(pod(gpus=2)), event(claim(gpus=2, **made))) == 2


def test_replay_tells_when_more_is_held_than_allowed():
    over, _ = replay([event(limited(gpus=2)), event(pod("a", 2)), event(pod("b", 1)), event(pod("b"), gone=True)])
    assert [(broken.limit, broken.truth, broken.hard) for broken in over] == [("gpus", 3, 2)]


def test_replay_tells_when_more_is_held_than_the_ledger_knows():
    events = [event(limited(used="0", reserved="1")), event(pod("a", 1)), event(limited(used="0"))]
    over, under = replay(events)
    assert (over, [(broken.truth, broken.ledger) for broken in under]) == ([], [(1, 0)])


def test_replay_asks_nothing_of_a_ledger_that_was_not_counted():
    assert replay([event(limited()), event(pod())]) == ([], [])


def test_replay_compares_nothing_where_it_does_not_know_everything():
    events = [event(limited(gpus=2)), event(pod("a", 3)), event(pod("a", 3), gone=True), event(pod("b", 3))]
    gap = (events[0].version, events[2].version)
    over, _ = replay(events, [gap])
    assert [broken.version for broken in over] == [events[3].version]
