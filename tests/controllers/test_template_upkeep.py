"""The leader repairs templates and sweeps them."""

import copy
import threading
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from policies.admission.reviews import missing_templates, needed_by_workloads
from policies.devices.pod_groups import POD_GROUP_VERSIONS
from policies.kubernetes.names import MANAGED, RECORD, UNUSED_SINCE
from policies.rules.settings import DEFAULTS
from webhook.cluster.clockwork import Clockwork
from webhook.controllers import template_upkeep
from webhook.controllers.metrics import ControllerMetrics, IncompleteRound
from webhook.controllers.template_upkeep import TemplateRepair, TemplateSweep
from webhook.server.template_keeper import TemplateKeeper

PODS = "/api/v1/namespaces/team-a/pods"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates"
DEPLOYMENTS = "/apis/apps/v1/namespaces/team-a/deployments"
OLD = "2026-01-01T00:00:00Z"


@pytest.fixture
def metrics():
    return ControllerMetrics(CollectorRegistry())


@pytest.fixture
def repair_of(api, metrics):
    def make(view):
        return TemplateRepair(TemplateKeeper(api.client, view), view, lambda: DEFAULTS, metrics)

    return make


@pytest.fixture
def sweep_of(api, metrics, midnight):
    def make(view):
        clockwork = Clockwork(now=lambda: midnight)
        return TemplateSweep(api.client, view, lambda: DEFAULTS, metrics, timedelta(hours=1), clockwork=clockwork)

    return make


@pytest.fixture
def converted(gpu_pod, convert):
    """A converted pod and its template."""
    return convert(gpu_pod())


@pytest.fixture
def stored_template(api, converted):
    """Store the template of the converted pod, unused since `since`; what the API server has, and what a view shows."""

    def store(since=None, **metadata):
        document = copy.deepcopy(converted[1].manifest())
        document["metadata"]["annotations"] = {} if since is None else {UNUSED_SINCE: since}
        document["metadata"].update(metadata)
        return api.put(f"{TEMPLATES}/{document['metadata']['name']}", document)

    return store


def changed(document, **parts):
    """A copy with other parts of metadata, spec or status."""
    copied = copy.deepcopy(document)
    for part, values in parts.items():
        copied.setdefault(part, {}).update(values)
    return copied


async def test_missing_template_is_made_again(api, repair_of, view_of, converted, caplog):
    pod, template = converted
    await repair_of(view_of(pod)).round()
    assert api.objects[f"{TEMPLATES}/{template.name}"]["spec"] == template.spec
    assert "a ResourceClaimTemplate that pods wait for was missing and is created again" in caplog.messages


@pytest.mark.parametrize("step", ["missing_templates", "used_by_pods", "next_steps"])
async def test_what_takes_long_is_computed_aside(monkeypatch, repair_of, sweep_of, view_of, converted, step):
    threads, compute = [], getattr(template_upkeep, step)

    def noted(*arguments):
        threads.append(threading.current_thread() is threading.main_thread())
        return compute(*arguments)

    monkeypatch.setattr(template_upkeep, step, noted)
    view = view_of(converted[0], converted[1].manifest())
    await (repair_of if step == "missing_templates" else sweep_of)(view).round()
    assert threads == [False]


async def test_template_that_exists_is_left_alone(api, repair_of, view_of, converted):
    pod, template = converted
    await repair_of(view_of(pod, template.manifest())).round()
    assert api.requests == []


async def test_nothing_is_repaired_where_no_pods_are_known(api, repair_of, view_of):
    with pytest.raises(IncompleteRound, match=r"^Pods are unknown, so no template is changed$"):
        await repair_of(view_of(kinds=("Namespace",))).round()
    assert api.requests == []


async def test_nothing_is_repaired_where_no_templates_are_known(api, repair_of, view_of, converted):
    await repair_of(view_of(converted[0], kinds=("Pod", "Namespace"))).round()
    assert api.requests == []


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {}}},
        {"metadata": {"annotations": {}}},
        {
            "metadata": {
                "annotations": {
                    RECORD: '{"containers":[{"name":"main","kind":"container","resources":{"nvidia.com/gpu":8}}]}'
                }
            }
        },
        {"metadata": {"namespace": "team-b"}},
        {"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}},
        {"spec": {"nodeName": "node-1"}},
        {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu-0123456789abcdef"}]}},
        {"status": {"phase": "Failed"}},
    ],
    ids=["no mark", "no record", "other record", "no opt-in", "deleted", "scheduled", "other template", "ended"],
)
def test_nothing_is_made_for_pods_that_conversion_would_not_make_it_for(view_of, converted, change):
    view = view_of()
    pod = changed(converted[0], **change)
    assert missing_templates([converted[0]], view, DEFAULTS) == (converted[1],)
    assert missing_templates([pod], view, DEFAULTS) == ()


