"""Reading suites: which documents are suites, and problems with line and column."""

from __future__ import annotations

import pytest

SUITE = """\
apiVersion: test.gpu-admission.io/v1alpha1
kind: Suite
cases:
- name: admitted
  manifest: {apiVersion: v1, kind: Service, metadata: {name: web, namespace: team-a}}
  expect: {verdict: not reviewed}
"""


def written(folder, text, name="suite.yaml"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("v1alpha1", "v1", 'suite.yaml:1:13: Write test.gpu-admission.io/v1alpha1: apiVersion is "test.gpu-admission.io/v1"; apiVersion'),
        ("kind: Suite", "kind: Suit", 'suite.yaml:2:7: Write Suite: kind is "Suit"; kind'),
        ("cases:", "bogus: 1\ncases:", "suite.yaml:3:8: Write a field that docs/test.md lists: bogus is unknown; bogus"),
        ("name: admitted", "names: admitted", 'suite.yaml:4:10: Write "name": names is unknown; cases[0].names'),
        ("verdict: not", "fits: {verdict: full, node: [a]}, verdict: not", 'suite.yaml:6:40: Write "nodes": node is unknown; cases[0].expect.fits.node'),
        ("not reviewed", "maybe", 'suite.yaml:6:21: Write admitted, refused or not reviewed: verdict is "maybe"; cases[0].expect.verdict'),
        ("verdict: not reviewed", "", "suite.yaml:6:11: Write a verdict, for example: expect is empty, so the case cannot fail; cases[0].expect"),
        ("name: admitted", "name: 1", "suite.yaml:4:9: Put name in quotes: it is 1; it must be text; cases[0].name"),
        ("name: admitted", "name: ''", "suite.yaml:4:9: Write a text: name is empty; cases[0].name"),
        ("cases:", "cases: []\nmetadata:", "suite.yaml:3:8: Write an entry: cases is empty; cases"),
        ("- name: admitted\n  m", "- m", "suite.yaml:4:3: Write name: it is missing; cases[0].name"),
        ("verdict: not reviewed", "findings: [{rule: GA999}]", 'suite.yaml:6:30: Write a rule that gpu-admission rules lists: rule is "GA999"; cases[0].expect.findings[0].rule'),
        ("verdict: not reviewed", "findings: 1", "suite.yaml:6:22: Write entries, each with a dash before it: findings is 1; it must be a list; cases[0].expect.findings"),
        ("verdict: not reviewed", "warnings: ['(']", 'suite.yaml:6:23: Correct the regular expression: warnings[0] is "("; missing ), unterminated subpattern at position 0; cases[0].expect.warnings[0]'),
        ("verdict: not reviewed", "charges: {all: 1.5}", 'suite.yaml:6:27: Write one such as 8, "1/2" or "80Gi": all is 1.5, not an amount; cases[0].expect.charges.all'),
        ("verdict: not reviewed", "verdict: ", "suite.yaml:6:21: Write a value, or remove the field: verdict is empty; cases[0].expect.verdict"),
        ("verdict: not reviewed", "findings: null", "suite.yaml:6:22: Write a value, or remove the field: findings is empty; cases[0].expect.findings"),
        ("verdict: not reviewed", "findings: [{rule: GA307, severity: ~}]", "suite.yaml:6:47: Write a value, or remove the field: severity is empty; cases[0].expect.findings[0].severity"),
        ("verdict: not reviewed", "fits: {verdict: unknown, nodes: }", "suite.yaml:6:44: Write a value, or remove the field: nodes is empty; cases[0].expect.fits.nodes"),
        ("verdict: not reviewed", 'golden: "a\\0b"', "suite.yaml:6:20: Remove the character: golden has a NUL character, which the name of a file cannot have; cases[0].expect.golden"),
        ("cases:", 'cluster: ["a\\0"]\ncases:', "suite.yaml:3:11: Remove the character: cluster[0] has a NUL character, which the name of a file cannot have; cluster[0]"),
        ("  expect", '  old: "a\\0"\n  operation: UPDATE\n  expect', "suite.yaml:6:8: Remove the character: old has a NUL character, which the name of a file cannot have; cases[0].old"),
        ("  expect", "  old: 1\n  operation: UPDATE\n  expect", "suite.yaml:6:8: Write an object, or the name of a file with it: old is 1; cases[0].old"),
        ("  expect", "  operation: UPDATE\n  expect", "suite.yaml:4:3: Write old: cases[0] has operation UPDATE without old, and an update is judged by what it changes; cases[0]"),
        ("  expect", "  old: {}\n  expect", "suite.yaml:4:3: Write operation: UPDATE, or remove old: cases[0] has old without operation UPDATE; cases[0]"),
        ("  manifest: {apiVersion: v1, kind: Service, metadata: {name: web, namespace: team-a}}\n", "", "suite.yaml:4:3: Write either file or manifest: cases[0] has neither file nor manifest; cases[0]"),
        ("  expect", "  file: pod.yaml\n  expect", "suite.yaml:4:3: Write either file or manifest: cases[0] has both file and manifest; cases[0]"),
        ("  expect", "  user: {groups: [ops]}\n  expect", "suite.yaml:6:9: Write a name: user has groups and no name, and no exemption holds for a user without one; cases[0].user"),
        ("  expect", "  object: Pod/x\n  expect", "suite.yaml:4:3: Remove object: cases[0] has object beside manifest, which is one object already; cases[0]"),
        ("cases:", "cases:\n- {name: admitted, file: x, expect: {verdict: refused}}", 'suite.yaml:1:1: Give each its own name: two cases are named "admitted"'),
    ],
)  # fmt: skip
def test_problem_of_a_suite_is_reported_at_its_place(run, folder, old, new, said):
    written(folder, SUITE.replace(old, new, 1))
    done = run("suite.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()
    assert done.stderr.splitlines()[-1].endswith("; nothing was done")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1\n", "suite.yaml: is not a suite: a suite is a mapping with apiVersion, kind and cases"),
        ("", "suite.yaml: has no suite: no document of apiVersion test.gpu-admission.io/... and kind Suite"),
        ("a: [\n", "suite.yaml:1:5: expected a value here"),
    ],
)
def test_file_that_is_not_a_suite_is_a_problem(run, folder, text, said):
    written(folder, text)
    done = run("suite.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)


def test_missing_file_is_a_problem(run):
    done = run("suite.yaml")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "suite.yaml: no such file or directory")


