"""What the line on a terminal says while commands read, review, audit and explain."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.quota_files import EXAMPLES
from tests.sandbox.faults import FaultySandbox
from webhook.cli.progress import Progress


@pytest.fixture
def shown(monkeypatch):
    """The texts, whether or not they would be drawn."""
    shown = []
    monkeypatch.setattr(Progress, "show", lambda _, text: shown.append(text if isinstance(text, str) else text()))
    return shown


@pytest.fixture
async def live(tmp_path, invoke):
    """Run a command on a sandbox."""
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    file = tmp_path / "kubeconfig"
    file.write_text(sandbox.kubeconfig(""))

    async def live(*arguments):
        return await asyncio.to_thread(invoke, *arguments, "--kubeconfig", str(file))

    yield live
    await sandbox.stop()


def test_review_counts_objects(invoke, write, pod, cluster, shown):
    file = write("pods.yaml", pod(), pod(), pod())
    invoke("review", "--cluster", cluster, file)
    assert shown[-4:] == ["reviewing: 1 of 3", "reviewing: 2 of 3", "reviewing: 3 of 3", "reviewing"]


def test_audit_counts_objects(invoke, cluster, shown):
    invoke("audit", "--cluster", cluster)
    assert shown[0].startswith(f"reading files of {cluster}: 1 of ")
    assert any(text.startswith("auditing: 1 of ") for text in shown)


def test_explain_counts_explanations(invoke, write, pod, cluster, shown):
    invoke("explain", "--cluster", cluster, write("pods.yaml", pod(), pod()))
    assert shown[-3:] == ["explaining: 1 of 2", "explaining: 2 of 2", "explaining"]


async def test_usage_of_a_running_cluster_counts_objects(live, shown):
    await live("usage")
    assert {"reading pods: 0", "reading resourceslices: 0"} <= set(shown)


async def test_audit_of_a_running_cluster_counts_kinds_then_objects(live, shown):
    await live("audit")
    assert shown[0].startswith("reading the cluster: 0 of ")
    assert shown[-1].startswith("auditing: ")


async def test_explain_of_a_running_cluster_counts_kinds_then_explanations(live, shown):
    await live("explain", str(EXAMPLES / "single-gpu" / "pod.yaml"))
    assert any(text.startswith("reading the cluster: 0 of ") for text in shown)
    assert shown[-1] == "explaining"
