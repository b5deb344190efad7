"""Terminal output in docs/snapshot.md is that of the commands, up to numbers of objects."""

from __future__ import annotations

import asyncio
import re
import shlex

import pytest

from tests.cli.quota_files import AWAY, ROOT
from tests.cli.snapshots.conftest import gpu_pod
from tests.sandbox import faults

BLOCKS = re.findall(r"```console\n(.*?)```", (ROOT / "docs" / "snapshot.md").read_text(), re.DOTALL)
NUMBER = re.compile(r"[0-9][0-9,]*(?= objects of)|(?<=objects of )[0-9]+")


def commands_of(block):
    """The commands of a block, each with the output that the page shows."""
    return [part.partition("\n")[::2] for part in block.split("$ gpu-admission ")[1:]]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
async def test_page_shows_what_the_commands_print(run, write, sandbox, block):
    write("manifests/train.yaml", gpu_pod("train", node=""))
    sandbox.create(gpu_pod("train", node=""))
    if "forbidden: list nodes" in block:
        sandbox.faults.add(faults.failing(403, "no"), path="*/nodes")
    for command, shown in commands_of(block):
        done = await asyncio.to_thread(run, *shlex.split(command), **{**AWAY, "KUBECONFIG": str(sandbox.file)})
        assert done.returncode in (0, 1), done.stderr
        if shown:
            assert NUMBER.sub("N", done.stderr + done.stdout) == NUMBER.sub("N", shown)
