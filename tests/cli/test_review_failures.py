"""What fails a review, again at the end of a long report."""

import pytest

REFUSED = {"nvidia.com/gpu.count": "8"}
MISSPELT = {"nvidia.com/gpu.product": "NVIDIA-H100"}
WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: steps, namespace: team-a}
spec: {templates: [{container: {image: a, resources: {limits: {nvidia.com/gpu: 1}}}}]}
"""


@pytest.fixture
def many(write, pod):
    """Eleven pods that are admitted."""
    return write("fine.yaml", *(pod(f"fine-{number}") for number in range(11)))


def last_lines(done, count):
    return done.stdout.splitlines()[-count:]


def test_failures_of_a_long_report_are_listed_before_the_numbers(invoke, cluster, write, pod, many):
    refused = write("refused.yaml", pod("refused", nodeSelector=REFUSED))
    warned = write("warned.yaml", pod("warned", nodeSelector=MISSPELT))
    done = invoke("review", "--cluster", cluster, "--no-diff", many, refused, warned)
    assert done.exit_code == 1
    assert last_lines(done, 4) == [
        "",
        "What fails:",
        "  refused.yaml:1  Pod team-a/refused  refused  GA307",
        "13 objects: 12 admitted (1 with warnings, 12 converted), 1 refused",
    ]


def test_failures_are_those_of_the_exit_code(invoke, cluster, write, pod, many):
    warned = write("warned.yaml", pod("warned", nodeSelector=MISSPELT))
    missed = write("workflow.yaml", WORKFLOW)
    done = invoke("review", "--cluster", cluster, "--no-diff", "--fail-on", "warn", many, warned, missed)
    assert last_lines(done, 4)[:3] == [
        "What fails:",
        "  warned.yaml:1  Pod team-a/warned  admitted  GA313",
        "  workflow.yaml:1  Workflow team-a/steps  not reviewed  GA705",
    ]


def test_short_report_is_not_repeated(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, write("refused.yaml", pod("refused", nodeSelector=REFUSED)))
    assert "What fails:" not in done.stdout


def test_long_report_without_failures_has_no_list(invoke, cluster, many):
    assert "What fails:" not in invoke("review", "--cluster", cluster, many).stdout


def test_list_of_failures_has_an_end(invoke, cluster, write, pod):
    pods = write("pods.yaml", *(pod(f"pod-{number}", nodeSelector=REFUSED) for number in range(60)))
    done = invoke("review", "--cluster", cluster, pods)
    assert last_lines(done, 2) == ["  and 10 more; -o json shows all", "60 objects: 60 refused"]


def test_unreadable_input_comes_last(run, cluster, write, many):
    done = run("review", "--cluster", cluster, "-q", many, write("broken.yaml", "apiVersion: v1\nkind: [\n"))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "broken.yaml:2:8: expected a value here",
        "1 problem; everything else was reviewed",
    ]


@pytest.mark.parametrize("output", ["junit", "sarif"])
def test_reports_for_programs_say_to_people_what_fails(invoke, cluster, write, pod, output):
    refused = write("refused.yaml", pod("refused", nodeSelector=REFUSED))
    done = invoke("review", "--cluster", cluster, "-o", output, refused)
    assert done.stderr == "What fails:\n  refused.yaml:1  Pod team-a/refused  refused  GA307\n1 object: 1 refused\n"


def test_files_can_be_named_by_an_option_as_for_kubectl(invoke, write, pod):
    first, second = write("first.yaml", pod("first")), write("second.yaml", pod("second"))
    done = invoke("review", "-q", "-f", first, "--filename", second)
    assert (done.exit_code, done.stdout.splitlines()[-1][:10]) == (0, "2 objects:")
