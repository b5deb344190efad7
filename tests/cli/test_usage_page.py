"""Terminal output in docs/usage.md is that of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from policies.analyses.usage.node_gpus import UnusableKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "usage.md").read_text()
SHOWN = re.findall(r"```console\n\$ gpu-admission (usage.*?)\n(.*?)```", PAGE, re.DOTALL)
CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_page_shows_what_the_command_prints(invoke, command, shown):
    files = [argument for name in CLUSTERS for argument in ("--cluster", ROOT / "examples" / name)]
    assert invoke(*shlex.split(command), *files).stdout == shown


def test_page_has_every_reason():
    _, _, rest = PAGE.partition("\n## Why free GPUs are unusable\n")
    table, _, _ = rest.partition("\n## ")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)[1:] == [str(kind) for kind in UnusableKind]
