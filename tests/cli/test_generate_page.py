"""Terminal output in docs/generate.md is that of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from policies.nvidia.product_proposals import choose_products

PAGE = (Path(__file__).parents[2] / "docs" / "generate.md").read_text()
SHOWN = re.findall(r"```console\n\$ gpu-admission (generate .*?)\n(.*?)```", PAGE, re.DOTALL)


def test_page_shows_each_kind():
    assert {command.split()[1] for command, _ in SHOWN} == {"time-slicing", "mps", "mig", "quota", "claim", "wish"}


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_page_shows_what_the_command_prints(invoke, command, shown):
    done = invoke(*shlex.split(command))
    error = "".join(done.stderr.splitlines(keepends=True)[-1:])
    assert done.stdout + error == shown
    assert done.exit_code == (2 if error else 0)


@pytest.mark.parametrize(("written", "meant"), re.findall(r"^\| `([^`]+)` \| `([^`]+)`(?::|\s*\|)", PAGE, re.MULTILINE))
def test_page_says_what_names_mean(written, meant):
    assert str(choose_products(written).patterns) == meant
