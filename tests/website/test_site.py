"""The documentation is built as a site without a warning; pages, links, navigation and search are complete."""

import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.browsers import browser

__all__ = ["browser"]

pytestmark = pytest.mark.timeout(
    400
)  # the first test builds the site, and others wait for it; that takes minutes beside busy processes

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "docs" / "README.md").read_text()
PAGES = sorted(path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site(once):
    """The folder of the site, built without a warning."""

    def build(folder):
        command = [sys.executable, "-m", "website", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    return once("site", build)


@pytest.fixture(scope="module")
def pages(site):
    """The text of every page, by its path."""
    return {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}


def test_index_lists_every_page_once():
    listed = re.findall(r"^- \[[^]]+\]\((\S+?)\.md\): \S", INDEX, re.MULTILINE)
    assert sorted(listed) == sorted({*PAGES, "designs/README", "rules/README"} - {"README"})


def test_every_page_of_the_repository_is_on_the_site(pages):
    assert {f"docs/{name}.html" for name in PAGES} - {"docs/README.html"} <= pages.keys()
    examples = {f"examples/{path.parent.name}/README.html" for path in (ROOT / "examples").glob("*/README.md")}
    assert examples <= pages.keys()


def test_no_page_loads_anything_from_elsewhere(site, pages):
    loaded = r'<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)="(?:https?:)?//'
    assert {name for name, text in pages.items() if re.search(loaded, text)} == set()
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text()), style.name


def test_links_within_the_site_lead_somewhere(site, pages):
    broken = set()
    for name, text in pages.items():
        for target in re.findall(r'<a\b[^>]*? href="([^"]+)"', text):
            path, _, anchor = unquote(target).partition("#")
            if re.match(r"[a-z]+:", path):
                continue
            file = (site / name).parent / path if path else site / name
            found = file.exists() and (not anchor or file.suffix != ".html" or f'id="{anchor}"' in file.read_text())
            broken |= set() if found else {(name, target)}
    assert broken == set()


@pytest.mark.parametrize("words", ["ga132", "time-slicing replicas"])
def test_search_finds_a_rule_by_its_id_and_by_words_of_its_title(site, browser, words):
    """The search opens from files, without a server; it only cannot read the pages for summaries then."""
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={words}")
    first = page.locator("ul.search li a").first
    assert first.inner_text() == "GA132: A time-slicing resource must have at least two replicas"
    assert first.get_attribute("href") == "docs/rules/configuration.html#ga132"


@pytest.mark.parametrize("word", ["timeslic", "ga307", "gpuquota", "break"])
def test_search_knows_words_of_the_pages(site, word):
    text = (site / "searchindex.js").read_text()
    index = json.loads(text[len("Search.setIndex(") : -1])
    assert any(term.startswith(word) for term in (*index["terms"], *index["titleterms"]))
