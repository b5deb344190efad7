"""Fields that an API server refuses, in reviews of files; a webhook never sees such an object."""

import pytest

from policies.admission import review_object
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.kubernetes.refused_pods import GPU, of_container, pod
from tests.kubernetes.refused_workloads import ACCEPTED, REFUSED
from webhook.cluster.manifests import ManifestsView

LABELS = {"app": "train"}


def deployment(template=None, selector=LABELS, **spec):
    """A Deployment whose pods request a GPU."""
    template = template or pod(GPU)
    template = {"metadata": {"labels": LABELS}, "spec": template["spec"] | spec}
    fields = {"template": template, **({} if selector is None else {"selector": {"matchLabels": selector}})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"}, "spec": fields}


def refused(document, entry=""):
    """Rules and paths of what refuses the creation of an object in a namespace that does not convert."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    group = document["apiVersion"].rpartition("/")[0]
    request = Request(document, group=group, kind=document["kind"], namespace="team-a", entry=entry)
    answer = review_object(request, ManifestsView([namespace]), DEFAULTS)
    return [f"{each.rule} {each.path}" for refusal in answer.refusals for each in refusal.findings]


def test_pod_with_limits_at_the_wrong_place_is_refused():
    assert refused(of_container(**GPU)) == ["GA711 spec.containers[0].limits"]


def test_field_of_a_pod_template_is_named_where_the_workload_has_it():
    assert refused(deployment(of_container(**GPU))) == ["GA711 spec.template.spec.containers[0].limits"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_workload_that_the_api_server_accepts_passes(name):
    assert refused(ACCEPTED[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_workload_that_the_api_server_refuses_is_refused(name):
    workload, path = REFUSED[name]
    assert refused(workload) == [f"GA711 {path}"]


def test_pod_that_the_api_server_accepts_passes():
    assert refused(pod(GPU)) == []


def test_workload_without_gpus_is_left_to_other_tools():
    assert refused(deployment(pod(), selector=None)) == []
