"""`review --baseline`: known findings do not fail, new ones do, and those that are gone are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

REFUSED = {"nvidia.com/gpu.count": "8"}
DENIES_MISSPELT = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {"rules": [{"rule": "GA313", "severity": "deny"}]},
}
MISSPELT = {"nvidia.com/gpu.product": "NVIDIA-H100"}
ENTRY = "- file: pods/a.yaml\n  object: Pod team-a/a\n  rule: GA307\n  level: error\n  path: spec.nodeSelector[nvidia.com/gpu.count]\n"
NO_ENTRY = "is not an entry: it needs the texts file, object, rule, level, path, with the level error or warning, and may have a count above 0"


def plugin(*replicas, flags=""):
    """A config of the device plugin, with time-slicing and flags."""
    resources = "".join(f"        - {{name: nvidia.com/gpu, replicas: {number}}}\n" for number in replicas)
    return (
        "apiVersion: v1\nkind: ConfigMap\n"
        "metadata: {name: plugin, namespace: gpu-operator, labels: {gpu-admission.io/config: device-plugin}}\n"
        f"data:\n  config.yaml: |\n    version: v1\n    flags: {{{flags}}}\n"
        f"    sharing:\n      timeSlicing:\n        resources:\n{resources}"
    )


@pytest.fixture
def repository(write, pod):
    """A folder with a pod that is refused, and one with a warning."""
    write("pods/a.yaml", pod("a", nodeSelector=REFUSED))
    write("pods/b.yaml", pod("b", nodeSelector=MISSPELT))
    return "pods"


@pytest.fixture
def review(invoke, cluster):
    """Review with the baseline `known.yaml`."""

    def review(*arguments):
        return invoke("review", "--cluster", cluster, "--no-diff", "--baseline", "known.yaml", *arguments)

    return review


@pytest.fixture
def baseline(review, repository):
    """The baseline of the repository."""
    assert review("--update-baseline", repository).exit_code == 0
    return Path("known.yaml")


def test_baseline_has_an_entry_for_each_error_and_warning(baseline):
    assert baseline.read_text() == (
        "# Findings that `gpu-admission review --baseline` accepts; --update-baseline writes this file.\n"
        "findings:\n"
        f"{ENTRY}"
        "- file: pods/b.yaml\n"
        "  object: Pod team-a/b\n"
        "  rule: GA313\n"
        "  level: warning\n"
        "  path: spec.nodeSelector[nvidia.com/gpu.product]\n"
    )


def test_known_findings_do_not_fail(review, repository, baseline):
    done = review("--fail-on", "warn", "--quiet", repository)
    assert done.exit_code == 0
    assert done.stdout == (
        "2 objects: 1 admitted (1 with warnings, 1 converted), 1 refused\n"
        "2 findings left out, because known.yaml has them\n"
    )


def test_object_with_known_findings_stays_refused(review, repository, baseline):
    assert review("pods/a.yaml").stdout.splitlines()[0] == "pods/a.yaml:1  Pod team-a/a  refused (1 known finding)"


def test_new_finding_fails_and_is_shown_without_the_known_ones(review, write):
    file = write("plugin.yaml", plugin(1))
    review("--update-baseline", file)
    write("plugin.yaml", plugin(1, flags="migStrategy: weird"))
    done = review(file)
    assert done.exit_code == 1
    assert "ConfigMap gpu-operator/plugin  refused (1 known finding)" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  GA")] == ["GA134"]
    assert "replicas" not in done.stdout


def test_baseline_survives_moved_lines(review, repository, baseline, write):
    text = Path("pods/a.yaml").read_text()
    write("pods/a.yaml", f"# A comment.\n\n{text}")
    assert review(repository).exit_code == 0


def test_baseline_is_found_from_another_folder(run, repository, baseline, cluster):
    done = run("review", "--cluster", cluster, "--baseline", "../known.yaml", ".", cwd="pods")
    assert done.returncode == 0, done.stdout


def test_second_finding_at_a_known_place_is_new(review, repository, baseline, write, pod):
    write("pods/a.yaml", pod("a", nodeSelector=REFUSED), pod("a", nodeSelector=REFUSED))
    assert review(repository).exit_code == 1


def test_known_warning_that_becomes_a_refusal_is_new(review, repository, baseline, write):
    settings = write("settings.yaml", DENIES_MISSPELT)
    done = review("--settings", settings, "pods/b.yaml")
    assert done.exit_code == 1
    assert "pods/b.yaml:1  Pod team-a/b  refused\n" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "  pods/b.yaml  Pod team-a/b  GA313 warning  spec.nodeSelector[nvidia.com/gpu.product]"
    )
    assert review("--update-baseline", "--settings", settings, "pods/b.yaml").exit_code == 0


def test_findings_of_one_identity_are_counted(review, repository, write, pod):
    write("pods/a.yaml", pod("a", nodeSelector=REFUSED), pod("a", nodeSelector=REFUSED))
    review("--update-baseline", repository)
    assert ENTRY + "  count: 2\n" in Path("known.yaml").read_text()
    assert review(repository).exit_code == 0


def test_object_with_more_findings_than_are_shown_can_be_known(review, write):
    file = write("plugin.yaml", plugin(*[1] * 60))
    assert review("--update-baseline", file).exit_code == 0
    assert "rule: more-findings\n" in Path("known.yaml").read_text()
    assert review(file).stdout.splitlines()[0].endswith(" known findings)")
    write("plugin.yaml", plugin(*[1] * 61))
    assert review(file).exit_code == 1


def test_finding_that_is_gone_is_reported(review, repository, baseline, write, pod):
    write("pods/a.yaml", pod("a"))
    done = review("-q", repository)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-2:] == [
        "known.yaml: 1 known finding no longer found; --update-baseline removes them:",
        "  pods/a.yaml  Pod team-a/a  GA307 error  spec.nodeSelector[nvidia.com/gpu.count]",
    ]


def test_finding_of_a_file_that_is_gone_is_reported(review, repository, baseline):
    Path("pods/a.yaml").unlink()
    assert "1 known finding no longer found" in review(repository).stdout


@pytest.mark.parametrize("arguments", [["pods/b.yaml"], ["--exclude", "a.yaml", "pods"]])
def test_findings_of_files_that_are_not_reviewed_are_left_alone(review, baseline, arguments):
    assert "no longer found" not in review(*arguments).stdout


@pytest.mark.parametrize("arguments", [["pods/b.yaml"], ["--exclude", "a.yaml", "pods"]])
def test_update_keeps_the_entries_of_files_that_are_not_reviewed(review, baseline, arguments):
    before = baseline.read_text()
    assert review("--update-baseline", *arguments).exit_code == 0
    assert baseline.read_text() == before


def test_update_removes_what_is_gone(review, repository, baseline, write, pod):
    write("pods/a.yaml", pod("a"))
    assert "no longer found" not in review("--update-baseline", repository).stdout
    assert "GA307" not in baseline.read_text()


def test_object_that_was_not_reviewed_can_be_known(review, write):
    workflow = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec: {limits: {nvidia.com/gpu: 1}}\n"
    )
    file = write("workflow.yaml", workflow)
    assert review("--update-baseline", file).exit_code == 0
    assert "rule: GA705\n" in Path("known.yaml").read_text()


def test_baseline_does_not_hide_unreadable_input(review, repository, baseline, write):
    write("pods/a.yaml", "apiVersion: v1\nkind: [\n")
    done = review(repository)
    assert done.exit_code == 2
    assert done.stderr.startswith("pods/a.yaml:2:8: ")
    assert "no longer found" not in done.stdout


def test_baseline_is_not_written_if_input_is_unreadable(review, repository, baseline, write):
    before = baseline.read_text()
    write("pods/c.yaml", "apiVersion: v1\nkind: [\n")
    done = review("--update-baseline", repository)
    assert (done.exit_code, done.stdout, baseline.read_text()) == (2, "", before)
    assert done.stderr.endswith("1 problem; known.yaml was not written, because some input cannot be read\n")


def test_standard_input_has_a_baseline(invoke, cluster, pod):
    arguments = ("review", "--cluster", cluster, "--baseline", "known.yaml", "-")
    stdin = json.dumps(pod("a", nodeSelector=REFUSED))
    assert invoke(*arguments, "--update-baseline", stdin=stdin).exit_code == 0
    assert "- file: STDIN\n" in Path("known.yaml").read_text()
    assert invoke(*arguments, stdin=stdin).exit_code == 0
    assert "no longer found" in invoke(*arguments, stdin=json.dumps(pod("a"))).stdout


def test_json_says_which_findings_are_known(review, repository, baseline):
    (first, second) = json.loads(review("-o", "json", repository).stdout)
    assert [finding["known"] for finding in first["findings"] + second["findings"]] == [True, True]


def test_update_needs_a_baseline(invoke, folder):
    done = invoke("review", "--update-baseline", "pods")
    assert done.exit_code == 2
    assert "--update-baseline writes the file of --baseline: name one" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "known.yaml: no such file or directory; --update-baseline writes it"),
        ("findings: [\n", "known.yaml:1:12: expected a value here"),
        ("[]\n", "known.yaml: is not a baseline: it has no list `findings`; --update-baseline writes one"),
        ("findings:\n- {rule: GA307}\n", f'known.yaml:2:3: {{"rule": "GA307"}} {NO_ENTRY}'),
        (f"findings:\n{ENTRY}  count: 0\n", NO_ENTRY),
        (f"findings:\n{ENTRY}  line: 7\n", NO_ENTRY),
        (f"findings:\n{ENTRY.replace('error', 'note')}", NO_ENTRY),
    ],
)
def test_baseline_of_another_shape_is_refused(review, repository, write, text, message):
    if text is not None:
        write("known.yaml", text)
    done = review(repository)
    assert (done.exit_code, done.stdout) == (2, "")
    first, last = done.stderr.splitlines()
    assert last == "1 problem; nothing was done"
    assert first.endswith(message)


def test_baseline_that_cannot_be_written_is_an_error(invoke, repository, cluster):
    done = invoke("review", "--cluster", cluster, "--baseline", "missing/known.yaml", "--update-baseline", repository)
    assert done.exit_code == 1
    assert done.stderr == "Error: --baseline missing/known.yaml: no such file or directory\n"
