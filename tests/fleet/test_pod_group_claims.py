"""The claim that a pod shares with its PodGroup is the group's as soon as it exists."""

import pytest

from policies.fleet.gpu_requests import GPUAccess, gpu_access
from policies.fleet.pod_claims import pod_claims
from policies.rules.settings import DEFAULTS
from tests.fleet.fleet_objects import template
from tests.fleet.pod_group_objects import CLASSES, ENTRY, WITH_GPU, WITHOUT, group, made, member
from webhook.cluster.manifests import ManifestsView


def access(*objects):
    (found,) = gpu_access(member(), "team-a", ManifestsView([*CLASSES, *objects]), DEFAULTS).values()
    return found


def test_claim_of_the_group_counts_before_its_template():
    view = ManifestsView([group(), made(WITH_GPU), template(WITHOUT)])
    (found,) = pod_claims(member(), "team-a", view)
    assert (found.kind, found.object_name) == ("ResourceClaim", "ring-gpus-x")
    assert str(found.path) == "spec.resourceClaims[0].resourceClaimTemplateName"


@pytest.mark.parametrize(
    ("of_claim", "of_template", "expected"),
    [(WITH_GPU, WITHOUT, GPUAccess.CERTAIN), (WITHOUT, WITH_GPU, GPUAccess.NONE)],
    ids=["gpu", "no-gpu"],
)
def test_template_that_was_replaced_says_nothing(of_claim, of_template, expected):
    assert access(group(), made(of_claim), template(of_template)) is expected


def test_template_that_is_gone_leaves_the_claim_known():
    assert access(group(), made(WITH_GPU)) is GPUAccess.CERTAIN


@pytest.mark.parametrize(
    "objects",
    [(), (group({**ENTRY, "name": "other"}),), (group(), made(WITHOUT, uid="another")), (group(),)],
    ids=["no-group", "another-entry", "another-owner", "no-claim"],
)
def test_otherwise_the_template_counts(objects):
    assert access(*objects, template(WITH_GPU)) is GPUAccess.CERTAIN