def test_template_of_many_pods_is_missing_once(view_of, converted):
    assert missing_templates([converted[0]] * 3, view_of(), DEFAULTS) == (converted[1],)


def test_marked_pod_that_was_never_converted_gets_nothing(view_of, gpu_pod):
    pod = gpu_pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu-0123456789abcdef"}])
    pod["metadata"]["labels"] = {MANAGED: "true"}
    assert missing_templates([pod], view_of(), DEFAULTS) == ()


async def test_template_that_cannot_be_made_does_not_stop_the_others(api, repair_of, view_of, gpu_pod, convert):
    pods = [convert(gpu_pod(gpus=gpus, name=f"train-{gpus}")) for gpus in (1, 2)]
    api.fail("POST", 403, "Forbidden", "exceeded quota")
    with pytest.raises(IncompleteRound) as raised:
        await repair_of(view_of(*(pod for pod, _ in pods))).round()
    assert str(raised.value) == (
        f"1 of 2 missing ResourceClaimTemplates could not be created again: team-a/{pods[0][1].name}: exceeded quota"
    )
    assert list(api.objects) == [f"{TEMPLATES}/{pods[1][1].name}"]


async def test_unused_template_is_marked(api, sweep_of, view_of, stored_template):
    stored = stored_template()
    await sweep_of(view_of(stored)).round()
    (template,) = api.objects.values()
    assert template["metadata"]["annotations"] == {UNUSED_SINCE: "2027-01-01T00:00:00Z"}


async def test_template_in_use_is_unmarked(api, sweep_of, view_of, stored_template, converted):
    stored = stored_template(OLD)
    await sweep_of(view_of(stored, converted[0])).round()
    (template,) = api.objects.values()
    assert template["metadata"]["annotations"] == {}


async def test_template_unused_for_long_is_deleted_with_preconditions(api, sweep_of, view_of, stored_template):
    stored = stored_template(OLD)
    await sweep_of(view_of(stored)).round()
    assert api.objects == {}
    ((_, path, body),) = [request for request in api.requests if request[0] == "DELETE"]
    assert path == f"{TEMPLATES}/{stored['metadata']['name']}"
    assert body["preconditions"] == {key: stored["metadata"][key] for key in ("uid", "resourceVersion")}


async def test_pod_that_the_view_does_not_show_yet_keeps_its_template(
    api, sweep_of, view_of, stored_template, converted
):
    stored = stored_template(OLD)
    api.put(f"{PODS}/train", converted[0])
    await sweep_of(view_of(stored)).round()
    assert api.objects[f"{TEMPLATES}/{converted[1].name}"]["metadata"]["annotations"] == {}


async def test_pods_are_read_page_by_page(api, sweep_of, view_of, stored_template, converted, monkeypatch):
    monkeypatch.setattr("webhook.cluster.lists.PAGE", 1)
    stored = stored_template(OLD)
    for name in ("a", "b"):
        api.put(f"{PODS}/{name}", {"metadata": {"name": name, "namespace": "team-a"}, "spec": {}})
    api.put(f"{PODS}/train", converted[0])
    await sweep_of(view_of(stored)).round()
    assert api.sent("DELETE") == []


def deployment(pod, **metadata):
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "team-a", **metadata},
        "spec": {"replicas": 0, "template": template},
    }


async def test_workload_that_will_be_converted_keeps_its_template(api, sweep_of, view_of, stored_template, gpu_pod):
    stored = stored_template(OLD)
    api.put(f"{DEPLOYMENTS}/train", deployment(gpu_pod()))
    await sweep_of(view_of(stored)).round()
    assert api.sent("DELETE") == []


async def test_missing_workload_kinds_keep_no_template(api, sweep_of, view_of, stored_template):
    stored = stored_template(OLD)
    api.absent.add("/apis/ray.io/v1/namespaces/team-a/rayclusters")
    await sweep_of(view_of(stored)).round()
    assert api.objects == {}


async def test_nothing_is_deleted_where_workloads_cannot_be_read(api, sweep_of, view_of, stored_template):
    stored = stored_template(OLD)
    api.fail("GET", 403, "Forbidden", "pods is forbidden")
    with pytest.raises(IncompleteRound) as raised:
        await sweep_of(view_of(stored)).round()
    assert str(raised.value) == "some ResourceClaimTemplates could not be swept: namespace team-a: pods is forbidden"
    assert api.sent("DELETE") == []


async def test_template_that_is_needed_again_is_not_deleted(api, sweep_of, view_of, stored_template):
    seen = copy.deepcopy(stored_template(OLD))
    stored_template()
    await sweep_of(view_of(seen)).round()
    (template,) = api.objects.values()
    assert template["metadata"]["annotations"] == {UNUSED_SINCE: "2027-01-01T00:00:00Z"}


