"""`review` in a pipeline: what fails it, and how much it prints."""

import pytest

MISSPELT = {"nvidia.com/gpu.product": "NVIDIA-H100"}
REFUSED = {"nvidia.com/gpu.count": "8"}


@pytest.fixture
def files(write, pod):
    """One pod that is admitted, one with a warning, and one that is refused."""
    return {
        "fine": write("fine.yaml", pod("fine")),
        "warned": write("warned.yaml", pod("warned", nodeSelector=MISSPELT)),
        "refused": write("refused.yaml", pod("refused", nodeSelector=REFUSED)),
    }


@pytest.mark.parametrize(
    ("fail_on", "name", "expected"),
    [
        ("deny", "fine", 0),
        ("deny", "warned", 0),
        ("deny", "refused", 1),
        ("warn", "fine", 0),
        ("warn", "warned", 1),
        ("warn", "refused", 1),
        ("GA313", "warned", 1),
        ("GA313", "refused", 0),
        ("ga307,GA410", "refused", 1),
        ("deny,GA313", "refused", 1),
    ],
)
def test_review_fails_on_severities_and_rules_that_it_is_told(invoke, cluster, files, fail_on, name, expected):
    assert invoke("review", "--cluster", cluster, "--fail-on", fail_on, files[name]).exit_code == expected


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("GA3O7", "write deny, warn or rules, such as deny,GA410: there is no rule GA3O7; did you mean GA307?"),
        (
            "deny,often",
            "write deny, warn or rules, such as deny,GA410: there is no rule often; gpu-admission rules lists them all.",
        ),
        (",", "is empty; write deny, warn or rules, such as deny,GA410"),
    ],
)
def test_unknown_word_that_should_fail_a_review_is_answered_with_near_rules(invoke, files, words, error):
    done = invoke("review", "--fail-on", words, files["fine"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, f"Error: Invalid value for '--fail-on': {error}")


def test_summary_names_the_rules_that_fail_the_review(invoke, cluster, files):
    done = invoke("review", "--cluster", cluster, "-o", "junit", "--fail-on", "GA313", *files.values())
    lines = done.stderr.splitlines()
    assert lines[lines.index("What fails:") + 1 :][:1] == ["  warned.yaml:1  Pod team-a/warned  admitted  GA313"]


def test_quiet_review_shows_problems_and_counts_everything(invoke, cluster, files):
    done = invoke("review", "--cluster", cluster, "--quiet", "--no-diff", *files.values())
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines if ".yaml:1  " in line] == ["warned.yaml:1", "refused.yaml:1"]
    assert lines[-1] == "3 objects: 2 admitted (1 with warnings, 2 converted), 1 refused"


def test_quiet_review_without_problems_is_one_line(invoke, cluster, files):
    assert invoke("review", "--cluster", cluster, "-q", files["fine"]).stdout == "1 object: 1 admitted (1 converted)\n"


def test_review_without_diffs_shows_no_change(invoke, cluster, files):
    done = invoke("review", "--cluster", cluster, "--no-diff", files["fine"])
    assert done.stdout.splitlines() == [
        "fine.yaml:1  Pod team-a/fine  admitted, converted",
        "refers to ResourceClaimTemplate team-a/gpu-c6e64bdbb49dc79c (-o yaml prints it in full)",
        "",
        "1 object: 1 admitted (1 converted)",
    ]
