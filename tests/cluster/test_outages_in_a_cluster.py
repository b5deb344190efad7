"""While no replica answers, what fails closed is refused, and nothing else."""

import itertools
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from testbed import manifests
from testbed.api import STRATEGIC_PATCH
from testbed.waiting import until
from webhook.cluster.resources import RESOURCES

POD = RESOURCES["Pod"]
NAMESPACES = {
    f"dra={dra or 'unset'}, quota={quota or 'unset'}": {
        label: value for label, value in (("dra", dra), ("quota", quota)) if value
    }
    for dra, quota in itertools.product(("", "enabled", "preview", "disabled"), ("", "enforced"))
}
GATED = {"schedulingGates": [{"name": "example.com/wait"}]}
UNGATED = {"spec": {"schedulingGates": None}}


def pod(team, requests, annotations=None, **spec):
    document = manifests.pod(team, "new", **spec)
    document["spec"]["containers"][0]["resources"] = {"limits": dict.fromkeys(requests, "1")}
    document["metadata"]["annotations"] = annotations or {}
    return document


def with_environment(team):
    document = pod(team, ())
    document["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return document


def with_init_container(team):
    first = {"name": "first", "image": "registry.example/train:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return pod(team, (), initContainers=[first])


def with_claims(team, **spec):
    document = pod(team, (), resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}], **spec)
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return document


PLAIN = {
    "plain": lambda team: pod(team, ("cpu",)),
    "log collector": lambda team: pod(team, (), volumes=[{"name": "logs", "hostPath": {"path": "/var/log"}}]),
    "environment": with_environment,
    "CDI": lambda team: pod(team, (), {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}),
    "wish": lambda team: pod(team, (), {"gpu-admission.io/product": "NVIDIA-H100-80GB-HBM3"}),
}
OTHER_DEVICES = {
    "RDMA": lambda team: pod(team, ("rdma/hca",)),
    "another vendor's GPU": lambda team: pod(team, ("example.com/gpu",)),
}
NARROW = {
    "GPU": lambda team: pod(team, ("nvidia.com/gpu",)),
    "GPU and a wish": lambda team: pod(team, ("nvidia.com/gpu",), {"gpu-admission.io/min-memory": "40Gi"}),
    "GPU of an init container": with_init_container,
    "GPU and RDMA": lambda team: pod(team, ("nvidia.com/gpu", "rdma/hca")),
    "MIG": lambda team: pod(team, ("nvidia.com/mig-1g.10gb",)),
    "DeviceClass": lambda team: pod(team, ("deviceclass.resource.kubernetes.io/gpu.nvidia.com",)),
    "claims by a template": with_claims,
}
CLAIMS = {"ResourceClaim": lambda team: manifests.claim(team, "new", "true")}
CREATED = PLAIN | OTHER_DEVICES | NARROW | CLAIMS


def refused_ones():
    """The cases of docs/failure-modes.md: the kind of object, and the namespace."""
    for (where, labels), what in itertools.product(NAMESPACES.items(), CREATED):
        converts = labels.get("dra") == "enabled" and what in NARROW
        enforces = labels.get("quota") == "enforced" and what not in PLAIN
        if converts or enforces:
            yield f"{what} in {where}"


def refusals(cluster, teams):
    """The cases that are refused because a call fails."""
    answers = {
        f"{what} in {where}": cluster.create(document(team), dry_run=True)
        for (where, team), (what, document) in itertools.product(teams.items(), CREATED.items())
    }
    answers |= {f"ephemeral container in {where}": debugged(cluster, team) for where, team in teams.items()}
    return {case: answer for case, answer in answers.items() if not answer.accepted}


def debugged(cluster, team):
    """The answer to `kubectl debug` of a pod with a GPU."""
    tools = {
        "name": "tools",
        "image": "registry.example/tools:1",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    return cluster.api.request(
        "PATCH",
        POD.path(team, "old", "ephemeralcontainers"),
        {"dryRun": "All"},
        {"spec": {"ephemeralContainers": [tools]}},
        STRATEGIC_PATCH,
    )


@contextmanager
def outage(cluster):
    """Replicas may be stopped meanwhile."""
    try:
        yield
    finally:
        cluster.service.start()


def test_outage_refuses_what_fails_closed_only(cluster):
    teams = {where: cluster.namespace(**labels) for where, labels in NAMESPACES.items()}
    for team in teams.values():
        cluster.create(manifests.pod(team, "old")).object  # noqa: B018 - it is not refused
    with outage(cluster):
        cluster.service.stop()
        refused = refusals(cluster, teams)
    assert {answer.code for answer in refused.values()} == {HTTPStatus.INTERNAL_SERVER_ERROR}
    assert all("failed calling webhook" in answer.message for answer in refused.values())
    expected = {*refused_ones()}
    assert (sorted({*refused} - expected), sorted(expected - {*refused})) == ([], []), "wrongly refused, and admitted"


def owners_of_claims(cluster, teams):
    """The pods for which claims were made, by kind of namespace."""
    return {
        where: {claim["metadata"]["ownerReferences"][0]["name"] for claim in cluster.list("ResourceClaim", team)}
        for where, team in teams.items()
    }


def pods_with_claims(cluster, where):
    """Before 1.36, kube-scheduler makes no claims for extended resources: only converted pods have one."""
    return {"new", "gpu"} if cluster.minor >= 36 or "dra=enabled" in where else {"new"}


def test_admitted_pods_get_their_claims_in_an_outage(real):
    """kube-controller-manager makes claims from templates, and kube-scheduler those for extended resources."""
    if real.control_plane is None or not real.schedules:
        pytest.skip("needs a control plane of our own with a kube-controller-manager and a kube-scheduler")
    teams = {where: real.namespace(**labels) for where, labels in NAMESPACES.items()}
    with outage(real):
        with real.control_plane.suspend("kube-controller-manager"):
            for team in teams.values():
                real.create(manifests.template(team, "one")).object  # noqa: B018 - it is not refused
                real.create(with_claims(team, **GATED)).object  # noqa: B018
                real.create(manifests.pod(team, "gpu", **GATED)).object  # noqa: B018
            real.service.stop()
            assert not any(owners_of_claims(real, teams).values())
        for where, team in teams.items():
            if "enforced" not in where:
                real.patch("Pod", "gpu", team, body=UNGATED).object  # noqa: B018
        made = {where: set() if "enforced" in where else pods_with_claims(real, where) for where in NAMESPACES}
        until(lambda: owners_of_claims(real, teams) == made, "claims are made where no quota is enforced")
    until(lambda: all("new" in owners for owners in owners_of_claims(real, teams).values()), "all others follow")
