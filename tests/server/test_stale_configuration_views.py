"""Configuration that follows what it names within milliseconds: the watches may not show it yet, the API server does."""

import logging

import pytest

from tests.configuration.conftest import INSTALLED
from tests.sandbox.faults import FaultySandbox, failing
from webhook.cluster.client import APIClient
from webhook.cluster.manifests import ManifestsView

NOTHING = {"apiVersion": "v1", "kind": "ConfigMapList", "items": []}


def config_map(*keys):
    sharing = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    metadata = {"name": "plugin-config", "namespace": "gpu-operator"}
    data = dict.fromkeys(keys, f"version: v1\n{sharing}\n")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def cluster_policy(default="any"):
    plugin = {"config": {"name": "plugin-config", "default": default}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {
            "operator": {"defaultRuntime": "containerd"},
            "driver": {"enabled": True},
            "toolkit": {"enabled": True},
            "daemonsets": {},
            "dcgm": {"enabled": True},
            "dcgmExporter": {"enabled": True},
            "nodeStatusExporter": {"enabled": False},
            "gfd": {"enabled": True},
            "devicePlugin": plugin,
        },
    }


@pytest.fixture
async def sandbox():
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    yield sandbox
    await sandbox.stop()


@pytest.fixture
async def answer(sandbox, start_webhook, review_of, tmp_path):
    """The answer about a ClusterPolicy to a webhook whose watches show these objects."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    client = await APIClient.connect(str(kubeconfig), environ={})

    async def answer(policy, *shown):
        webhook = await start_webhook(view=ManifestsView([NOTHING, INSTALLED, *shown]), client=client)
        kind = {"group": "nvidia.com", "version": "v1", "kind": "ClusterPolicy"}
        return await webhook.client.ask("configuration", review_of(policy, kind=kind, namespace=""))

    yield answer
    await client.close()


async def test_config_map_that_watches_do_not_show_yet_is_found(sandbox, answer):
    sandbox.create(config_map("any"))
    assert (await answer(cluster_policy()))["allowed"]


async def test_key_that_watches_do_not_show_yet_is_found(sandbox, answer):
    sandbox.create(config_map("any", "t4"))
    assert (await answer(cluster_policy("t4"), config_map("any")))["allowed"]


async def test_config_map_that_does_not_exist_is_refused(answer):
    response = await answer(cluster_policy())
    assert not response["allowed"]
    assert 'ConfigMap "plugin-config" not found in gpu-operator' in response["status"]["message"]


async def test_key_that_the_api_server_does_not_have_either_is_refused(sandbox, answer):
    sandbox.create(config_map("t4"))
    response = await answer(cluster_policy(), config_map("t4"))
    assert '"any" is not a key of ConfigMap "plugin-config"' in response["status"]["message"]


async def test_refusal_stays_and_is_logged_while_the_api_server_fails(sandbox, answer, caplog):
    sandbox.create(config_map("any"))
    sandbox.faults.add(failing(), path="*/configmaps")
    with caplog.at_level(logging.WARNING, "gpu_admission.server"):
        assert not (await answer(cluster_policy()))["allowed"]
    assert "could not be read anew" in caplog.text
