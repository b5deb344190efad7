"""The last lines of the gate say what was not proved."""

from tests.proof_summary import TESTS, summary

SUBJECTS = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")})
EVERYWHERE = [f"tests/{subject}/test_it.py" for subject in SUBJECTS]


def test_run_with_everything_says_so():
    assert summary(EVERYWHERE * 100, []) == [
        f"Proved: {len(SUBJECTS) * 100:,} tests passed, of {len(SUBJECTS)} subjects.",
        "Nothing was absent that these tests compare with.",
    ]


def test_absent_oracles_are_grouped_by_reason_and_a_missing_cluster_comes_first():
    lines = summary(EVERYWHERE, ["needs kubectl", "no cluster", "needs kubectl"])
    assert lines[1:] == [
        "Not proved, because something is absent or was not wanted:",
        "      1  no cluster",
        "      2  needs kubectl",
    ]


def test_part_of_the_tests_names_the_others():
    _, left_out, markers, _ = summary(EVERYWHERE[-7:], [], "not hypothesis")
    assert left_out.startswith(f"Not run: {len(SUBJECTS) - 7} subjects: {', '.join(SUBJECTS[:8])} and ")
    assert markers == "Not run: tests outside of -m 'not hypothesis'."


def test_summary_has_at_most_ten_lines():
    assert len(summary(EVERYWHERE[-7:], [f"reason {number}" for number in range(20)], "not hypothesis")) == 10


def test_few_files_have_no_summary():
    assert summary(EVERYWHERE[:2], ["needs kubectl"]) == []
