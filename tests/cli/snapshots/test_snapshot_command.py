"""`gpu-admission snapshot`: what it reads, what it writes, and how it ends."""

from __future__ import annotations

import json

import pytest

from testbed import libyaml
from tests.cli.snapshots.conftest import SECRET
from tests.sandbox import faults


def listed(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def head_of(folder):
    return libyaml.load((folder / "snapshot.yaml").read_text())


def names_in(folder, name):
    return [each["metadata"]["name"] for each in listed(folder, name)["items"]]


async def test_snapshot_says_how_much_it_wrote(command, sandbox, tmp_path):
    done = await command("snapshot", "--kubeconfig", sandbox.file, tmp_path / "snapshot")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"42 objects of 8 kinds written to {tmp_path / 'snapshot'}\n"


async def test_cluster_is_only_read(taken, sandbox):
    await taken()
    assert {request.verb for request in sandbox.requests} == {"list", "get"}


async def test_secrets_are_not_requested(taken, sandbox):
    await taken()
    assert "secrets" not in {request.resource for request in sandbox.requests}


async def test_no_secret_is_written(taken):
    for file in (await taken()).iterdir():
        assert SECRET not in file.read_text(), file.name


async def test_kind_that_is_not_installed_is_an_empty_list(taken):
    folder = await taken()
    assert listed(folder, "clusterpolicies.nvidia.com") == {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicyList",
        "items": [],
    }


async def test_head_has_the_version_and_the_number_of_objects(taken, sandbox):
    head = head_of(await taken())
    assert head["serverVersion"]["gitVersion"] == "v1.36.0+sandbox"
    said = head["snapshot"]
    assert (said["server"], said["namespace"], said["namesReplaced"], said["unknown"]) == (sandbox.url, "", False, [])
    assert said["files"]["nodes.json"] == 9


async def test_config_maps_keep_their_content_only_if_they_configure_gpus(taken):
    items = listed(await taken(), "configmaps")["items"]
    assert {each["metadata"]["name"]: each["data"] for each in items} == {
        "licence": {"token": ""},
        "time-slicing-config": {"any": items[1]["data"]["any"]},
    }


@pytest.mark.usefixtures("operator_elsewhere")
async def test_config_maps_are_read_where_the_operator_runs(taken):
    items = listed(await taken(), "configmaps")["items"]
    assert ("acme-nvidia", "plugin") in [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in items]


async def test_forbidden_kind_is_named_and_not_written(command, sandbox, tmp_path):
    sandbox.faults.add(faults.failing(403, "no"), path="*/nodes")
    done = await command("snapshot", "--kubeconfig", sandbox.file, tmp_path / "snapshot")
    assert (done.returncode, done.stderr) == (0, "Warning: forbidden: list nodes\n")
    assert done.stdout.endswith("; unknown: 1 kind\n")
    assert not (tmp_path / "snapshot" / "nodes.json").exists()
    assert head_of(tmp_path / "snapshot")["snapshot"]["unknown"] == ["forbidden: list nodes"]


async def test_kind_that_the_api_server_fails_to_list_is_unknown(command, sandbox, tmp_path):
    sandbox.faults.add(faults.failing(500, "conversion webhook failed"), path="*/deployments")
    done = await command("snapshot", "--kubeconfig", sandbox.file, tmp_path / "snapshot")
    assert done.returncode == 0
    assert done.stderr == ("Warning: the API server fails to list deployments.apps: conversion webhook failed\n")


async def test_user_who_may_read_nothing_gets_no_snapshot(command, sandbox, tmp_path):
    sandbox.faults.add(faults.failing(403, "no"), path="/api*")
    done = await command("snapshot", "--kubeconfig", sandbox.file, tmp_path / "snapshot")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {sandbox.url}: nothing can be read: forbidden: list namespaces; ")
    assert not (tmp_path / "snapshot").exists()


async def test_api_server_that_is_away_leaves_nothing_behind(command, sandbox, tmp_path):
    await sandbox.stop()
    before = sorted(tmp_path.iterdir())
    done = await command("snapshot", "--kubeconfig", sandbox.file, tmp_path / "snapshot")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: GET /version at {sandbox.url}: ")
    assert sorted(tmp_path.iterdir()) == before


async def test_list_that_breaks_off_leaves_the_snapshot_before(taken, command, sandbox, tmp_path):
    folder = await taken()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    sandbox.faults.add(faults.dropped(), path="*/statefulsets")
    done = await command("snapshot", "--kubeconfig", sandbox.file, folder)
    assert done.returncode == 2
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".snapshot")] == []


async def test_one_namespace_is_read_alone(taken, sandbox):
    folder = await taken("-n", "team-a")
    asked = {(request.resource, request.namespace) for request in sandbox.requests}
    assert ("pods", "team-a") in asked
    assert ("pods", "") not in asked
    assert listed(folder, "pods")["metadata"] == {"namespace": "team-a"}
    assert "acme-serve" not in names_in(folder, "deployments.apps")
    assert len(names_in(folder, "nodes")) == 9


async def test_user_of_one_namespace_needs_no_rights_in_others(command, sandbox, tmp_path):
    for path in ("/api/v1/pods", "/api/v1/namespaces", "/api/v1/nodes", "/apis/*/v1/resourceslices"):
        sandbox.faults.add(faults.failing(403, "no"), path=path)
    folder = tmp_path / "snapshot"
    done = await command("snapshot", "--kubeconfig", sandbox.file, "-n", "team-a", folder)
    assert done.returncode == 0
    assert done.stderr == ("Warning: forbidden: list nodes\nWarning: forbidden: list resourceslices.resource.k8s.io\n")
    assert names_in(folder, "namespaces") == ["team-a"]
    assert "leftover" in names_in(folder, "pods")


async def test_namespace_that_does_not_exist_is_a_usage_error(command, sandbox, tmp_path):
    done = await command("snapshot", "--kubeconfig", sandbox.file, "-n", "team-x", tmp_path / "snapshot")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "Error: namespace team-x does not exist")


async def test_pods_are_listed_page_by_page(taken, sandbox):
    for number in range(600):
        sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "acme-web"},
                "spec": {"containers": [{"name": "a", "image": "b"}]},
            }
        )
    sandbox.requests.clear()
    folder = await taken()
    assert len([each for each in sandbox.requests if each.resource == "pods"]) == 2
    assert len(names_in(folder, "pods")) == 600 + len(sandbox.objects("Pod", "team-a")) + len(
        sandbox.objects("Pod", "team-legacy")
    )
