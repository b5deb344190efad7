"""Unreadable input: all problems with their places, and a review of everything else."""

from __future__ import annotations

import pytest

SETTINGS = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec:
  conversion:
    unsatisfiable: refuse
    schedulerz: [kai]
"""


def test_all_problems_of_all_files_are_shown_at_once(run, write, pod):
    write("broken.yaml", "apiVersion: v1\nkind: Pod\nkind: Pod\n", "a: [1\n", pod())
    write("shapeless.yaml", "just text\n", "metadata: {name: x}\n", "kind: Pod\n")
    write("settings.yaml", SETTINGS)
    write("cluster/nodes.yaml", "kind: Node\n")
    done = run(
        "review", "--cluster", "cluster", "--settings", "settings.yaml", "broken.yaml", "missing.yaml", "shapeless.yaml"
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        done.stderr
        == """\
settings.yaml:6:20: Write warn or deny: unsatisfiable is "refuse"; spec.conversion.unsatisfiable
settings.yaml:7:17: Write "schedulers": schedulerz is unknown; spec.conversion.schedulerz
cluster/nodes.yaml:1:1: has no apiVersion; every object of Kubernetes names one
broken.yaml:5:6: expected "," or "]" in the list that begins at line 5
missing.yaml: no such file or directory
shapeless.yaml:1:1: is not an object: a manifest is a mapping with apiVersion and kind
shapeless.yaml:3:1: has no apiVersion and no kind; every object of Kubernetes names both
shapeless.yaml:5:1: has no apiVersion; every object of Kubernetes names one
8 problems; nothing was done
"""
    )


def test_one_problem_is_counted_as_one(invoke):
    done = invoke("review", "missing.yaml")
    assert done.exit_code == 2
    assert done.stderr == "missing.yaml: no such file or directory\n1 problem; nothing was done\n"


def test_readable_files_beside_an_unreadable_one_are_reviewed(invoke, write, pod):
    done = invoke("review", write("pod.yaml", pod()), "missing.yaml")
    assert done.exit_code == 2
    assert done.stdout.startswith("pod.yaml:1  Pod team-a/train")
    assert done.stderr == "missing.yaml: no such file or directory\n1 problem; everything else was reviewed\n"


@pytest.mark.parametrize("option", ["--cluster", "--settings", "--old"])
def test_nothing_is_reviewed_if_the_circumstances_cannot_be_read(invoke, write, pod, option):
    operation = ["--operation", "UPDATE"] if option == "--old" else []
    done = invoke("review", option, write("broken.yaml", "a: ["), *operation, write("pod.yaml", pod()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "; nothing was done" in done.stderr


def test_folder_without_manifests_is_a_problem(invoke, folder):
    (folder / "empty").mkdir()
    done = invoke("review", "empty")
    assert done.stderr == "empty: the folder has no files *.yaml, *.yml, *.json\n1 problem; nothing was done\n"


def test_file_that_is_not_utf8_is_a_problem(invoke, folder):
    (folder / "latin.yaml").write_bytes(b"name: gr\xfc\xdfe\n")
    done = invoke("review", "latin.yaml")
    assert done.exit_code == 2
    assert done.stderr.startswith("latin.yaml:1:1: the text is not UTF-8: the byte 0xfc at offset 8 does not fit\n")


def test_broken_standard_input_is_called_as_kubectl_calls_it(invoke):
    done = invoke("review", "-", stdin="a: [1\n")
    assert done.stderr.startswith('STDIN:1:6: expected "," or "]"')


def test_standard_input_can_be_named_once(invoke):
    done = invoke("review", "-", "-", stdin="{}")
    assert done.exit_code == 2
    assert "STDIN: can be read only once; name - once\n" in done.stderr


def test_item_of_a_list_that_is_no_object_is_a_problem_at_its_place(invoke, write):
    done = invoke("review", write("list.yaml", "apiVersion: v1\nkind: List\nitems:\n- text\n- kind: Pod\n"))
    assert done.stderr.splitlines()[:2] == [
        "list.yaml:4:3: is not an object: a manifest is a mapping with apiVersion and kind",
        "list.yaml:5:3: has no apiVersion; every object of Kubernetes names one",
    ]


@pytest.mark.parametrize("kind", ["''", "1", "[Pod]"])
def test_kind_that_is_no_name_is_missing(invoke, write, kind):
    done = invoke("review", write("pod.yaml", f"apiVersion: v1\nkind: {kind}\n"))
    assert done.stderr == (
        "pod.yaml:2:7: has no kind; every object of Kubernetes names one\n1 problem; nothing was done\n"
    )


def test_unknown_option_is_a_usage_error(invoke):
    done = invoke("review", "--clutser", "x", "pod.yaml")
    assert done.exit_code == 2
    assert "No such option '--clutser'" in done.stderr


def test_unknown_output_is_a_usage_error(invoke):
    done = invoke("review", "-o", "xml", "pod.yaml")
    assert done.exit_code == 2
    assert "'xml' is not one of 'text', 'json', 'yaml', 'patch', 'junit', 'sarif', 'github', 'gitlab'." in done.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "settings.yaml: holds no documents; one GPUAdmissionPolicy is expected"),
        ("a: 1\n---\nb: 2\n", "settings.yaml: holds 2 documents; one GPUAdmissionPolicy is expected"),
        ("- 1\n", "settings.yaml:1:1: a GPUAdmissionPolicy is a mapping with apiVersion, kind, metadata and spec"),
        ("a: [\n", "settings.yaml:1:5: expected a value here"),
    ],
)
def test_invalid_settings_are_a_problem(invoke, write, pod, content, problem):
    done = invoke("review", "--settings", write("settings.yaml", content), write("pod.yaml", pod()))
    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == problem


def test_missing_settings_are_a_problem(invoke, write, pod):
    done = invoke("review", "--settings", "missing.yaml", write("pod.yaml", pod()))
    assert done.stderr == "missing.yaml: no such file or directory\n1 problem; nothing was done\n"


def test_problem_of_a_rule_in_the_settings_has_its_place(invoke, write, pod):
    settings = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec:
  rules:
  - rule: GA307
    severity: warn
  - rule: GA308
    severity: fatal
"""
    done = invoke("review", "--settings", write("settings.yaml", settings), write("pod.yaml", pod()))
    assert done.stderr.startswith("settings.yaml:9:15: Write deny, warn, audit or off: ")


def test_misspelt_file_gets_a_hint(invoke, write, pod):
    write("train.yaml", pod())
    done = invoke("review", "trian.yaml")
    assert done.stderr.startswith("trian.yaml: no such file or directory; did you mean train.yaml?\n")