@pytest.mark.parametrize(("method", "since"), [("DELETE", OLD), ("PATCH", None)])
async def test_template_that_changes_under_our_hands_is_left_for_the_next_round(
    api, sweep_of, view_of, stored_template, method, since
):
    stored = stored_template(since)
    api.fail(method, 409, "Conflict", "the object has been modified")
    await sweep_of(view_of(stored)).round()
    assert list(api.objects.values()) == [stored]


async def test_template_that_is_too_full_for_a_mark_is_left(api, sweep_of, view_of, stored_template, caplog):
    stored = stored_template()
    api.fail("PATCH", 422, "Invalid", "metadata.annotations: Too long")
    with caplog.at_level("INFO"):
        await sweep_of(view_of(stored)).round()
    assert list(api.objects.values()) == [stored]
    assert "left a ResourceClaimTemplate that cannot be marked" in caplog.text


@pytest.mark.parametrize("code", [403, 500])
async def test_template_that_may_not_be_marked_makes_the_round_incomplete(
    api, sweep_of, view_of, stored_template, code
):
    api.fail("PATCH", code, "Forbidden", "it is refused")
    with pytest.raises(IncompleteRound):
        await sweep_of(view_of(stored_template())).round()


async def test_template_that_was_replaced_by_another_is_not_touched(api, sweep_of, view_of, stored_template):
    seen = copy.deepcopy(stored_template(OLD))
    path = f"{TEMPLATES}/{seen['metadata']['name']}"
    replaced = api.put(path, {**seen, "spec": {"spec": {}}})
    await sweep_of(view_of(seen)).round()
    assert api.objects == {path: replaced}
    assert not {"DELETE", "PATCH"} & {method for method, _, _ in api.requests}


async def test_foreign_templates_are_not_even_requested(api, sweep_of, view_of, stored_template):
    await sweep_of(view_of(stored_template(OLD, labels={}))).round()
    assert api.requests == []


@pytest.mark.parametrize("version", POD_GROUP_VERSIONS)
async def test_template_of_a_pod_group_is_kept(api, sweep_of, view_of, stored_template, version):
    """Its claim is made anew from the template if it is lost; in the view, and where only the API server shows it."""
    stored = stored_template()
    name = stored["metadata"]["name"]
    group = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "team-a"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]},
    }
    await sweep_of(view_of(stored, group)).round()
    assert api.requests == []
    old = stored_template(OLD)
    folder = "/apis/scheduling.k8s.io/{}/namespaces/team-a/podgroups"
    api.put(f"{folder.format(version)}/ring", group)
    api.absent |= {folder.format(each) for each in POD_GROUP_VERSIONS if each != version}
    await sweep_of(view_of(old)).round()
    assert api.objects[f"{TEMPLATES}/{name}"]["metadata"]["annotations"] == {}


@pytest.mark.parametrize("kinds", [("ResourceClaimTemplate",), ("Pod",), ("Pod", "ResourceClaimTemplate")])
async def test_nothing_is_swept_on_guesses(api, sweep_of, view_of, kinds):
    with pytest.raises(IncompleteRound, match=r"^(Pod|PodGroup|ResourceClaimTemplate)s are unknown, "):
        await sweep_of(view_of(kinds=kinds)).round()
    assert api.requests == []


def test_grace_shorter_than_memories_is_refused(api, view_of, metrics):
    with pytest.raises(ValueError, match=r"^the grace must be 120 seconds or more, and is 0:01:00$"):
        TemplateSweep(api.client, view_of(), lambda: DEFAULTS, metrics, timedelta(minutes=1))


def test_workloads_need_what_conversion_would_make(view_of, gpu_pod, converted):
    needed = needed_by_workloads([deployment(gpu_pod())], view_of(), DEFAULTS)
    assert needed == {("team-a", converted[1].name)}


def test_workloads_need_what_they_refer_to(view_of):
    pod = {
        "spec": {
            "containers": [{"name": "a"}],
            "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "theirs"}],
        }
    }
    assert needed_by_workloads([deployment(pod)], view_of(), DEFAULTS) == {("team-a", "theirs")}


def test_workloads_that_belong_to_others_need_nothing(view_of, gpu_pod):
    owned = deployment(gpu_pod(), ownerReferences=[{"controller": True}])
    assert needed_by_workloads([owned], view_of(), DEFAULTS) == frozenset()


def test_workloads_where_nothing_is_converted_need_nothing(view_of, gpu_pod):
    assert needed_by_workloads([deployment(gpu_pod(), namespace="team-b")], view_of(), DEFAULTS) == frozenset()
