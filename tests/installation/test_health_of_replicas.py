"""Replicas: how many are available, restarts, images, nodes, versions, and what they say of themselves."""

import pytest

from policies.analyses.installation import Unread, diagnose
from policies.analyses.installation.replicas import readiness_checks, replica_checks, version_checks
from tests.installation.healthy_facts import NAMES, ago, bad, deployment, facts, good, pod, replica

READ = "get deployments.apps/gpu-admission -n gpu-admission"
NODES = "list nodes"


def test_installation_that_works_is_ok():
    found = diagnose(facts())
    assert bad(found.checks) == []
    assert found.conclusion == "15 ok"


def test_replicas_that_work_are_short_lines():
    assert good(replica_checks(facts(), "")) == [
        "2 of 2 replicas are available",
        "all replicas run image registry.example/gpu-admission:0.1.0",
        "replicas run on nodes node-0 and node-1",
    ]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"deployment": Unread(READ)},
            ("unknown", "it is unknown how many replicas run", f"you may not {READ}"),
        ),
        (
            {"deployment": Unread(error="no answer within 10 seconds")},
            ("unknown", "it is unknown how many replicas run", "no answer within 10 seconds"),
        ),
        (
            {"deployment": None},
            ("failing", "gpu-admission is not installed, or not in its namespace", "it does not exist"),
        ),
        (
            {"deployment": deployment(available=1), "pods": [pod(), pod(NAMES[1], "node-2", ready=False)]},
            ("warning", "1 of 2 replicas are available", "gpu-admission-1: probe failed"),
        ),
        (
            {
                "deployment": deployment(available=0),
                "pods": [
                    pod(ready=False, state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
                ],
            },
            ("failing", "0 of 2 replicas are available", "gpu-admission-0: ImagePullBackOff, no such image"),
        ),
        (
            {"deployment": deployment(0, 0, 0), "pods": []},
            ("failing", "the Deployment is scaled to 0 replicas", "no webhook call is answered"),
        ),
        (
            {"deployment": deployment(updated=1)},
            ("warning", "a rollout is not complete: 1 of 2 replicas are of the newest template", ""),
        ),
        (
            {"deployment": deployment(1, 1, 1), "pods": [pod()]},
            ("warning", "only 1 replica runs", "calls fail while it is replaced or its node is drained"),
        ),
        (
            {"pods": [pod(), pod(NAMES[1])]},
            ("warning", "all replicas run on node node-1", "calls fail if this node does"),
        ),
        (
            {"pods": [pod(), pod(NAMES[1])], "nodes": Unread(NODES)},
            ("unknown", "all replicas run on node node-1; it is unknown whether others exist", f"you may not {NODES}"),
        ),
        (
            {"pods": Unread("list pods -n gpu-admission")},
            ("unknown", "pods of replicas are unknown", "you may not list pods -n gpu-admission"),
        ),
        (
            {"pods": [pod(image="a:1"), pod(NAMES[1], "node-2", image="a:2")]},
            ("warning", "replicas run 2 images: a:1 and a:2", "a rollout is under way, or cannot finish"),
        ),
    ],
)
def test_trouble_of_replicas_is_named(changed, expected):
    assert bad(replica_checks(facts(**changed), ""), "what", "why") == [expected]


def test_one_node_is_ok_if_no_other_accepts_pods():
    checks = replica_checks(facts(pods=[pod(), pod(NAMES[1])], nodes=1), "")
    assert good(checks)[-1] == "all replicas run on node node-1; no other is ready for them"


