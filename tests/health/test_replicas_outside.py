"""Replicas that run outside of the cluster, and are called at a URL."""

from datetime import UTC, datetime, timedelta

import pytest

from policies.health.facts import Facts, Unread
from policies.health.leading import leader_checks
from policies.health.replicas import replica_checks
from policies.settings import DEFAULTS

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
URL = "https://localhost:8443"
DEPLOYMENT = {"spec": {"replicas": 2}, "status": {}}


def facts(**read):
    nothing = dict.fromkeys(("pods", "bundles", "quotas", "waiting_pods", "templates", "policies", "installed"), ())
    absent = dict.fromkeys(("deployment", "certificates", "lease"))
    known = {
        "now": NOW,
        "version": "0.1.0",
        "nodes": 2,
        "replicas": {},
        "configurations": {},
        "issues_certificates": True,
        "calls": Unread("get /metrics"),
        "api_servers": 1,
        "replica_leases": (),
        "settings": DEFAULTS,
    }
    return Facts(**{**nothing, **absent, **known, **read})


def lease(holder, seconds):
    renewed = f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"
    return {"spec": {"holderIdentity": holder, "renewTime": renewed}}


@pytest.mark.parametrize("deployment", [None, DEPLOYMENT])
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
def test_leases_show_replicas_outside(deployment, leases, status, what):
    (check,) = replica_checks(facts(deployment=deployment, replica_leases=leases), URL)
    assert (check.status, check.what) == (status, what)


def test_stopped_replica_is_started_by_the_remedy():
    (check,) = replica_checks(facts(), URL)
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
