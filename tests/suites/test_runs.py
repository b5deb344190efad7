"""Runs: the choice of cases, golden files, JUnit XML and exit codes."""

from __future__ import annotations

import os
import re

import pytest
import yaml
from junitparser import JUnitXml

PASSES, FAILS = {"verdict": "admitted"}, {"verdict": "refused"}


@pytest.fixture
def suite(folder, pod):
    """Write a suite whose cases have a name and an expectation."""

    def suite(**expectations):
        cases = [{"name": name, "manifest": pod, "expect": expect} for name, expect in expectations.items()]
        document = {"apiVersion": "test.gpu-admission.io/v1alpha1", "kind": "Suite", "cases": cases}
        (folder / "suite.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        return "suite.yaml"

    return suite


def test_exit_code_is_1_if_a_case_failed(run, suite):
    done = run(suite(good=PASSES, bad=FAILS))
    assert done.exit_code == 1
    assert done.stdout.endswith("2 cases: 1 passed, 1 failed\n")


def test_nothing_to_test_is_an_error(run):
    done = run()
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        "Error: nothing to test: name suites, or folders with suites",
    )


def test_run_tries_the_cases_whose_names_match(run, suite):
    done = run("--run", "^go+d", suite(good=PASSES, bad=FAILS))
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "1 case: 1 passed")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("x", "no case name matches --run x; without --run, all cases are tried"),
        ("(", "--run needs a regular expression: missing ), unterminated subpattern at position 0"),
    ],
)
def test_run_that_matches_no_case_is_an_error(run, suite, pattern, said):
    done = run("--run", pattern, suite(good=PASSES))
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, f"Error: {said}")


def test_quiet_leaves_out_what_passed(run, suite):
    shown = run("-q", suite(good=PASSES, bad=FAILS)).stdout
    assert "good" not in shown
    assert "bad" in shown


def test_golden_file_is_written_and_then_compared(run, suite, folder):
    name = suite(good={"golden": "golden/pod.yaml"})
    first = run(name)
    assert (first.exit_code, "golden/pod.yaml does not exist; --update writes it" in first.stdout) == (1, True)
    updated = run("--update", name)
    assert (updated.exit_code, updated.stdout.splitlines()[0]) == (
        0,
        "PASS  suite.yaml:4  good  (golden/pod.yaml written)",
    )
    assert run(name).exit_code == 0
    assert run("--update", name).stdout.splitlines()[0] == "PASS  suite.yaml:4  good"
    (folder / "golden" / "pod.yaml").write_text("kind: Pod\n")
    assert "golden/pod.yaml differs; --update writes it anew" in run(name).stdout


def test_golden_file_is_what_review_prints(run, invoke, suite, folder, pod):
    run("--update", suite(good={"golden": "golden.yaml"}))
    (folder / "pod.yaml").write_text(yaml.safe_dump(pod, sort_keys=False))
    assert (folder / "golden.yaml").read_text() == invoke("review", "-o", "yaml", "pod.yaml").stdout


def test_golden_file_of_a_refused_object_is_not_written(run, suite, folder, pod):
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.count": "8"}
    pod["metadata"]["namespace"] = "team-a"
    del pod["spec"]["containers"][0]["name"]
    done = run("--update", suite(bad={"golden": "golden.yaml"}))
    assert done.exit_code == 1
    assert "expect.golden: nothing is admitted: the object is refused" in done.stdout
    assert not (folder / "golden.yaml").exists()


def test_golden_file_that_cannot_be_written_leaves_nothing(run, suite, folder):
    (folder / "golden.yaml").mkdir()
    done = run("--update", suite(good={"golden": "golden.yaml"}))
    assert (done.exit_code, re.search("expect.golden: golden.yaml: is a directory", done.stdout) is not None) == (
        2,
        True,
    )
    assert sorted(path.name for path in folder.iterdir()) == ["golden.yaml", "suite.yaml"]


@pytest.mark.parametrize("arguments", [[], ["--update"]])
def test_golden_file_that_is_a_pipe_is_not_read(run, suite, folder, arguments):
    os.mkfifo(folder / "golden.yaml")
    done = run(*arguments, suite(good={"golden": "golden.yaml"}))
    assert (done.exit_code, "expect.golden: golden.yaml: is a pipe; name a regular file" in done.stdout) == (2, True)


def test_junit_has_a_case_for_each_case(run, suite, folder):
    done = run("-o", "junit", suite(good=PASSES, bad=FAILS, untried={"golden": "."}))
    (found,) = JUnitXml.fromstring(done.stdout.encode())
    assert (found.name, found.tests, found.failures, found.errors) == ("suite.yaml", 3, 1, 1)
    outcomes = {case.name: [type(each).__name__ for each in case.result] for case in found}
    assert outcomes == {"good": [], "bad": ["Failure"], "untried": ["Error"]}


def test_junit_has_an_error_for_a_broken_suite(run, folder):
    (folder / "suite.yaml").write_text("apiVersion: test.gpu-admission.io/v1alpha1\nkind: Suite\n")
    done = run("-o", "junit", "suite.yaml")
    (found,) = JUnitXml.fromstring(done.stdout.encode())
    assert (done.exit_code, found.errors, [case.name for case in found]) == (2, 1, ["unreadable at 1:1"])


def test_hostile_names_are_printed_on_one_line(run, suite):
    done = run(suite(**{"a\x1b[31m\nPASS": FAILS}))
    assert done.stdout.splitlines()[0] == "FAIL  suite.yaml:4  a [31m PASS"
