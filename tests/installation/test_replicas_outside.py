"""Replicas that run outside of the cluster, and are called at a URL."""

from datetime import timedelta

import pytest

from policies.analyses.installation import Unread
from policies.analyses.installation.replicas import leader_checks, replica_checks
from tests.installation.healthy_facts import NOW, deployment, facts

URL = "https://localhost:8443"


def lease(holder, seconds):
    renewed = f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"
    return {"spec": {"holderIdentity": holder, "renewTime": renewed}}


@pytest.mark.parametrize("stored", [None, deployment(available=0, updated=0)])
@pytest.mark.parametrize(
    ("leases", "status", "what"),
    [
        ([lease("a_1", 3), lease("b_2", 29)], "ok", "2 replicas run outside of the cluster: a_1 and b_2"),
        ([lease("a_1", 3), lease("b_2", 31)], "ok", "1 replica runs outside of the cluster: a_1"),
        ([lease("", 3)], "failing", "no replica runs"),
        ([lease("a_1", 60), {"spec": {"holderIdentity": "b", "renewTime": "soon"}}], "failing", "no replica runs"),
        (Unread("list leases -n gpu-admission"), "unknown", "it is unknown whether replicas run"),
    ],
)
def test_leases_show_replicas_outside(stored, leases, status, what):
    (check,) = replica_checks(facts(deployment=stored, pods=[], replica_leases=leases), URL)
    assert (check.status, check.what) == (status, what)


def test_stopped_replica_is_started_by_the_remedy():
    (check,) = replica_checks(facts(deployment=None, pods=[]), URL)
    assert check.why == (
        "API servers call https://localhost:8443, which is outside of the cluster, and no replica has renewed its Lease for 30 seconds"
    )
    assert check.remedy == "gpu-admission serve --url https://localhost:8443"


@pytest.mark.parametrize(
    ("stored", "status", "what"),
    [
        (lease("a_1", 4), "ok", "a_1 leads, and renewed its Lease 4 seconds ago"),
        (lease("", 4), "warning", "no replica leads at the moment"),
        (lease("", 40), "failing", "no replica leads"),
        (lease("a_1", 40), "failing", "no replica leads"),
        (None, "failing", "no replica leads"),
    ],
)
def test_election_is_no_failure(stored, status, what):
    (check,) = leader_checks(facts(lease=stored))
    assert (check.status, check.what) == (status, what)
