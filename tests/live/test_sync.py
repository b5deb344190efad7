"""A sync with an API server over real sockets: when it is ready, and which kinds are missing."""

import asyncio
import gc
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from policies.kubernetes.view import UNKNOWN
from webhook.cluster.kind_reads import parse_version
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import TRUSTED_SECONDS
from webhook.cluster.sync import FRESH_SECONDS, cache_notes, reason_not_ready

DRA = [RESOURCES[kind].path() for kind in ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate")]
OPERATORS = [RESOURCES[kind].path() for kind in ("ClusterPolicy", "NVIDIADriver", "GPUCluster")]
CONFIG_MAPS = RESOURCES["ConfigMap"].path("gpu-operator")
NODES = RESOURCES["Node"].path()


async def started(sync):
    sync.start(["gpu-operator"])
    await asyncio.wait_for(sync.wait_for_first(), 60)
    return sync


async def until(condition):
    """Let the loop turn until something holds; the time limit of tests ends what never does."""
    while not condition():  # noqa: ASYNC110 - a sync reports its first completeness only
        await asyncio.sleep(0)


def everything_but(cluster, *kinds):
    for kind in {each.kind for each in cluster.stores} - set(kinds):
        cluster.fill(kind)


async def test_sync_is_ready_once_everything_was_listed(api, sync):
    api.objects[NODES] = [{"metadata": {"name": "a", "resourceVersion": "3"}}]
    assert (await started(sync)).reason() == ""
    assert sync.view.get("Node", "a")["kind"] == "Node"
    assert sync.view.get("Node", "b") is None
    assert sync.notes() == []


async def test_sync_is_not_ready_before(sync):
    assert sync.reason() == "nothing was listed yet"
    sync.start(["gpu-operator"])
    assert sync.reason().startswith("not listed yet: nodes, namespaces, limitranges and ")


async def test_what_cannot_be_listed_keeps_the_sync_from_being_ready(api, sync):
    api.broken.add(NODES)
    sync.start(["gpu-operator"])
    await until(lambda: sync.reason().startswith("not listed yet: nodes: GET /api/v1/nodes"))


async def impatient(sync):
    """Make a minute of waiting a moment."""
    sync._pace = replace(sync._pace, patience=0.0)
    sync.start(["gpu-operator"])


async def test_one_kind_that_cannot_be_listed_is_gone_on_without(api, sync):
    api.broken.add(NODES)
    await impatient(sync)
    await asyncio.wait_for(sync.wait_for_first(), 60)
    assert sync.reason() == ""
    assert sync.view.list("Node") is UNKNOWN
    assert sync.view.list("Pod") == ()
    assert sync.notes()[0].startswith("treated as unknown, because it cannot be listed: nodes: GET /api/v1/nodes")


async def test_nothing_is_gone_on_without_namespaces(api, sync):
    api.broken.add(RESOURCES["Namespace"].path())
    await impatient(sync)
    await until(lambda: not any(cache.is_awaited for cache in sync.caches))
    sync._complete_if_listed()
    assert sync.reason().startswith("not listed yet: namespaces: GET /api/v1/namespaces")


async def test_kind_that_cannot_be_listed_is_waited_for_a_minute(api, sync):
    api.broken.add(NODES)
    sync.start(["gpu-operator"])
    await until(lambda: not any(cache.is_awaited for cache in sync.caches))
    sync._complete_if_listed()
    assert sync.reason().startswith("not listed yet: nodes: ")


@pytest.mark.parametrize("missing", ["forbidden", "absent"])
async def test_unreadable_kinds_do_not_prevent_readiness(api, sync, missing):
    getattr(api, missing).update([*DRA, *OPERATORS, CONFIG_MAPS])
    assert (await started(sync)).reason() == ""


async def test_version_reaches_the_view(sync):
    await started(sync)
    await until(lambda: sync.view.server_version() is not UNKNOWN)
    assert sync.view.server_version() == (1, 36)


async def test_other_namespaces_of_the_operator_are_looked_into(api, sync):
    config = {"metadata": {"name": "plugin", "namespace": "gpus", "resourceVersion": "3"}}
    api.objects[RESOURCES["ConfigMap"].path("gpus")] = [config]
    await started(sync)
    assert sync.view.get("ConfigMap", "plugin", "gpus") is UNKNOWN
    nodes = sync.view.list("Node")
    sync.watch_operators(["gpus"])
    await until(lambda: sync.view.get("ConfigMap", "plugin", "gpus") is not UNKNOWN)
    assert sync.view.get("ConfigMap", "plugin", "gpu-operator") is UNKNOWN
    assert sync.view.list("Node") is nodes
    assert sync.reason() == ""


async def test_kind_is_fresh_while_the_api_server_is_heard(api, sync, clock):
    api.forbidden.add(CONFIG_MAPS)
    assert not sync.is_fresh("Node")
    await started(sync)
    assert sync.is_fresh("Node")
    assert not sync.is_fresh("ConfigMap")
    assert sync.is_fresh("ClusterGPUQuota")  # which is not served
    clock.now += FRESH_SECONDS
    assert not sync.is_fresh("Node")


async def test_collector_runs_again_once_the_cluster_was_read(sync):
    sync.start(["gpu-operator"])
    assert not gc.isenabled()
    await sync.wait_for_first()
    assert gc.isenabled()


async def test_collector_runs_again_when_the_sync_is_closed(sync):
    sync.start(["gpu-operator"])
    await sync.close()
    assert gc.isenabled()


async def test_metrics_tell_what_is_kept_and_how_fresh_it_is(api, sync):
    api.objects[NODES] = [{"metadata": {"name": name, "resourceVersion": "3"}} for name in "abc"]
    api.forbidden.add(CONFIG_MAPS)
    registry = CollectorRegistry()
    registry.register((await started(sync)).metrics)
    page = generate_latest(registry).decode()
    assert 'gpu_admission_cache_objects{namespace="",resource="nodes"} 3.0' in page
    assert 'gpu_admission_cache_lists_total{namespace="",resource="nodes"} 1.0' in page
    assert 'gpu_admission_cache_state{namespace="",resource="nodes",state="synced"} 1.0' in page
    assert 'gpu_admission_cache_state{namespace="",resource="nodes",state="stale"} 0.0' in page
    assert 'gpu_admission_cache_state{namespace="gpu-operator",resource="configmaps",state="forbidden"} 1.0' in page
    assert 'gpu_admission_cache_contact_age_seconds{namespace="",resource="nodes"}' in page
    assert 'gpu_admission_cache_contact_age_seconds{namespace="gpu-operator",resource="configmaps"}' not in page


def test_reason_names_what_is_waited_for_and_why(cluster):
    everything_but(cluster, "Node", "Pod")
    cluster.store("Node").mark("stale", "the connection was refused")
    cluster.store("Pod").mark("stale", "the connection was refused")
    assert reason_not_ready(list(cluster.stores.items())) == "not listed yet: nodes, pods: the connection was refused"


def test_note_says_that_dra_is_missing(cluster, clock):
    everything_but(cluster)
    for kind in ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"):
        cluster.store(kind).mark("absent", "404")
    notes = cache_notes(list(cluster.stores.items()), cluster.view)
    assert notes == ["no DRA API: the API server does not serve resource.k8s.io/v1, so devices are unknown"]
    cluster.view.set_server_version((1, 36))
    notes = cache_notes(list(cluster.stores.items()), cluster.view)
    assert notes == ["no DRA API: the API server does not serve resource.k8s.io/v1, so there are no devices"]


def test_note_says_that_the_operator_is_not_installed(cluster, clock):
    everything_but(cluster)
    for kind in ("ClusterPolicy", "NVIDIADriver", "GPUCluster"):
        cluster.store(kind).mark("absent", "404")
    (note,) = cache_notes(list(cluster.stores.items()), cluster.view)
    names = "clusterpolicies.nvidia.com, nvidiadrivers.nvidia.com, gpuclusters.nvidia.com"
    assert note == f"not served: {names}; the GPU Operator is not installed"


def test_note_of_one_kind_that_is_not_served_says_nothing_of_its_group(cluster, clock):
    everything_but(cluster)
    cluster.store("GPUCluster").mark("absent", "404")
    assert cache_notes(list(cluster.stores.items()), cluster.view) == ["not served: gpuclusters.nvidia.com"]


def test_groups_that_were_never_served_and_that_no_pod_names_are_no_note(cluster):
    everything_but(cluster, "PodGroup")
    cluster.store("PodGroup").mark("absent", "404")
    assert cache_notes(list(cluster.stores.items()), cluster.view) == []


_CHARGED = "claims that their pods may share are charged when they are made"
_SERVE = "serve one of these versions, or update gpu-admission"


def test_note_says_that_groups_are_no_longer_served(cluster):
    everything_but(cluster)
    cluster.store("PodGroup").mark("absent", "404")
    (note,) = cache_notes(list(cluster.stores.items()), cluster.view)
    where = "podgroups.scheduling.k8s.io in v1beta1, v1alpha3 or v1alpha2"
    assert note == f"no longer served: {where}; {_CHARGED}; {_SERVE}"


def test_note_says_that_taint_rules_are_no_longer_served(cluster):
    everything_but(cluster)
    cluster.store("DeviceTaintRule").mark("absent", "404")
    (note,) = cache_notes(list(cluster.stores.items()), cluster.view)
    assert note == f"no longer served: devicetaintrules.resource.k8s.io in v1, v1beta2 or v1alpha3; {_SERVE}"


def test_note_counts_the_pods_that_name_groups_which_are_not_served(cluster):
    everything_but(cluster, "PodGroup")
    cluster.store("PodGroup").mark("absent", "404")
    for number in range(2):
        spec = {
            "schedulingGroup": {"podGroupName": "ring"},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "containers": [{"name": "main"}],
        }
        cluster.put("Pod", {"metadata": {"name": f"train-{number}", "namespace": "team-a"}, "spec": spec})
    (note,) = cache_notes(list(cluster.stores.items()), cluster.view)
    where = "podgroups.scheduling.k8s.io in v1beta1, v1alpha3 or v1alpha2"
    assert note == f"not served: {where}, and 2 pods name one; {_CHARGED}; {_SERVE}"


def test_note_names_what_is_forbidden(cluster, clock):
    everything_but(cluster)
    cluster.fill("Namespace", *({"metadata": {"name": name}} for name in ("gpu-operator", "nvidia-gpu-operator")))
    cluster.store("ConfigMap", "gpu-operator").mark("forbidden", "RBAC")
    cluster.store("Node").mark("forbidden", "RBAC")
    assert cache_notes(list(cluster.stores.items()), cluster.view) == [
        "forbidden: list and watch nodes, configmaps in gpu-operator; rules treat them as unknown until RBAC allows it"
    ]


def test_note_says_nothing_of_a_namespace_that_does_not_exist(cluster, clock):
    everything_but(cluster)
    cluster.store("ConfigMap", "gpu-operator").mark("forbidden", "RBAC")
    assert cache_notes(list(cluster.stores.items()), cluster.view) == []


def test_note_says_that_an_open_watch_is_silent(cluster, clock):
    everything_but(cluster)
    clock.now += FRESH_SECONDS
    everything_but(cluster, "Node")
    assert cache_notes(list(cluster.stores.items()), cluster.view) == [
        "out of date for 90 s, still used: nodes: the watch is open, and the API server sends nothing"
    ]


def test_note_says_since_when_a_kind_is_out_of_date(cluster, clock):
    everything_but(cluster)
    cluster.store("Node").mark("stale", "the connection broke")
    clock.now += 30
    assert cache_notes(list(cluster.stores.items()), cluster.view) == [
        "out of date for 30 s, still used: nodes: the connection broke"
    ]
    clock.now += TRUSTED_SECONDS
    everything_but(cluster, "Node")
    assert cache_notes(list(cluster.stores.items()), cluster.view) == [
        "out of date for 150 s, treated as unknown: nodes: the connection broke"
    ]


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ({"major": "1", "minor": "36"}, (1, 36)),
        ({"major": "1", "minor": "34+"}, (1, 34)),
        ({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "34"}, (1, 34)),
        ({"major": "", "minor": ""}, UNKNOWN),
        ([], UNKNOWN),
    ],
    ids=["plain", "managed", "emulated", "empty", "something else"],
)
def test_version_is_read(answer, version):
    assert parse_version(answer) == version
