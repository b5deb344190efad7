"""Snapshots that cannot be written, are interrupted, or meet another: nothing is lost, and little is left behind."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from tests.cli.quota_files import ROOT
from webhook.cli.snapshots.writer import HEAD, replaced_folder

FILES = "snapshot: {files: {pods.json: 1}}"


@pytest.fixture
def target(tmp_path):
    """A folder with a snapshot, in a folder with nothing else."""
    target = tmp_path / "folder" / "snapshot"
    target.mkdir(parents=True)
    write(target, "before")
    return target


def write(folder, pods):
    (folder / "pods.json").write_text(pods)
    (folder / HEAD).write_text(FILES)


def pods_in(folder):
    return (folder / "pods.json").read_text()


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def started(sandbox, tmp_path):
    """Start `snapshot` in a process of its own, after a shell command."""

    async def started(folder, before=":"):
        words = [sys.executable, "-m", "webhook", "snapshot", "--kubeconfig", str(sandbox.file), str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        return await asyncio.create_subprocess_exec(
            "sh", "-c", f"{before}; exec {shlex.join(words)}", env=environment, stderr=asyncio.subprocess.PIPE
        )

    return started


async def test_full_disk_is_one_sentence_and_leaves_the_snapshot_before(started, target):
    process = await started(target, "ulimit -f 1")
    _, stderr = await process.communicate()
    assert stderr.decode() == f"Error: the snapshot cannot be written to {target}: file too large\n"
    assert process.returncode == 2
    assert (pods_in(target), names_in(target.parent)) == ("before", ["snapshot"])


async def test_link_into_a_missing_folder_is_one_sentence(command, sandbox, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "missing" / "snapshot")
    done = await command("snapshot", "--kubeconfig", sandbox.file, link)
    assert (done.returncode, done.stderr) == (
        2,
        f"Error: the snapshot cannot be written to {link}: no such file or directory\n",
    )


def test_name_that_is_too_long_is_one_sentence(invoke):
    done = invoke("snapshot", "--kubeconfig", "/nonexistent/config", "a" * 300)
    assert (done.exit_code, done.stderr) == (
        2,
        f"Error: the snapshot cannot be written to {'a' * 300}: file name too long\n",
    )


def test_folder_that_cannot_be_moved_leaves_nothing_behind(target, monkeypatch):
    def refuse(*_):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", refuse)  # as a mount point refuses
    with (
        pytest.raises(
            click.ClickException, match=": device or resource busy; if it is a mount point, name a folder in it"
        ) as failed,
        replaced_folder(target) as written,
    ):
        write(written, "new")
    assert failed.value.exit_code == 2
    assert (pods_in(target), names_in(target.parent)) == ("before", ["snapshot"])


@pytest.fixture
def list_of_pods(sandbox):
    """Wait until pods are listed, which are sent only after `proceed` is set."""
    requested, proceed = asyncio.Event(), asyncio.Event()

    async def wait(request, handler):
        requested.set()
        await proceed.wait()
        return await handler(request)

    sandbox.faults.add(wait, path="*/pods")
    yield SimpleNamespace(requested=requested, proceed=proceed)
    proceed.set()


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_signal_leaves_nothing_behind(started, list_of_pods, target, number):
    process = await started(target)
    await list_of_pods.requested.wait()
    process.send_signal(number)
    _, stderr = await process.communicate()
    assert process.returncode == (1 if number is signal.SIGINT else 128 + number)
    assert b"Traceback" not in stderr
    assert (pods_in(target), names_in(target.parent)) == ("before", ["snapshot"])


async def test_signal_that_is_ignored_stays_ignored(started, list_of_pods, target):
    process = await started(target, "trap '' HUP")
    await list_of_pods.requested.wait()
    process.send_signal(signal.SIGHUP)
    list_of_pods.proceed.set()
    await process.communicate()
    assert process.returncode == 0


def test_interruption_between_the_moves_puts_the_snapshot_back(target, monkeypatch):
    rename = Path.rename

    def interrupt(self, to):
        if to == target and pods_in(self) == "new":
            raise KeyboardInterrupt
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt), replaced_folder(target) as written:
        write(written, "new")
    assert (pods_in(target), names_in(target.parent)) == ("before", ["snapshot"])


def test_file_that_comes_while_the_cluster_is_read_is_not_lost(target):
    def replace():
        with replaced_folder(target) as written:
            write(written, "new")
            (target / "notes.txt").write_text("mine")

    with pytest.raises(click.UsageError, match=r"notes\.txt"):
        replace()
    assert ((target / "notes.txt").read_text(), pods_in(target)) == ("mine", "before")
    assert names_in(target.parent) == ["snapshot"]


def test_snapshot_that_another_command_writes_at_the_same_moment_stays(target, monkeypatch):
    rename = Path.rename

    def be_overtaken(self, to):
        if self == target:
            rename(self, to)
            target.mkdir()
            write(target, "of another command")
        else:
            rename(self, to)

    monkeypatch.setattr(Path, "rename", be_overtaken)
    with pytest.raises(click.ClickException, match="another command"), replaced_folder(target) as written:
        write(written, "new")
    assert (pods_in(target), names_in(target.parent)) == ("of another command", ["snapshot"])
