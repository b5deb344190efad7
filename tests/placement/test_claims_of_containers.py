"""Requests that containers name, and claims that do not exist."""

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

NO_CLAIMS = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimList", "items": []}


def template(*requests, name="gpus"):
    named = [{"name": each, "exactly": {"deviceClassName": "gpu.nvidia.com"}} for each in requests]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": named}}},
    }


def findings(request, *cluster, source="resourceClaimTemplateName"):
    claims = [{"name": "gpu", **({"request": request} if request else {})}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {
            "resourceClaims": [{"name": "gpu", source: "gpus"}],
            "containers": [{"name": "main", "image": "train", "resources": {"claims": claims}}],
        },
    }
    view = ManifestsView([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}, *cluster])
    found = review(Request(pod, namespace="team-a"), view, DEFAULTS).findings
    return {each.rule.id: plain_text(each) for each in found if each.rule.id in ("GA416", "GA417")}


def test_container_of_a_request_that_the_claim_lacks_is_warned_about():
    assert findings("frist", template("first", "second")) == {
        "GA416": 'spec.containers[0].resources.claims[0].request: claim "gpu" has no request "frist", so the container gets '
        'no device of it; write "first"'
    }


@pytest.mark.parametrize("request_name", ["first", ""])
def test_request_of_the_claim_and_the_whole_claim_pass(request_name):
    assert findings(request_name, template("first")) == {}


def test_request_that_the_api_server_refuses_is_not_warned_about_too():
    assert findings("first/small", template("first")) == {}


def test_template_that_does_not_exist_is_warned_about_with_a_similar_one():
    assert findings("", template("first", name="gpu")) == {
        "GA417": 'spec.resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate "gpus" does not exist in team-a, so '
        "the pod waits for it; create it, or write resourceClaimTemplateName: gpu"
    }


def test_claim_that_is_a_template_is_told_to_be_one():
    found = findings("", template("first"), NO_CLAIMS, source="resourceClaimName")
    assert found["GA417"].endswith(
        "create it, or write resourceClaimTemplateName: gpus, for a ResourceClaimTemplate has that name"
    )


def test_template_of_an_unknown_kind_is_not_called_missing():
    assert findings("first") == {}
