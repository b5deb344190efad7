"""A forged review creates no template where no webhook is called, and invented contents are bounded."""

import asyncio
import base64
import json
from collections import Counter

import pytest

from policies.admission import review
from policies.admission.webhooks import ENTRIES
from policies.rules.decision import Template
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Configuration, GPUAdmissionPolicy
from webhook.cluster.answers import APIError
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission import Admission
from webhook.server.caller_limits import AT_ONCE, TemplateRates
from webhook.server.metrics import Metrics
from webhook.server.template_keeper import TemplateKeeper, TooManyTemplates
from webhook.server.turns import Deadline

ENABLED = {"gpu-admission.io/dra": "enabled"}


class Cluster:
    """What an API server stores of namespaces and templates, and what it was asked."""

    def __init__(self, **namespaces):
        self.stored = {
            f"/api/v1/namespaces/{name}": self.namespace(name, labels) for name, labels in namespaces.items()
        }
        self.asked = Counter()

    @staticmethod
    def namespace(name, labels):
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    @property
    def templates(self):
        return [path for path in self.stored if "resourceclaimtemplates" in path]

    async def get(self, path, query=None, *, timeout=10.0):  # noqa: ASYNC109 - as APIClient has it
        self.asked["GET"] += 1
        if path not in self.stored:
            raise APIError(404, "NotFound", f"{path} not found")
        return self.stored[path]

    async def post(self, path, body, query=None, *, timeout=10.0):  # noqa: ASYNC109 - as APIClient has it
        self.asked["POST"] += 1
        path = f"{path}/{body['metadata']['name']}"
        if path in self.stored:
            raise APIError(409, "AlreadyExists", f"{path} already exists")
        self.stored[path] = body
        return body


