"""`gpu-admission report`: the file that it writes, and how it ends."""

from __future__ import annotations

import asyncio

import html5lib
import pytest

from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY, EXAMPLES

CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")
READ = ("Namespace", "Node", "ResourceSlice", "DeviceClass", "Pod", "ResourceClaim")
BUSY = [argument for name in CLUSTERS for argument in ("--cluster", EXAMPLES / name)]


def parts_of(text):
    """The text of each section of a valid page, by name."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text.replace("<wbr>", ""))
    return {each.get("id"): " ".join(" ".join(each.itertext()).split()) for each in tree.iter("section")}


def test_page_is_written_to_the_file(invoke, folder):
    done = invoke("report", *BUSY, "-o", "report.html")
    assert (done.exit_code, done.stdout) == (0, "wrote report.html; open it in a browser\n")
    parts = parts_of((folder / "report.html").read_text())
    assert "36 GPUs: 22 held, 12 free, 2 free but unusable" in parts["summary"]
    assert "team-vision/pretrain-0 claim" in parts["nodes"]
    assert "team-vision" in parts["quotas"]


def test_page_is_printed(invoke):
    done = invoke("report", *BUSY, "-o", "-")
    assert done.exit_code == 0
    assert "team-vision" in parts_of(done.stdout)["quotas"]


def test_quotas_are_compared_with_an_earlier_cluster(invoke):
    earlier = [argument for name in CLUSTERS[:-1] for argument in ("--since", EXAMPLES / name)]
    parts = parts_of(invoke("report", *BUSY, *earlier, "-o", "-").stdout)
    assert "Change" in parts["quotas"]


def test_page_of_a_namespace_names_no_other(invoke):
    done = invoke("report", *BUSY, "-n", "team-vision", "-o", "-")
    parts = parts_of(done.stdout)
    assert "another namespace" in parts["nodes"]
    assert not [name for name, text in parts.items() if "team-legacy" in text]


def test_namespace_that_does_not_exist_is_refused(invoke):
    done = invoke("report", *BUSY, "-n", "team-visoin", "-o", "-")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: namespace team-visoin does not exist; did you mean team-vision?\n",
    )


def test_file_that_cannot_be_written_is_named(invoke, folder):
    (folder / "taken").mkdir()
    done = invoke("report", *BUSY, "-o", "taken")
    assert (done.exit_code, done.stderr) == (2, "Error: the page cannot be written to taken: is a directory\n")
    assert not [*(folder / "taken").iterdir()]


def test_files_that_cannot_be_read_leave_the_page_as_it_was(invoke, folder, write):
    write("report.html", "before")
    write("broken.yaml", "a: [")
    assert invoke("report", "--cluster", "broken.yaml", "-o", "report.html").exit_code == 2
    assert (folder / "report.html").read_text() == "before"


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the cluster of the example; its kubeconfig is in `sandbox.file`."""
    async with example_sandbox(tmp_path, *CLUSTERS[:2], kinds=READ, definitions=["gpuquotas.yaml"]) as sandbox:
        yield sandbox


async def test_running_cluster_is_read_and_shown(sandbox, run):
    done = await asyncio.to_thread(run, "report", "--kubeconfig", sandbox.file, "-o", "-", **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    parts = parts_of(done.stdout)
    assert "28 GPUs: 9 held" in parts["summary"]
    assert parts["quotas"].endswith("No namespace has a GPUQuota.")
    assert {request.verb for request in sandbox.requests} <= {"get", "list", "watch"}
