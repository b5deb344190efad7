"""Answers of the entry `convert-pods` while its template has to be created first."""

import asyncio
import base64
import json

import pytest

from policies.admission.webhooks import ENTRIES
from policies.rules.settings import DEFAULTS, parse_settings
from webhook.server.admission import Admission
from webhook.server.metrics import Metrics
from webhook.server.template_keeper import TemplateKeeper

COLLECTION = "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates"

_RBAC = (
    'resourceclaimtemplates.resource.k8s.io is forbidden: User "system:serviceaccount:gpu-admission:webhook" cannot '
    'create resource "resourceclaimtemplates" in API group "resource.k8s.io" in the namespace "team-a"'
)
_QUOTA = (
    'resourceclaimtemplates.resource.k8s.io "x" is forbidden: exceeded quota: few, requested: '
    "count/resourceclaimtemplates.resource.k8s.io=1, used: count/resourceclaimtemplates.resource.k8s.io=3, limited: "
    "count/resourceclaimtemplates.resource.k8s.io=3"
)
_TERMINATING = (
    'resourceclaimtemplates.resource.k8s.io "x" is forbidden: unable to create new content in namespace team-a because '
    "it is being terminated"
)


@pytest.fixture
def review_body():
    def make(pod, **request):
        question = {
            "uid": "uid-1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": pod["metadata"]["namespace"],
            "operation": "CREATE",
            "object": pod,
            **request,
        }
        return json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": question}
        ).encode()

    return make


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def ask(api, view_of, review_body, metrics):
    """Ask `convert-pods` about a pod."""

    async def ask(pod, seconds="10s", settings=DEFAULTS, **request):
        view = view_of(kinds=("Namespace",))
        keeper = TemplateKeeper(api.client, view, count=metrics.count_template)
        admission = Admission(view, lambda: settings, metrics, templates=keeper)
        entry = ENTRIES["convert-pods"]
        answer = await admission.answer(entry, review_body(pod, **request), admission.deadline(seconds))
        return json.loads(answer)["response"]

    return ask


def sample(metrics, name, **labels):
    return metrics.registry.get_sample_value(f"gpu_admission_{name}", labels)


async def test_template_exists_when_the_answer_is_there(api, ask, gpu_pod, convert, metrics):
    response = await ask(gpu_pod())
    _, template = convert(gpu_pod())
    assert response["allowed"] is True
    assert "patch" in response
    assert list(api.objects) == [f"{COLLECTION}/{template.name}"]
    assert sample(metrics, "templates_total", outcome="created") == 1


async def test_dry_run_creates_nothing(api, ask, gpu_pod):
    response = await ask(gpu_pod(), dryRun=True)
    assert "patch" in response
    assert api.requests == []


async def test_refused_pod_creates_nothing(api, ask, gpu_pod):
    assert (await ask(gpu_pod("0.5")))["allowed"] is False
    assert api.requests == []


async def test_pod_without_gpus_creates_nothing(api, ask):
    pod = {"metadata": {"namespace": "team-a"}, "spec": {"containers": [{"name": "main"}]}}
    assert await ask(pod) == {"uid": "uid-1", "allowed": True}
    assert api.requests == []


async def test_template_with_other_content_refuses_the_pod(api, ask, gpu_pod, convert):
    _, template = convert(gpu_pod())
    api.put(f"{COLLECTION}/{template.name}", {**template.manifest(), "spec": {"spec": {}}})
    response = await ask(gpu_pod())
    assert response["allowed"] is False
    assert response["status"]["message"] == (
        f"Run kubectl -n team-a delete resourceclaimtemplate {template.name}; it is made again when a pod needs it: the "
        "ResourceClaimTemplate of that name has another spec than the pod needs; spec.resourceClaims [GA322]"
    )


async def test_template_with_other_content_leaves_the_pod_if_settings_only_warn(api, ask, gpu_pod, convert):
    _, template = convert(gpu_pod())
    api.put(f"{COLLECTION}/{template.name}", {**template.manifest(), "spec": {"spec": {}}})
    document = {
        "kind": "GPUAdmissionPolicy",
        "apiVersion": "gpu-admission.io/v1alpha1",
        "metadata": {"name": "default"},
    }
    settings = parse_settings({**document, "spec": {"rules": [{"rule": "GA322", "severity": "warn"}]}})
    response = await ask(gpu_pod(), settings=settings)
    assert response["allowed"] is True
    assert [each["path"] for each in json.loads(base64.b64decode(response["patch"]))] == ["/spec/tolerations"]
    assert "so the pod is not converted" in " ".join(line.strip() for line in response["warnings"])


@pytest.mark.parametrize(
    "said",
    [_RBAC, _QUOTA, _TERMINATING],
    ids=["rbac", "quota", "terminating"],
)
async def test_refusal_of_the_api_server_is_reported_in_its_words(api, ask, gpu_pod, convert, metrics, said):
    api.fail("POST", 403, "Forbidden", said)
    _, template = convert(gpu_pod())
    response = await ask(gpu_pod())
    assert response["allowed"] is False
    assert response["status"] == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": f'the pod needs the ResourceClaimTemplate "{template.name}", and the API server does not let the '
        f"webhook create it: {said}; try again when that is fixed, or ask your administrator to fix it",
    }
    assert sample(metrics, "conversions_total", outcome="refused") == 1
    assert sample(metrics, "requests_total", webhook="convert-pods", verdict="denied") == 1


async def test_api_server_that_wants_fewer_requests_has_the_caller_come_again(api, ask, gpu_pod):
    api.fail("POST", 429, "TooManyRequests", "Too many requests, please try again later.", {"Retry-After": "3"})
    status = (await ask(gpu_pod()))["status"]
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"] == {"retryAfterSeconds": 3}
    assert status["message"].endswith(
        "the API server has no time to create it: Too many requests, please try again later; try again in 3 s"
    )


@pytest.mark.parametrize("status", [500, 401, 0], ids=["internal error", "our credentials", "no answer"])
async def test_failure_refuses_under_an_id(api, ask, gpu_pod, caplog, status):
    api.fail("POST", status, "InternalError", "etcdserver: no leader", times=3)
    response = await ask(gpu_pod())
    (failure,) = [record for record in caplog.records if record.levelname == "ERROR"]
    identifier = failure.fields["failure"]
    assert response["status"]["code"] == 500
    assert f"the id {identifier}, which" in response["status"]["message"]
    assert "etcdserver" not in response["status"]["message"]
    assert failure.getMessage().startswith("no decision: the webhook failed; the API server: ")
    assert failure.exc_info is None


async def test_api_server_that_takes_too_long_refuses_in_time(api, ask, gpu_pod):
    api.gate = asyncio.Event()
    response = await ask(gpu_pod(), seconds="100ms")
    assert response["status"]["code"] == 500
    assert response["status"]["message"].startswith("no decision: the webhook ran out of time; ")


async def test_without_a_keeper_nothing_is_created(view_of, review_body, gpu_pod, metrics):
    admission = Admission(view_of(), lambda: DEFAULTS, metrics)
    answer = await admission.answer(ENTRIES["convert-pods"], review_body(gpu_pod()), admission.deadline("10s"))
    assert "patch" in json.loads(answer)["response"]
