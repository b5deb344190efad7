"""Terminal output in docs/plan.md is that of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from policies.analyses.plan import KINDS
from policies.outcome import MOST_SUBJECTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plan.md").read_text()
SHOWN = re.findall(r"```console\n\$ gpu-admission (plan.*?)\n(.*?)```", PAGE, re.DOTALL)
CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy", "cluster-with-operator")


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_page_shows_what_the_command_prints(invoke, command, shown):
    files = [argument for name in CLUSTERS for argument in ("--cluster", ROOT / "examples" / name)]
    named = [ROOT / word if word.startswith("examples/") else word for word in shlex.split(command)]
    assert invoke(*named, *files).stdout == shown


def test_page_has_the_number_of_templates():
    assert f"**More than {MOST_SUBJECTS:,} pod templates**" in PAGE


def test_page_has_every_kind():
    _, _, rest = PAGE.partition("\n## What can be planned\n")
    table, _, _ = rest.partition("\n## ")
    assert [kind for kind in KINDS if not re.search(rf"\b{kind}\b", table)] == []
