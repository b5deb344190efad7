"""The command line: in a separate process where that matters, else in the test process."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from testbed.commands import run_command
from testbed.json_schemas import check_output
from tests.cli.quota_files import AWAY
from tests.cli.shells import EXECUTABLES
from webhook.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def heeded_signals():
    """Let this process and those that it starts heed Ctrl-C and the end of a terminal, as in a terminal.

    A shell lets commands in the background ignore SIGINT, and nohup SIGHUP, and so would all that the tests start.
    """
    before = {
        number: signal.signal(number, handler)
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL))
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def cluster():
    """The cluster of the examples: `team-a` converts, `team-preview` previews, `team-legacy` does neither."""
    return str(EXAMPLES / "cluster")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(folder):
    """Write a file of text, or of objects as YAML documents."""

    def write(name, *content):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [item if isinstance(item, str) else yaml.safe_dump(item, sort_keys=False) for item in content]
        path.write_text("---\n".join(texts))
        return name

    return write


@pytest.fixture
def invoke(folder):
    """Run a command in this process; its JSON must have its schema and a documented exit code."""

    def invoke(*arguments, stdin=None):
        texts = [str(argument) for argument in arguments]
        done = CliRunner().invoke(main, texts, input=stdin, prog_name="gpu-admission")
        check_output(texts, done.exit_code, done.stdout)
        return done

    return invoke


@pytest.fixture
def reviewed(invoke, cluster):
    """Review files against the cluster of the examples, as JSON."""

    def reviewed(*arguments, stdin=None):
        done = invoke("review", "--cluster", cluster, "-o", "json", *arguments, stdin=stdin)
        assert done.exit_code in (0, 1, 4), done.output
        return json.loads(done.stdout)

    return reviewed


@pytest.fixture
def run(folder):
    """Run a command as a process of its own."""

    def run(*arguments, stdin="", stdout=None, cwd=".", **environment):
        inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        variables = {**inherited, **environment}
        return run_command(*arguments, stdin=stdin, stdout=stdout, cwd=folder / cwd, environment=variables)

    return run


@pytest.fixture
def on_a_terminal(folder):
    """Run a command on a terminal; returns the text that the terminal shows in the end, without progress."""

    def on_a_terminal(*arguments, code=0, **environment):
        inherited = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
        leader, follower = pty.openpty()
        ends = {"stdout": follower, "stderr": follower}
        with ThreadPoolExecutor() as reader:
            written = reader.submit(_read_terminal, leader)
            done = run_command(*arguments, cwd=folder, environment={**inherited, **environment}, **ends)
            os.close(follower)
        assert done.returncode == code
        return re.sub(r"[^\n]*\r\x1b\[2K", "", written.result().decode())

    return on_a_terminal


def _read_terminal(leader):
    """All that is written to a terminal until its other end is closed."""
    written = b""
    try:
        while part := os.read(leader, 65536):
            written += part
    except OSError:  # how Linux tells that the other end is closed
        pass
    os.close(leader)
    return written


@pytest.fixture
def run_line(folder, run):
    """Run a line of a help text, in a shell if it needs one; programs in the folder `bin` are found first."""

    def run_line(line):
        if not re.search(r"[|<>;~]", line):
            program, *arguments = shlex.split(line)
            assert program == "gpu-admission"
            return run(*arguments, **AWAY)
        path = os.pathsep.join((str(folder / "bin"), str(EXECUTABLES), os.environ["PATH"]))
        environment = {**os.environ, **AWAY, "HOME": str(folder), "PATH": path}
        shell = ["bash", "-e", "-o", "pipefail", "-c", line]
        return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run_line


@pytest.fixture
def pod():
    """Make a pod of team-a that asks for GPUs in its limits."""

    def pod(name="train", namespace="team-a", *, gpus=1, **spec):
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        container = {"name": "train", "image": "pytorch:2.7", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}

    return pod
