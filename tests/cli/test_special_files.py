"""Pipes and links in a folder never block the review."""

from __future__ import annotations

import json
import os
import threading

import pytest


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


def test_pipe_that_is_named_is_read(reviewed, folder, pod):
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_text, args=[json.dumps(pod())])
    writer.start()
    (result,) = reviewed("pipe")
    writer.join()
    assert result["source"] == {"file": "pipe", "line": 1}
