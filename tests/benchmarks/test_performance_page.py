"""docs/performance.md is rendered from the newest results file.

python tests/benchmarks/test_performance_page.py --update     writes the golden page again
"""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.figures import Theme
from benchmarks.page import DOCS, rendered_files, write_page
from benchmarks.results import newest_file, read_results, read_scale
from benchmarks.themes import THEMES
from tests.benchmarks.results_of_two_themes import RESULTS, SCALE

GOLDEN = Path(__file__).with_name("golden")


def stored_files(folder):
    """The page and its charts in a folder."""
    files = [folder / "performance.md", *folder.glob("images/performance-*.svg")]
    return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in files}


@pytest.mark.parametrize("name", sorted(rendered_files(RESULTS, SCALE)))
def test_rendered_file_is_the_golden_one(name):
    assert rendered_files(RESULTS, SCALE)[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_golden_folder_holds_nothing_else():
    assert set(stored_files(GOLDEN)) == set(rendered_files(RESULTS, SCALE))


def test_page_in_docs_is_that_of_the_newest_results():
    assert stored_files(DOCS) == rendered_files(read_results(newest_file()), read_scale())


@pytest.mark.parametrize("name", THEMES)
def test_newest_results_describe_themes_as_they_are(name):
    (stored,) = (theme for theme in read_results(newest_file()).themes if theme.name == name)
    described = Theme(**stored.model_dump(include=set(Theme.model_fields)))
    assert described == import_module(f"benchmarks.themes.{name}").THEME


def test_writing_removes_charts_of_earlier_themes(tmp_path):
    old = tmp_path / "images" / "performance-old.svg"
    old.parent.mkdir()
    old.write_text("<svg/>")
    write_page(RESULTS, SCALE, tmp_path)
    assert stored_files(tmp_path) == rendered_files(RESULTS, SCALE)


if __name__ == "__main__" and sys.argv[1:] == ["--update"]:
    write_page(RESULTS, SCALE, GOLDEN)