def pod(name="main", gpus=1):
    amounts = {"nvidia.com/gpu": str(gpus)}
    container = {"name": name, "image": "train:1", "resources": {"limits": amounts, "requests": dict(amounts)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": {"containers": [container]}}


async def converted(cluster, namespace, view, settings=DEFAULTS, document=None, metrics=None, rates=None):
    """The answer of `convert-pods` to a review that says it comes from a namespace."""
    metrics = metrics or Metrics()
    keeper = TemplateKeeper(cluster, view, rates=rates, count=metrics.count_template)
    admission = Admission(view, lambda: settings, metrics, templates=keeper)
    question = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "operation": "CREATE",
        "object": document or pod(),
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": question})
    answer = await admission.answer(ENTRIES["convert-pods"], body.encode(), admission.deadline("10s"))
    return json.loads(answer)["response"]


def patched_paths(response):
    return [each["path"] for each in json.loads(base64.b64decode(response.get("patch", "W10=")))]


def shown(cluster):
    return ManifestsView([each for each in cluster.stored.values() if each["kind"] == "Namespace"])


@pytest.mark.parametrize(
    ("namespace", "labels", "placed"),
    [
        ("team-b", {}, []),
        ("team-c", {"gpu-admission.io/dra": "preview"}, []),
        ("kube-system", ENABLED, []),
        ("gpu-admission", ENABLED, []),
        ("gpu-operator", ENABLED, ["/spec/tolerations"]),
        ("nvidia-dra-driver-gpu", ENABLED, ["/spec/tolerations"]),
    ],
)
async def test_review_of_a_namespace_that_the_webhook_is_not_called_for_creates_nothing(namespace, labels, placed):
    cluster = Cluster(**{namespace: labels})
    response = await converted(cluster, namespace, shown(cluster))
    assert patched_paths(response) == placed
    assert {name: response[name] for name in response if not name.startswith("patch")} == {"uid": "1", "allowed": True}
    assert (cluster.templates, cluster.asked["POST"]) == ([], 0)


@pytest.mark.parametrize("namespace", ["nowhere", ""])
async def test_review_of_a_namespace_that_does_not_exist_creates_nothing(namespace):
    cluster, metrics = Cluster(), Metrics()
    assert (await converted(cluster, namespace, ManifestsView(), metrics=metrics))["allowed"]
    assert (cluster.templates, cluster.asked["POST"]) == ([], 0)
    assert metrics.registry.get_sample_value("gpu_admission_templates_total", {"outcome": "unmatched"}) == 1


async def test_review_of_a_namespace_of_the_operator_creates_nothing():
    cluster = Cluster(nvidia=ENABLED)
    settings = GPUAdmissionPolicy(configuration=Configuration(operator_namespaces=("nvidia",)))
    await converted(cluster, "nvidia", shown(cluster), settings)
    assert cluster.asked == {}


async def test_namespace_that_no_cache_shows_yet_converts():
    cluster = Cluster(**{"team-a": ENABLED})
    response = await converted(cluster, "team-a", ManifestsView())
    assert "patch" in response
    assert (len(cluster.templates), cluster.asked) == (1, {"GET": 1, "POST": 1})


async def test_namespace_that_the_cache_shows_is_not_read():
    cluster = Cluster(**{"team-a": ENABLED})
    await converted(cluster, "team-a", shown(cluster))
    assert cluster.asked == {"POST": 1}


def distinct(count, namespace="team-a", begin=0):
    return [
        Template(namespace, f"gpu-{number:016x}", {"spec": {"number": number}})
        for number in range(begin, begin + count)
    ]


async def ensured(keeper, template):
    try:
        await keeper.ensure([template], Deadline.start(lambda: 0.0, "10s"))
    except TooManyTemplates:
        return False
    return True


@pytest.fixture
def cluster():
    return Cluster(**{"team-a": ENABLED})


@pytest.fixture
def keeper(cluster):
    return TemplateKeeper(cluster, shown(cluster), rates=TemplateRates(lambda: 0.0), clock=lambda: 0.0)


async def test_made_up_contents_are_bounded_for_each_namespace(cluster, keeper):
    created = [await ensured(keeper, template) for template in distinct(2 * AT_ONCE)]
    assert created == [True] * AT_ONCE + [False] * AT_ONCE
    assert len(cluster.templates) == AT_ONCE
    assert await ensured(keeper, distinct(1, "team-b")[0])


async def test_calls_at_once_get_no_more(cluster, keeper):
    created = await asyncio.gather(*(ensured(keeper, template) for template in distinct(2 * AT_ONCE)))
    assert sum(created) == len(cluster.templates) == AT_ONCE


async def test_template_that_exists_is_never_refused(cluster, keeper):
    for template in distinct(5, begin=10_000):
        manifest = template.manifest()
        cluster.stored[f"/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates/{template.name}"] = manifest
    for template in distinct(AT_ONCE):
        await ensured(keeper, template)
    assert [await ensured(keeper, template) for template in distinct(5, begin=10_000)] == [True] * 5


async def test_template_that_exists_costs_nothing_of_the_bound(cluster):
    keeper = TemplateKeeper(cluster, ManifestsView(), rates=(rates := TemplateRates(lambda: 0.0)))
    (template,) = distinct(1)
    cluster.stored[f"/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates/{template.name}"] = (
        template.manifest()
    )
    await ensured(keeper, template)
    assert sum(rates.take("team-a") for _ in range(2 * AT_ONCE)) == AT_ONCE


async def test_refusal_of_a_pod_that_has_to_wait_says_how_long(cluster):
    rates, metrics = TemplateRates(lambda: 0.0), Metrics()
    for _ in range(AT_ONCE):
        rates.take("team-a")
    response = await converted(cluster, "team-a", shown(cluster), metrics=metrics, rates=rates)
    request = Request(pod(), namespace="team-a", entry="convert-pods")
    (template,) = review(request, shown(cluster), DEFAULTS).templates
    assert response["status"] == {
        "status": "Failure",
        "code": 429,
        "reason": "TooManyRequests",
        "message": f'the pod needs the ResourceClaimTemplate "{template.name}", which does not exist, and namespace team-a '
        "gets at most 600 new ResourceClaimTemplates at once and 60 more a minute; try again in 1 s; pods with the same "
        "container names and GPU requests share a template",
        "details": {"retryAfterSeconds": 1},
    }
    assert metrics.registry.get_sample_value("gpu_admission_templates_total", {"outcome": "limited"}) == 1
    assert cluster.templates == []
