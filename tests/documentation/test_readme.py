"""The README and the tour are short, name every command, and lead somewhere."""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from testbed import libyaml
from testbed.commands import run_command
from webhook.cli import COMMANDS
from webhook.cluster.manifests import unwrap_lists
from webhook.cluster.resources import RESOURCES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SNAPSHOTS = (ROOT / "docs" / "snapshot.md").read_text()
TOUR = re.findall(r"^\$ gpu-admission (.*)$", (ROOT / "docs" / "tour.md").read_text(), re.MULTILINE)
WORDS_IN_THREE_MINUTES = 800


def test_tour_shows_each_feature_once():
    assert [command.rpartition("/")[2] for command in TOUR] == [
        "refused-selector",
        "pretrain",
        "cluster-with-quota",
        "cluster-in-use",
        "cluster",
        "product-selector",
        "impossible-wish",
        "wrong.yaml",
        "claim-unguarded-selector",
    ]


def test_tour_leads_with_the_commands_that_are_used_most():
    assert [command.split()[0] for command in TOUR[:5]] == ["review", "explain", "quota", "usage", "audit"]


def test_readme_names_every_command():
    named = {
        name
        for row in re.findall(r"^\| (\[?`.*?) \|", README, re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", row)
    }
    assert named == COMMANDS.keys() - {"completion"}


def test_readme_begins_with_targets_of_the_makefile():
    (block,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[:1]
    targets = [line.split()[1] for line in block.splitlines()]
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("page", [ROOT / "README.md", *ROOT.glob("docs/**/*.md")], ids=lambda page: page.name)
def test_page_installs_nothing_from_an_index_while_nothing_is_published(page):
    assert not re.search(r"pipx? install (--\S+ )*gpu-admission", page.read_text())


def test_readme_is_read_in_three_minutes():
    assert len(README.split()) <= WORDS_IN_THREE_MINUTES


def test_links_of_the_documents_lead_somewhere():
    for document in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


@cache
def headings(page):
    """The anchors of a page as GitHub makes them, without the lines of code blocks."""
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", prose, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def test_links_to_sections_lead_to_a_heading():
    broken = set()
    for document in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("deploy/**/*.md"),
    ):
        for page, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
            target = (document.parent / page).resolve() if page else document
            if target.suffix == ".md" and anchor not in headings(target):
                broken.add((document.name, f"{page}#{anchor}"))
    assert broken == set()


KUBECTL = """\
#!/bin/sh
case "$1 $2" in
"version -o") cat VERSION ;;
"get --raw") path="${3%%[?]*}"; cat "FOLDER/${path##*/}.json" ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path):
    """A `kubectl` that prints the cluster of the examples as the real one does: the list of the API server for each path."""
    objects = [
        item
        for file in sorted((ROOT / "examples" / "cluster").glob("*.yaml"))
        for document in libyaml.load_all(file.read_text())
        for item in unwrap_lists(document)
    ]
    folder = tmp_path / "bin"
    folder.mkdir()
    for resource in RESOURCES.values():
        items = [item for item in objects if item["kind"] == resource.kind]
        listed = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List", "items": items}
        (folder / f"{resource.plural}.json").write_text(json.dumps(listed))
    script = KUBECTL.replace("VERSION", str(ROOT / "examples" / "cluster" / "version.yaml"))
    (folder / "kubectl").write_text(script.replace("FOLDER", str(folder)))
    (folder / "kubectl").chmod(0o755)
    return folder


def test_kubectl_takes_a_cluster_down_as_review_reads_it(kubectl, tmp_path):
    (recipe,) = re.findall(r"```sh\n(mkdir cluster\n.*?)```", SNAPSHOTS, re.DOTALL)
    path = f"{kubectl}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-e", "-c", recipe], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    pod = ROOT / "examples" / "product-selector" / "pod.yaml"
    taken, kept = (
        run_command("review", "-o", "json", "--cluster", cluster, pod, cwd=tmp_path, environment=os.environ).stdout
        for cluster in ("cluster", ROOT / "examples" / "cluster")
    )
    assert json.loads(taken) == json.loads(kept)
