"""Device taints and the tolerations of requests."""

from __future__ import annotations

import pytest

TAINT = {"key": "health", "value": "bad", "effect": "NoSchedule"}


def fits(cluster, *tolerations, taint=TAINT, **known):
    cluster.add(cluster.device("gpu-0", taints=[taint]))
    request = cluster.request(tolerations=list(tolerations)) if tolerations else cluster.request()
    return cluster.picked(cluster.claim(request), **known) is not None


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "health", "operator": "Exists"}, True),
        ({"key": "age", "operator": "Exists"}, False),
        ({"key": "health", "value": "bad"}, True),
        ({"key": "health", "operator": "Equal", "value": "bad"}, True),
        ({"key": "health", "operator": "Equal", "value": "worse"}, False),
        ({"key": "health", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "health", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "health", "operator": "Near", "value": "bad"}, False),
    ],
    ids=["all", "key", "other key", "equal", "Equal", "other value", "effect", "other effect", "other operator"],
)
def test_a_taint_keeps_a_device_from_requests_that_do_not_tolerate_it(cluster, toleration, tolerated):
    assert fits(cluster, toleration) is tolerated


@pytest.mark.parametrize(("effect", "prevents"), [("NoExecute", True), ("None", False), ("Future", False)])
def test_only_known_effects_prevent_anything(cluster, effect, prevents):
    assert fits(cluster, taint={**TAINT, "effect": effect}) is not prevents


def test_every_taint_must_be_tolerated(cluster):
    cluster.add(cluster.device("gpu-0", taints=[TAINT, {**TAINT, "key": "age"}]))

    claim = cluster.claim(cluster.request(tolerations=[{"key": "health", "operator": "Exists"}]))
    assert cluster.picked(claim) is None


def test_taints_keep_admin_access_away_too(cluster):
    cluster.add(cluster.device("gpu-0", taints=[TAINT]))

    assert cluster.picked(cluster.claim(cluster.request(adminAccess=True))) is None


def test_taints_are_ignored_where_the_cluster_does_not_know_them(cluster):
    assert fits(cluster, features=["DRAPrioritizedList"])


def test_tolerations_are_copied_into_the_result(cluster):
    toleration = {"key": "health", "operator": "Exists"}
    cluster.add("gpu-0")

    (allocation,) = cluster.ask(cluster.claim(cluster.request(tolerations=[toleration])))
    assert allocation["devices"]["results"][0]["tolerations"] == [toleration]
