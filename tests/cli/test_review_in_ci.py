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
    ],
)
def test_warnings_fail_a_review_if_that_is_asked_for(invoke, cluster, files, fail_on, name, expected):
    assert invoke("review", "--cluster", cluster, "--fail-on", fail_on, files[name]).exit_code == expected


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
