"""The page of a cutover, its files, and the command."""

from __future__ import annotations

import os
from pathlib import Path

import html5lib
import pytest

from testbed import libyaml
from testbed.commands import run_command

ROOT = Path(__file__).parents[2]
CLUSTERS = (
    "cluster",
    "cluster-in-use",
    "cluster-with-quota",
    "cluster-busy",
    "cluster-with-operator",
    "cutover/workloads.yaml",
)
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {"NO_COLOR": "1"}


@pytest.fixture
def run(tmp_path):
    files = [f"--cluster={ROOT}/examples/{name}" for name in CLUSTERS]

    def run(*arguments):
        return run_command("cutover", *files, *arguments, cwd=tmp_path, environment=ENVIRONMENT)

    return run


def test_page_is_valid_html_with_a_box_for_each_step(run):
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(
        run("-o", "html").stdout.removesuffix("\n")
    )
    ticks = [each.get("data-tick") for each in tree.iter("input")]
    assert ticks[:2] == ["operator", "label-waves"]
    assert ticks[-2:] == ["exchange", "stale-labels"]
    assert len({*ticks}) == len(ticks) == len([each for each in tree.iter("li") if each.get("class") == "card"])


def test_commands_of_the_page_are_those_of_the_text(run):
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(
        run("-o", "html").stdout.removesuffix("\n")
    )
    text = run().stdout
    for code in tree.iter("code"):
        for line in "".join(code.itertext()).splitlines():
            assert line in text


def test_files_are_those_that_commands_name(run, tmp_path):
    text = run("--write", "cutover/").stdout
    written = {each.name for each in (tmp_path / "cutover").iterdir()}
    named = {word.removeprefix("cutover/") for word in text.split() if word.startswith("cutover/")}
    assert named <= written
    assert written - named == {"cutover.html", *{"operator-values.yaml"}}
    for name in written - {"cutover.html", "node-labels.sh"}:
        assert list(libyaml.load_all((tmp_path / "cutover" / name).read_text()))


def test_folder_of_the_files_is_the_one_of_the_commands(run):
    assert "-f 'my files'/dra-driver-values.yaml" in run("--write", "my files").stdout


def test_file_that_cannot_be_written_is_named(run, tmp_path):
    (tmp_path / "taken").write_text("")
    done = run("--write", "taken")
    assert done.returncode == 2
    assert "cannot be written to taken" in done.stderr


def test_check_says_what_is_missing(run):
    done = run("--check", "wave-1-empty")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "wave-1-empty: not done")


def test_unknown_step_is_a_usage_error(run):
    done = run("--check", "wave-1")
    assert done.returncode == 2
    assert "no step wave-1" in done.stderr


def test_check_takes_no_output(run):
    assert run("--check", "operator", "-o", "json").returncode == 2
