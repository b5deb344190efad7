"""The claim that a pod shares with its PodGroup is the group's as soon as it exists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.pod_groups import POD_GROUP_VERSIONS
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


REFERENCES = st.one_of(
    st.builds(lambda name: {"resourceClaimTemplateName": name}, st.sampled_from("tu")),
    st.builds(lambda name: {"resourceClaimName": name}, st.sampled_from("tu")),
    st.just({}),
)
ENTRIES = st.lists(
    st.builds(lambda name, reference: {"name": name, **reference}, st.sampled_from(["gpus", "nics"]), REFERENCES),
    max_size=3,
)


def claims_of(entries, *groups):
    document = member()
    document["spec"] = {**document["spec"], "resourceClaims": entries}
    return pod_claims(document, "team-a", ManifestsView([*groups, template(WITH_GPU), made(WITH_GPU)]))


@given(of_group=ENTRIES, of_pod=ENTRIES)
def test_claims_are_shared_alike_in_every_version_of_the_group(of_group, of_pod):
    document = {**group(), "spec": {"resourceClaims": of_group}}
    versions = [{**document, "apiVersion": f"scheduling.k8s.io/{each}"} for each in POD_GROUP_VERSIONS]
    found = [[(each.kind, each.object_name, each.group is None) for each in claims_of(of_pod, it)] for it in versions]
    assert found[0] == found[1] == found[2]
    assert [is_own for _, _, is_own in found[0]] == [each not in of_group for each in of_pod]


@given(of_pod=ENTRIES)
def test_claims_from_templates_may_be_shared_while_the_group_is_unknown(of_pod):
    found = claims_of(of_pod)
    assert [each.group for each in found] == [None] * len(of_pod)
    assert [each.may_be_shared for each in found] == ["resourceClaimTemplateName" in each for each in of_pod]
