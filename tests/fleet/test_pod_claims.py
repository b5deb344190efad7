"""The claims that a pod names, and their requests."""

import pytest

from policies.fleet.pod_claims import MOST_CLAIMS, number_of_template_claims, pod_claims, template_claims
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.manifests import ManifestsView


def named(*entries):
    return {"metadata": {"name": "train"}, "spec": {"containers": [], "resourceClaims": list(entries)}}


def request(name="gpu", device_class="gpu.nvidia.com"):
    return {"name": name, "exactly": {"deviceClassName": device_class}}


def claim(*requests, name="c", version="v1", namespace="team-a"):
    metadata = {"name": name, "namespace": namespace}
    spec = {"devices": {"requests": list(requests)}}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec,
    }


def template(*requests, name="t", **options):
    made = claim(*requests, name=name, **options)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


BY_CLAIM = {"name": "gpu", "resourceClaimName": "c"}
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}


def only(entry, *objects):
    (found,) = pod_claims(named(entry), "team-a", ManifestsView(objects))
    return found


def classes(found):
    return None if found is None else [request.device_class for each in found for request in each.subrequests]


@pytest.mark.parametrize(
    ("entry", "kind", "path"),
    [
        (BY_CLAIM, "ResourceClaim", "spec.resourceClaims[0].resourceClaimName"),
        (BY_TEMPLATE, "ResourceClaimTemplate", "spec.resourceClaims[0].resourceClaimTemplateName"),
        ({"name": "gpu"}, None, "spec.resourceClaims[0]"),
        ({"name": "gpu", "resourceClaimName": None, "resourceClaimTemplateName": ""}, None, "spec.resourceClaims[0]"),
    ],
)
def test_entry_names_a_claim_or_a_template(entry, kind, path):
    found = only(entry)
    assert (found.name, found.kind, str(found.path)) == ("gpu", kind, path)


@pytest.mark.parametrize(
    ("entry", "objects"),
    [(BY_CLAIM, [claim(request())]), (BY_TEMPLATE, [template(request())])],
    ids=["claim", "template"],
)
def test_requests_are_those_of_the_object(entry, objects):
    assert classes(only(entry, *objects).requests) == ["gpu.nvidia.com"]


def test_requests_of_every_served_version_are_read():
    flat = {"name": "gpu", "deviceClassName": "gpu.nvidia.com"}
    listed = {
        "name": "gpu",
        "firstAvailable": [{"name": "a", "deviceClassName": "a"}, {"name": "b", "deviceClassName": "b"}],
    }
    assert classes(only(BY_CLAIM, claim(flat, listed, version="v1beta1")).requests) == ["gpu.nvidia.com", "a", "b"]
    assert classes(only(BY_CLAIM, claim(request(), listed, version="v1beta2")).requests) == ["gpu.nvidia.com", "a", "b"]
    assert classes(only(BY_CLAIM, claim(request(), listed)).requests) == ["gpu.nvidia.com", "a", "b"]


def test_missing_object_has_no_requests():
    found = only(BY_CLAIM, claim(name="another"), claim(namespace="team-b"))
    assert (found.document, found.requests) == (None, None)


def test_unknown_object_has_no_requests():
    found = only(BY_TEMPLATE, claim())
    assert (found.document, found.requests) == (UNKNOWN, None)


def test_entry_that_names_nothing_has_no_requests():
    found = only({"name": "gpu"}, claim())
    assert (found.document, found.requests) == (None, None)


def test_claim_without_requests_has_none():
    assert only(BY_CLAIM, claim()).requests == ()


@pytest.mark.parametrize("entries", [None, "x", {}, [None, "x", 3]], ids=str)
def test_entries_of_any_shape_are_read(entries):
    assert pod_claims({"spec": {"resourceClaims": entries}}, "team-a", ManifestsView()) == ()


@pytest.mark.parametrize("pod", [None, {}, {"spec": None}, {"spec": []}], ids=str)
def test_pod_of_any_shape_is_read(pod):
    assert pod_claims(pod, "team-a", ManifestsView()) == ()


def test_nothing_is_read_before_it_is_used():
    class Unread(ManifestsView):
        def get(self, kind, name, namespace=""):
            raise AssertionError(kind)

    assert len(pod_claims(named(BY_CLAIM, BY_TEMPLATE), "team-a", Unread())) == 2


def test_object_is_read_once():
    reads = []

    class Counting(ManifestsView):
        def get(self, kind, name, namespace=""):
            reads.append((kind, name, namespace))
            return super().get(kind, name, namespace)

    (found,) = pod_claims(named(BY_CLAIM), "team-a", Counting([claim(request())]))
    assert found.requests is found.requests is not None
    assert found.document is not None
    assert reads == [("ResourceClaim", "c", "team-a")]


def test_claims_that_the_status_names_are_not_looked_up():
    pod = named(BY_TEMPLATE)
    pod["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
    (found,) = pod_claims(pod, "team-a", ManifestsView([claim(request()), template()]))
    assert (found.kind, found.requests) == ("ResourceClaimTemplate", ())


def test_claims_beyond_the_most_are_not_read():
    entries = [{"name": f"claim-{index}", "resourceClaimTemplateName": "gpus"} for index in range(20_000)]
    claims = pod_claims(named(*entries), "team-a", ManifestsView())
    assert (len(claims), claims[-1].name) == (MOST_CLAIMS, "claim-999")


def test_claims_by_name_do_not_keep_those_from_templates_from_being_read():
    by_name = [{"name": f"claim-{index}", "resourceClaimName": "c"} for index in range(MOST_CLAIMS)]
    pod = named(*by_name, BY_TEMPLATE)
    (found,) = template_claims(pod, "team-a", ManifestsView())
    assert (found.index, found.kind, number_of_template_claims(pod)) == (MOST_CLAIMS, "ResourceClaimTemplate", 1)


def test_claims_from_templates_beyond_the_most_are_counted_only():
    pod = named(*[{"name": f"claim-{index}", "resourceClaimTemplateName": "t"} for index in range(20_000)])
    assert len(template_claims(pod, "team-a", ManifestsView())) == MOST_CLAIMS
    assert number_of_template_claims(pod) == 20_000


@pytest.mark.parametrize("name", ["", None, 7])
def test_entry_without_the_name_of_a_template_is_no_claim_from_a_template(name):
    assert number_of_template_claims(named({"name": "gpu", "resourceClaimTemplateName": name})) == 0
