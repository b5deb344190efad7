"""Pipes, devices, links and large files never block a command."""

from __future__ import annotations

import json
import os
import socket

import pytest

from webhook.cli.user_files import MOST_BYTES


@pytest.mark.parametrize("option", ["review", "--cluster"])
def test_pipe_in_a_folder_is_not_read(run, folder, write, pod, cluster, option):
    os.mkfifo(folder / "pipe.yaml")
    write("pod.yaml", pod())
    done = (
        run("review", "--cluster", cluster, ".") if option == "review" else run("review", "--cluster", ".", "pod.yaml")
    )
    assert done.returncode == 0
    assert "1 object: 1 admitted" in done.stdout


def test_device_in_a_folder_is_not_read(run, folder, write, pod, cluster):
    (folder / "zero.yaml").symlink_to("/dev/zero")
    write("pod.yaml", pod())
    assert run("review", "--cluster", cluster, ".").stdout.endswith("1 object: 1 admitted (1 converted)\n")


def test_folder_of_pipes_only_has_no_files(invoke, folder):
    (folder / "pipes").mkdir()
    os.mkfifo(folder / "pipes" / "pod.yaml")
    assert invoke("review", "pipes").stderr.startswith("pipes: the folder has no files *.yaml, *.yml, *.json\n")


def test_link_to_a_file_is_read(reviewed, folder, write, pod):
    write("elsewhere/pod.txt", json.dumps(pod()))
    (folder / "manifests").mkdir()
    (folder / "manifests" / "pod.json").symlink_to(folder / "elsewhere" / "pod.txt")
    assert [result["source"]["file"] for result in reviewed("manifests")] == ["manifests/pod.json"]


def test_link_that_leads_nowhere_is_a_problem(invoke, folder):
    (folder / "manifests").mkdir()
    (folder / "manifests" / "pod.yaml").symlink_to("missing")
    done = invoke("review", "manifests")
    assert done.exit_code == 2
    assert done.stderr == "manifests/pod.yaml: no such file or directory\n1 problem; nothing was done\n"


@pytest.fixture
def special(folder):
    """A pipe without a writer, a socket, and a device that never ends."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("socket")
    return {"pipe": "pipe", "socket": "socket", "device": "/dev/zero"}


NAMED = {
    "review": ("review", "{}"),
    "cluster": ("usage", "--cluster", "{}"),
    "settings": ("review", "--settings", "{}", "pod.yaml"),
    "ignore-file": ("review", "--ignore-file", "{}", "pod.yaml"),
    "baseline": ("review", "--baseline", "{}", "pod.yaml"),
    "migrate": ("migrate", "{}"),
    "test": ("test", "{}"),
    "cel": ("cel", "--cluster", "{}", "true"),
}


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("arguments", NAMED.values(), ids=NAMED)
def test_special_file_that_is_named_is_refused(invoke, write, pod, special, arguments, kind):
    write("pod.yaml", pod())
    done = invoke(*(argument.format(special[kind]) for argument in arguments))
    assert done.exit_code == 2
    assert f"{special[kind]}: is a {kind}; name a regular file" in done.stderr


def test_kubeconfig_that_is_no_file_is_refused(invoke, write, pod, special):
    done = invoke("review", "--kubeconfig", special["device"], write("pod.yaml", pod()))
    assert (done.exit_code, done.stderr) == (2, "Error: kubeconfig file /dev/zero not found\n")


def test_pipe_of_a_shell_is_read(reviewed, pod):
    read, written = os.pipe()
    with os.fdopen(written, "w") as opened:
        json.dump(pod(), opened)
    (result,) = reviewed(f"/dev/fd/{read}")
    os.close(read)
    assert result["source"] == {"file": f"/dev/fd/{read}", "line": 1}


def test_input_beyond_the_limit_is_refused_before_it_is_read(invoke, folder):
    with (folder / "pods.json").open("wb") as opened:
        opened.truncate(MOST_BYTES + 1)
    done = invoke("usage", "--cluster", "pods.json")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "pods.json: is larger than 256 MiB; divide it")


def test_endless_standard_input_is_refused(invoke, monkeypatch):
    monkeypatch.setattr("webhook.cli.user_files.MOST_BYTES", 1 << 20)
    done = invoke("review", "-", stdin=b" " * (2 << 20))
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "STDIN: is larger than 1 MiB; divide it")


@pytest.mark.parametrize("arguments", [("review",), ("usage", "--cluster")], ids=["review", "cluster"])
def test_large_text_is_refused_before_it_is_parsed(invoke, folder, arguments):
    (folder / "pods.yaml").write_bytes(b"# apiVersion: v1\n" * (2 << 20))
    done = invoke(*arguments, "pods.yaml")
    assert done.exit_code == 2
    assert done.stderr.startswith("pods.yaml:1:1: is larger than 32 MiB: divide it; for --cluster, write it as JSON, ")


def test_large_json_of_a_cluster_is_read(invoke, folder, write, pod):
    annotations = {"example.com/text": "x" * (33 << 20)}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "large", "annotations": annotations}}
    (folder / "nodes.json").write_text(json.dumps(node))
    assert invoke("review", "--cluster", "nodes.json", write("pod.yaml", pod())).exit_code == 0
