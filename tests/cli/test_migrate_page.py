"""Terminal output in docs/migrate.md is that of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "migrate.md").read_text()
SHOWN = re.findall(r"```console\n\$ gpu-admission (migrate.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_page_shows_what_the_command_prints(invoke, monkeypatch, command, shown):
    monkeypatch.chdir(ROOT)
    assert invoke(*shlex.split(command)).output == shown