@pytest.mark.parametrize(("hours", "count"), [(2, 1), (30, 0)])
def test_restarts_of_the_last_day_are_named(hours, count):
    terminated = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": ago(hours=hours)}
    restarted = pod(restartCount=3, lastState={"terminated": terminated})
    found = bad(replica_checks(facts(pods=[restarted, pod(NAMES[1], "node-2")]), ""), "what", "why", "remedy")
    assert (
        found
        == [
            (
                "warning",
                "replica gpu-admission-0 was restarted 3 times, the last time less than a day ago",
                "OOMKilled, exit code 137",
                "kubectl -n gpu-admission logs gpu-admission-0 --previous",
            )
        ][:count]
    )


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("0.1.0", "0.1.0"), []),
        (("0.2.0", "0.2.0"), ["replicas are of version 0.2.0, and this command is of 0.1.0"]),
        (("0.1.0", "0.2.0"), ["replicas are of 2 versions: 0.1.0 and 0.2.0"]),
    ],
)
def test_versions_that_differ_are_named(versions, expected):
    replicas = {name: replica(version=version) for name, version in zip(NAMES, versions, strict=True)}
    assert [what for _, what in bad(version_checks(facts(replicas=replicas)))] == expected


def readiness(**changed):
    return list(readiness_checks(facts(**changed), {"known to another check"}.__contains__))


def test_replica_that_is_not_ready_is_named_with_its_reasons():
    why = "the caBundle of webhook a in b does not verify the serving certificate: x"
    found = readiness(replicas={NAMES[0]: replica(reasons=[why]), NAMES[1]: replica()})
    assert bad(found, "what", "why", "remedy") == [
        ("failing", "replica gpu-admission-0 is not ready", why, "docs/troubleshooting.md#certificates")
    ]


@pytest.mark.parametrize(
    ("note", "remedy"),
    [
        ("forbidden: list and watch pods; rules treat them as unknown until RBAC allows it", "bind the role of "),
        ("no replica leads", "docs/troubleshooting.md#upkeep"),
        ("no client CA is configured, so every client can", "docs/client-certificates.md"),
        ("the election has ended because of a defect; restart", "kubectl -n gpu-admission delete pod gpu-admission-0"),
        ("something new", "docs/troubleshooting.md#not-ready"),
    ],
)
def test_notes_are_warnings_with_a_remedy(note, remedy):
    ((status, what, where, found),) = bad(
        readiness(replicas=dict.fromkeys(NAMES, replica(note))), "what", "where", "remedy"
    )
    assert (status, what, where) == ("warning", note, "/readyz of gpu-admission-0 and gpu-admission-1")
    assert found.startswith(remedy)


@pytest.mark.parametrize("note", ["gpu-admission-1_ab leads", "this replica leads", "known to another check"])
def test_notes_that_another_check_shows_are_left_out(note):
    assert good(readiness(replicas=dict.fromkeys(NAMES, replica(note)))) == [
        "ready: gpu-admission-0 and gpu-admission-1"
    ]


def test_kinds_that_are_not_installed_are_no_warning():
    found = readiness(
        replicas={NAMES[0]: replica("not served: a.nvidia.com; not installed", "not served: b.nvidia.com")}
    )
    assert bad(found) == []
    assert good(found)[1] == "not installed in this cluster, which is no error: a.nvidia.com, b.nvidia.com"


def test_same_note_is_shown_once_although_its_age_differs():
    old, new = (f"out of date for {age} s, still used: pods: gone" for age in (7, 6))
    found = readiness(replicas={NAMES[0]: replica(old), NAMES[1]: replica(new)})
    assert bad(found) == [("warning", old)]


def test_replicas_that_may_not_be_asked_are_one_unknown():
    unread = Unread("get pods/proxy -n gpu-admission")
    found = readiness(replicas=dict.fromkeys(NAMES, replica()._replace(readiness=unread)))
    assert bad(found, "what", "why", "remedy") == [
        (
            "unknown",
            "readiness of 2 replicas is unknown: gpu-admission-0 and gpu-admission-1",
            "you may not get pods/proxy -n gpu-admission",
            "bind the ClusterRole of docs/doctor.md to your user",
        )
    ]


@pytest.mark.parametrize(("ready", "status"), [(True, "warning"), (False, "failing")])
def test_replica_that_does_not_answer_fails_if_its_kubelet_says_so_too(ready, status):
    silent = replica()._replace(readiness=Unread(error="connection refused"))
    found = readiness(replicas={NAMES[0]: silent}, pods=[pod(ready=ready)])
    assert bad(found) == [(status, "replica gpu-admission-0 does not answer")]
