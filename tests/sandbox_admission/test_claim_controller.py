"""Claims from templates, as the resourceclaim controller makes them."""

import asyncio
import random
import re
from datetime import UTC, datetime

import pytest

from webhook.sandbox.claim_controller import CONTROLLER, ClaimController, generate_name
from webhook.sandbox.kinds import Kinds
from webhook.sandbox.statuses import failure
from webhook.sandbox.store import Cluster, Store
from webhook.sandbox.writes import seed


class Watchful:
    """Admission that remembers what it is asked, and refuses claims as often as it is told."""

    def __init__(self):
        self.attempts = []
        self.refuses = 0

    async def mutate(self, attempt, warn):
        return attempt.object

    async def validate(self, attempt, warn):
        self.attempts.append(attempt)
        if attempt.resource.kind == "ResourceClaim" and self.refuses:
            self.refuses -= 1
            raise failure(403, "Forbidden", 'admission webhook "claims" denied the request: no')


@pytest.fixture
def cluster():
    made = Cluster(Kinds(), Store(100), lambda: datetime(2025, 1, 1, tzinfo=UTC), random.Random(1))
    made.admission = Watchful()
    store(made, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    return made


def store(cluster, document):
    return seed(cluster, cluster.kinds.find(document["kind"]), document)


@pytest.fixture
def pod_with_claims(cluster, pod):
    def make(*claims, name="p", status=None):
        document = pod(name, resourceClaims=list(claims) or [{"name": "gpu", "resourceClaimTemplateName": "t"}])
        return store(cluster, {**document, "status": status or {"phase": "Pending"}})

    return make


@pytest.fixture
def template(cluster):
    def make(name="t", metadata=None):
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
        spec = {"spec": {"devices": {"requests": [request]}}, **({"metadata": metadata} if metadata else {})}
        document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec}
        return store(cluster, {**document, "metadata": {"name": name, "namespace": "team-a"}})

    return make


@pytest.fixture
async def controller(cluster):
    task = asyncio.create_task(ClaimController(cluster).run())
    yield task
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
def until(controller):
    async def wait(condition):
        while not condition():
            assert not controller.done(), controller.exception()
            await asyncio.sleep(0)

    return wait


@pytest.fixture
def reported_claims(cluster):
    """The names of claims in the status of a pod."""

    def read(name="p"):
        statuses = cluster.get("Pod", name, "team-a").get("status", {}).get("resourceClaimStatuses", [])
        return {status["name"]: status["resourceClaimName"] for status in statuses}

    return read


async def test_a_claim_is_made_from_the_template(cluster, pod_with_claims, template, until, reported_claims):
    made = template(metadata={"labels": {"tmpl": "l"}, "annotations": {"tmpl": "a"}})
    pod = pod_with_claims()
    await until(reported_claims)
    (claim,) = cluster.objects("ResourceClaim")
    metadata = claim["metadata"]
    assert re.fullmatch(r"p-gpu-[a-z0-9]{5}", metadata["name"])
    assert metadata["generateName"] == "p-gpu-"
    assert metadata["labels"] == {"tmpl": "l"}
    assert metadata["annotations"] == {"tmpl": "a", "resource.kubernetes.io/pod-claim-name": "gpu"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    assert metadata["ownerReferences"] == [owner]
    assert claim["spec"] == made["spec"]["spec"]
    assert reported_claims() == {"gpu": metadata["name"]}


async def test_a_claim_passes_admission_in_the_name_of_the_controller(
    cluster, pod_with_claims, template, until, reported_claims
):
    template()
    pod_with_claims()
    await until(reported_claims)
    asked = [(attempt.resource.kind, attempt.subresource, attempt.user) for attempt in cluster.admission.attempts]
    assert asked == [("ResourceClaim", "", CONTROLLER), ("Pod", "status", CONTROLLER)]


async def test_a_template_that_comes_later_is_found(cluster, pod_with_claims, template, until, reported_claims):
    pod_with_claims()
    await until(lambda: cluster.objects("Event"))
    template()
    await until(reported_claims)
    (event,) = cluster.objects("Event")
    assert (event["reason"], event["type"]) == ("FailedResourceClaimCreation", "Warning")
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    )


async def test_a_claim_that_is_refused_is_tried_again(cluster, pod_with_claims, template, until, reported_claims):
    cluster.admission.refuses = 3
    template()
    pod_with_claims()
    await until(reported_claims)
    (event,) = cluster.objects("Event")
    assert event["message"] == (
        'PodResourceClaim gpu: create ResourceClaim : admission webhook "claims" denied the request: no'
    )
    claims = [attempt for attempt in cluster.admission.attempts if attempt.resource.kind == "ResourceClaim"]
    assert len(claims) == 4


async def test_each_claim_of_a_pod_is_made(cluster, pod_with_claims, template, until, reported_claims):
    template()
    template("u")
    pod_with_claims(
        {"name": "a", "resourceClaimTemplateName": "t"},
        {"name": "b", "resourceClaimTemplateName": "u"},
        {"name": "c", "resourceClaimName": "shared"},
    )
    await until(reported_claims)
    assert set(reported_claims()) == {"a", "b"}
    assert {claim["metadata"]["name"] for claim in cluster.objects("ResourceClaim")} == set(reported_claims().values())


async def test_a_claim_that_the_pod_does_not_know_is_not_made_twice(
    cluster, pod_with_claims, template, until, reported_claims
):
    template()
    pod = pod_with_claims()
    await until(reported_claims)
    known = reported_claims()
    cluster.commit(cluster.kinds.find("Pod"), {**pod, "status": {"phase": "Pending"}})
    await until(reported_claims)
    assert reported_claims() == known


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_gets_no_claims(cluster, pod_with_claims, template, until, reported_claims, phase):
    template()
    pod_with_claims(status={"phase": phase}, name="a-ended")
    pod_with_claims(name="p")
    await until(reported_claims)
    assert reported_claims("a-ended") == {}


async def test_claims_go_with_their_pod(cluster, pod_with_claims, template, until, reported_claims):
    template()
    pod_with_claims()
    await until(reported_claims)
    kind = cluster.kinds.find("Pod")
    cluster.remove(kind, cluster.store.get(kind, "team-a", "p"))
    await until(lambda: not cluster.objects("ResourceClaim"))


def test_long_names_are_cut_in_both_parts():
    assert generate_name("p" * 60, "c" * 30) == "p" * 37 + "-" + "c" * 18
