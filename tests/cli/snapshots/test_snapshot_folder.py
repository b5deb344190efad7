"""The folder of a snapshot: what may be replaced, and what never is."""

from __future__ import annotations

import pytest


@pytest.fixture
def refused(invoke):
    """What `snapshot` says about a folder that it does not replace, without asking any cluster."""

    def refused(folder):
        done = invoke("snapshot", "--kubeconfig", "/nonexistent/config", folder)
        assert done.exit_code == 2
        return done.stderr.splitlines()[-1]

    return refused


async def test_snapshot_is_replaced(taken, sandbox):
    folder = await taken()
    sandbox.remove("Pod", "leftover", "team-a")
    assert "leftover" not in (await taken() / "pods.json").read_text()
    assert folder.is_dir()


async def test_kind_that_is_unknown_now_is_not_left_from_before(taken, sandbox):
    from tests.sandbox import faults

    folder = await taken()
    sandbox.faults.add(faults.failing(403, "no"), path="*/nodes")
    await taken()
    assert not (folder / "nodes.json").exists()


async def test_empty_folder_is_filled(taken, tmp_path):
    (tmp_path / "snapshot").mkdir()
    assert (await taken() / "snapshot.yaml").exists()


async def test_only_the_user_may_read_it(taken):
    assert (await taken()).stat().st_mode & 0o077 == 0


def test_folder_with_other_files_is_not_replaced(refused, folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "pod.yaml").write_text("")
    (folder / "mine" / "quota.yaml").write_text("")
    assert refused("mine") == (
        "Error: mine has files that are not of a snapshot (pod.yaml and 1 more), and would be replaced; name another folder"
    )


async def test_snapshot_with_a_file_of_the_user_is_not_replaced(taken, refused):
    folder = await taken()
    (folder / "notes.txt").write_text("")
    assert refused(folder) == (
        f"Error: {folder} has files that are not of a snapshot (notes.txt), and would be replaced; name another folder"
    )


def test_file_is_not_replaced(refused, folder):
    (folder / "cluster.yaml").write_text("")
    assert refused("cluster.yaml") == "Error: cluster.yaml is a file, and a snapshot is a folder"


def test_current_folder_is_not_replaced(refused):
    assert refused(".") == "Error: name a folder below the current one, because the whole folder is replaced"


def test_folder_above_must_exist(refused):
    assert refused("a/b") == "Error: the folder a does not exist"
