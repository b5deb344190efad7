"""Output in the README, the docs and the examples is that of the commands, and of the Python session in docs/claims.md.

`python -m tests.documentation.test_printed_output` writes it anew.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
from pathlib import Path

import pytest

from testbed.commands import run_command

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    ROOT / page
    for page in (
        "README.md",
        "docs/cel.md",
        "docs/cutover.md",
        "docs/generate.md",
        "docs/migrate.md",
        "docs/plan.md",
        "docs/review.md",
        "docs/test.md",
        "docs/tour.md",
        "docs/usage.md",
    )
)
BLOCK = re.compile(r"```console\n\$ (gpu-admission .*?)\n(.*?)```", re.DOTALL)
CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy", "cluster-with-operator")
UNNAMED_CLUSTERS = {"cel": CLUSTERS[:1], "plan": CLUSTERS, "usage": CLUSTERS[:4]}
"""The clusters of the examples that commands in the docs are about without saying so."""
OF_THE_READER = frozenset(
    (
        "gpu-admission review .",
        "gpu-admission review apps/",
        "gpu-admission review --cluster cluster/ --quiet --no-diff --fail-on warn manifests/",
        "gpu-admission test policies/",
    )
)
"""Commands on files that are not ours; other tests have such files."""
USAGE_ERROR = 2
SHOWN = [
    pytest.param(command, shown, id=f"{page.stem}: {command}")
    for page in PAGES
    for command, shown in BLOCK.findall(page.read_text())
    if command not in OF_THE_READER
]


def printed(command: str) -> str:
    """The output of a command on a page; of a usage error only the reason."""
    program, name, *arguments = shlex.split(command)
    assert program == "gpu-admission"
    unnamed = () if "--cluster" in arguments else UNNAMED_CLUSTERS.get(name, ())
    added = [word for cluster in unnamed for word in ("--cluster", f"examples/{cluster}")]
    done = run_command(name, *arguments, *added, cwd=ROOT, environment={**os.environ, "NO_COLOR": "1"})
    return done.stdout + (done.stderr.splitlines(keepends=True)[-1] if done.returncode == USAGE_ERROR else done.stderr)


def as_shown(command: str, shown: str) -> str:
    """The output of a command as far as a page shows it, which may end with `...`."""
    output = printed(command)
    start, cut, rest = shown.rpartition("...\n")
    if not cut or rest:
        return output
    return "".join(output.splitlines(keepends=True)[: start.count("\n")]) + cut


@pytest.mark.parametrize(("command", "shown"), SHOWN)
def test_page_shows_what_the_command_prints(command, shown):
    assert as_shown(command, shown) == shown


def test_page_on_claims_shows_what_python_answers(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "claims.md").read_text().replace("```", "\n")
    session = doctest.DocTestParser().get_doctest(text, {}, "claims.md", "docs/claims.md", 0)
    output = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=output.append)
    assert (results.failed, "".join(output)) == (0, "")
    assert results.attempted > 10


def shown_anew(block: re.Match[str]) -> str:
    command, shown = block.groups()
    if command in OF_THE_READER:
        return block[0]
    return f"```console\n$ {command}\n{as_shown(command, shown)}```"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(BLOCK.sub(shown_anew, page.read_text()))
    for expected in (ROOT / "examples").glob("*/expected.txt"):
        first, *_ = re.findall(r"```console\n(.*)\n", (expected.parent / "README.md").read_text())
        expected.write_text(printed(first))
