"""What the README shows of a terminal is what the terminal shows."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = re.findall(r"```console\n\$ (gpu-admission .*?)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_readme_shows_a_conversion_and_a_refusal():
    assert [command.rpartition("/")[2] for command, _ in SHOWN] == ["product-selector", "refused-selector"]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command.rpartition("/")[2] for command, _ in SHOWN])
def test_readme_shows_what_the_command_prints(command, shown):
    printed = subprocess.run(
        [sys.executable, "-m", "webhook", *shlex.split(command)[1:]],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    start, cut, _ = shown.rpartition("...\n")
    assert printed.startswith(start) if cut else printed == shown


def test_links_of_the_documents_lead_somewhere():
    for document in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
