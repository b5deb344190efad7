"""Suites in a folder, run as a command."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from webhook.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {
        "containers": [{"name": "train", "image": "pytorch:2.7", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pod():
    """A pod of team-a, which converts, with one GPU."""
    return copy.deepcopy(POD)


@pytest.fixture
def invoke(folder):
    """Run a command."""

    def invoke(*arguments, stdin=None):
        return CliRunner().invoke(main, [*map(str, arguments)], input=stdin, prog_name="gpu-admission")

    return invoke


@pytest.fixture
def run(invoke):
    """Run `gpu-admission test`."""
    return lambda *arguments, **more: invoke("test", *arguments, **more)


@pytest.fixture
def try_case(run, folder, pod):
    """The result of a suite with one case, about the pod if it names no other object."""

    def try_case(*arguments, expect, clusters=("cluster",), **case):
        about = {} if {"file", "manifest"} & case.keys() else {"manifest": pod}
        suite = {
            "apiVersion": "test.gpu-admission.io/v1alpha1",
            "kind": "Suite",
            "cluster": [str(EXAMPLES / name) for name in clusters],
            "cases": [{"name": "case", **about, **case, "expect": expect}],
        }
        (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
        return run("suite.yaml", *arguments)

    return try_case


@pytest.fixture
def failures(try_case):
    """What fails of a case, as paths in `expect` and sentences."""

    def failures(expect, **case):
        done = try_case(expect=expect, **case)
        assert done.exit_code in (0, 1), done.output
        lines = [line.strip() for line in done.stdout.splitlines() if line.startswith("      ")]
        return [line.partition("cases[0].expect.")[2] for line in lines]

    return failures
