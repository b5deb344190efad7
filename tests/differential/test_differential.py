import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from testbed import libyaml
from testbed.differential.differences import Answers, Report, read_expected
from testbed.differential.seeded_objects import SeededObjects
from testbed.differential.seeded_opt_in import NAMESPACES, namespaces
from testbed.differential.seeded_reviews import Entries, SeededReviews

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT / "testbed/differential/expected_differences.yaml"


@pytest.fixture(scope="module")
def entries():
    install = libyaml.load_all((ROOT / "deploy/install.yaml").read_text())
    return Entries([each for each in install if each["kind"].endswith("WebhookConfiguration")], namespaces())


@pytest.fixture
def report(tmp_path):
    return Report(tmp_path / "differences", (Path("/one"), Path("/two")), ())


def test_a_checkout_answers_like_itself(tmp_path):
    options = ["--before", ROOT, "--after", ROOT, "--cases", "40", "--only", "cli", "--out", tmp_path / "out"]
    command = [sys.executable, "-m", "testbed.differential", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "review                              40          0" in done.stdout


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({"code": 403}, {"code": 429}, ".code: before 403, after 429"),
        ({"warnings": ["a", "b"]}, {"warnings": ["a", "c"]}, '.warnings[1]: before "b", after "c"'),
        ({"a": 1}, {"a": 1, "b": 2}, ".b: only after: 2"),
        (["a"], [], ': before ["a"], after []'),
        ("one\ntwo", "one\nthree", "+three"),
        ("left 2 of 8", "left 2 of 9", ': before "left 2 of 8", after "left 2 of 9"'),
    ],
)
def test_a_difference_is_named(report, before, after, line):
    assert line in report.lines(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("in /one/policies", "in /two/policies"),
        ("https://127.0.0.1:4000/x", "https://127.0.0.1:5000/x"),
        ("held for 5 hours", "held for 1 day"),
        ({"seconds": 4}, {"seconds": 5}),
        (["GA502 has 1 of 3 left (2 reserved);", "  request less"], ["GA502 has 1 of 3 left; request", "  less"]),
    ],
)
def test_what_is_random_is_no_difference(report, before, after):
    assert report.lines(before, after) == []


def test_a_difference_is_kept_with_its_question(report, tmp_path):
    answers = Answers("usage", "gpu-admission usage", {"exit code": 0}, {"exit code": 1}, {"command.txt": "cd x"})
    report.compare(answers)
    report.compare(Answers("usage", "the same", {"exit code": 0}, {"exit code": 0}, {}))
    (kept,) = (tmp_path / "differences").iterdir()
    assert {file.name: file.read_text() for file in kept.iterdir()} == {
        "difference.txt": "usage: gpu-admission usage\n.exit code: before 0, after 1\n",
        "before.json": '{\n "exit code": 0\n}',
        "after.json": '{\n "exit code": 1\n}',
        "command.txt": "cd x",
    }
    assert (report.compared, report.different) == ({"usage": 2}, {"usage": 1})


def test_an_expected_difference_is_counted_with_its_reason(tmp_path):
    file = tmp_path / "expected.yaml"
    file.write_text("- pattern: after 1$\n  reason: a new exit code\n")
    report = Report(tmp_path / "differences", (ROOT, ROOT), read_expected(file))
    report.compare(Answers("usage", "", {"exit code": 0, "output": "a\nb"}, {"exit code": 1, "output": "a\nb"}, {}))
    report.compare(Answers("usage", "", {"exit code": 0, "output": "a\nb"}, {"exit code": 1, "output": "a\nc"}, {}))
    assert (report.different, report.explained) == ({"usage": 1}, {"a new exit code": 1})


def test_the_committed_file_expects_no_difference():
    assert read_expected(EXPECTED) == ()


def test_the_same_seed_asks_the_same_questions(entries):
    def calls(seed):
        random = Random(seed)
        reviews = SeededReviews(random, SeededObjects(random, namespaces(), ["GA307", "GA404", "GA502"]), entries)
        return [reviews.call() for _ in range(20)]

    assert calls(7) == calls(7)
    assert calls(7) != calls(8)


@pytest.mark.parametrize(
    ("namespace", "path"),
    [
        ("ns-enabled-open", "/convert-pods"),
        ("ns-preview-open", "/place-pods"),
        ("ns-none-enforced", "/enforce-quota"),
        ("ns-none-open", "/check-pods"),
    ],
)
def test_reviews_go_to_the_entries_of_a_namespace(entries, namespace, path):
    called = {each: entries.paths_for("", "pods", "CREATE", each) for each in NAMESPACES}
    assert path in called[namespace]
    assert any(path not in paths for paths in called.values())
