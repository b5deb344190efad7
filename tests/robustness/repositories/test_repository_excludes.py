"""Files that `review --exclude` and `--ignore-file` leave out."""

from __future__ import annotations

import json

import pytest

from tests.robustness.repositories.reviews import names, pod, review


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["a", "b", "c", "d"]),
        (["apps/"], ["a", "d"]),
        (["/b.yaml"], ["a", "b", "c", "d"]),
        (["b.yaml"], ["a", "c", "d"]),
        (["*.json"], ["a", "b", "c"]),
        (["apps/**", "*.json"], ["a"]),
        (["*.yaml", "!a.yaml"], ["a", "d"]),
    ],
)
def test_exclude_takes_patterns_relative_to_the_folder(write, patterns, expected):
    files = {"a.yaml": pod("a"), "apps/b.yaml": pod("b"), "apps/deep/c.yaml": pod("c"), "z.json": json.dumps(pod("d"))}
    write(files)
    options = [each for pattern in patterns for each in ("--exclude", pattern)]
    assert sorted(names(review("-o", "json", *options, "repo"))) == expected


def test_ignore_file_has_a_pattern_on_each_line(write):
    write({"a.yaml": pod("a"), "b.yaml": pod("b"), "ci/c.yaml": pod("c"), "ignored": "# not ours\nci/\n\nb.yaml\n"})
    assert names(review("-o", "json", "--ignore-file", "repo/ignored", "repo")) == ["a"]


def test_file_that_is_named_is_reviewed_though_it_is_excluded(write):
    write({"a.yaml": pod("a")})
    assert names(review("-o", "json", "--exclude", "a.yaml", "repo/a.yaml")) == ["a"]


def test_folder_of_excluded_files_only_is_a_problem(write):
    write({"a.yaml": pod("a")})
    done = review("--exclude", "*", "repo")
    assert done.exit_code == 2
    assert done.stderr.startswith("repo: the folder has no files *.yaml, *.yml, *.json that are not excluded\n")


def test_invalid_pattern_is_a_usage_error(write):
    write({"a.yaml": pod("a")})
    done = review("--exclude", "!", "repo")
    assert done.exit_code == 2
    assert (
        "Error: --exclude and --ignore-file need patterns as in a .gitignore: Invalid git pattern: '!'" in done.stderr
    )


def test_ignore_file_that_is_missing_is_a_usage_error(write):
    write({"a.yaml": pod("a")})
    done = review("--ignore-file", "missing", "repo")
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: --ignore-file missing: no such file or directory\n")