def test_name_that_is_too_long_is_a_problem(run):
    done = run("a" * 5000)
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, f"{'a' * 5000}: file name too long")


def test_folder_is_searched_for_suites(run, folder):
    written(folder, SUITE, "a/one.yaml")
    written(folder, SUITE, "a/b/two.yml")
    written(folder, "kind: [broken", "a/other.yaml")
    done = run("a")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "PASS  a/b/two.yml:4  admitted",
        "PASS  a/one.yaml:4  admitted",
        "",
        "2 cases: 2 passed",
    ]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_suite_in_utf_16_is_a_problem(run, folder, encoding):
    written(folder, SUITE, "a/good.yaml")
    (folder / "a" / "windows.yaml").write_bytes(f"\ufeff{SUITE}".encode(encoding))
    done = run("a")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (2, "PASS  a/good.yaml:4  admitted")
    assert done.stderr.startswith("a/windows.yaml:1:1: the text is not UTF-8")


def test_folder_without_suites_is_a_problem(run, folder):
    written(folder, "a: 1\n", "a/other.yaml")
    done = run("a")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        2,
        "a: has no suite: no document of apiVersion test.gpu-admission.io/... and kind Suite",
    )


def test_suites_of_one_file_are_all_tried(run, folder):
    written(folder, f"{SUITE}---\n{SUITE}")
    assert run("suite.yaml").stdout.endswith("2 cases: 2 passed\n")


def test_suite_can_come_from_standard_input(run):
    assert run("-", stdin=SUITE).stdout == "PASS  STDIN:4  admitted\n\n1 case: 1 passed\n"


def test_broken_suite_does_not_stop_the_others(run, folder):
    written(folder, SUITE, "good.yaml")
    written(folder, SUITE.replace("Suite", "Suit"), "bad.yaml")
    done = run("good.yaml", "bad.yaml")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (2, "PASS  good.yaml:4  admitted")
    assert done.stderr.splitlines()[-1] == "1 problem; the other cases were tried"


def test_review_of_a_folder_skips_suites(run, folder, invoke):
    written(folder, SUITE, "a/suite.yaml")
    written(folder, "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: x}\n", "a/web.yaml")
    done = invoke("review", "a")
    assert "suite" not in done.output
    assert done.exit_code == 0


def test_review_of_a_suite_names_the_command(run, folder, invoke):
    written(folder, SUITE)
    done = invoke("review", "suite.yaml")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        2,
        "suite.yaml:1:1: is a suite of policy tests; run gpu-admission test",
    )
