"""Which pods wait for GPUs, by their status."""

from datetime import UTC, datetime, timedelta

import pytest

from policies.analyses.waiting import is_waiting, pod_state
from tests.explain.conftest import pod

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
REJECTED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
OURS = {"type": "gpu-admission.io/Schedulable", "status": "False", "reason": "NoNodeFits", "message": "why"}


def waiting_pod(*conditions, metadata=(), phase="Pending", limits=None, **spec):
    document = pod({"nvidia.com/gpu": "1"} if limits is None else limits, **spec)
    created = {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u"}
    return {
        **document,
        "metadata": {**document["metadata"], **created, **dict(metadata)},
        "status": {"phase": phase, "conditions": [*conditions]},
    }


STATES = {
    "rejected": (waiting_pod(REJECTED), (True, True, None)),
    "not tried": (waiting_pod(), (True, False, None)),
    "explained": (waiting_pod(REJECTED, OURS), (True, True, ("NoNodeFits", "why"))),
    "without a phase": (waiting_pod(REJECTED, phase=""), (True, True, None)),
    "bound": (waiting_pod({**REJECTED, "status": "True"}, nodeName="node-1"), None),
    "bound with our condition": (waiting_pod(OURS, nodeName="node-1"), (False, False, ("NoNodeFits", "why"))),
    "gated": (waiting_pod(REJECTED, schedulingGates=[{"name": "a/b"}]), None),
    "deleted": (waiting_pod(REJECTED, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), None),
    "ended": (waiting_pod(REJECTED, phase="Failed"), None),
    "without devices": (waiting_pod(REJECTED, limits={"cpu": "1"}), None),
    "of any shape": ({"kind": "Pod", "spec": [], "status": "x"}, None),
}


@pytest.mark.parametrize(("document", "expected"), STATES.values(), ids=STATES)
def test_state_of_a_pod(document, expected):
    state = pod_state(document)
    assert (state and (state.is_pending, state.is_rejected, state.written)) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0, False), (30, False), (31, True)])
def test_pod_waits_after_thirty_seconds(seconds, expected):
    assert is_waiting(pod_state(waiting_pod(REJECTED)), CREATED + timedelta(seconds=seconds)) is expected


@pytest.mark.parametrize("created", [None, "yesterday", 7, "2026-01-01"])
def test_pod_with_an_invalid_time_does_not_wait(created):
    state = pod_state(waiting_pod(REJECTED, metadata={"creationTimestamp": created}))
    assert not is_waiting(state, CREATED + timedelta(days=1))


def test_state_has_the_identity_of_the_pod():
    state = pod_state(waiting_pod(REJECTED))
    assert (state.namespace, state.name, state.uid) == ("team-a", "train", "u")
