"""`review` as text: the line of the file with a finding, a caret below the place, and what stands there once only."""

from __future__ import annotations

import json

import pytest

from policies.kubernetes.yaml import load_document
from tests.cli.quota_files import EXAMPLES, WITH_QUOTA

COUNT = {"nvidia.com/gpu.count": "8"}
MALFORMED = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: team-a}\nspec:\n"


@pytest.fixture
def excerpts(invoke, cluster, folder):
    """The lines with carets below them, each with the column of its caret."""

    def excerpts(text, name="pod.yaml"):
        (folder / name).write_bytes(text.encode())
        lines = invoke("review", "--cluster", cluster, name).stdout.split("\n")
        carets = [index for index, line in enumerate(lines) if line.strip() == "^"]
        return [(lines[index - 1].removeprefix("    "), lines[index].index("^") - 4) for index in carets]

    return excerpts


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines_are_not_shown(excerpts, end):
    text = f"{MALFORMED}  containers: 1\n  nodeSelector: {{}}\n"
    assert excerpts(text.replace("\n", end)) == [("  containers: 1", 14)]


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
def test_document_with_other_ends_of_lines_has_no_excerpt(excerpts, end):
    assert excerpts(f"{MALFORMED}  containers: 1\n".replace("\n", end)) == []


def test_line_is_that_of_the_file_and_not_of_the_document(excerpts):
    assert excerpts(f"# first\n---\n# second\n{MALFORMED}  containers: 1\n") == [("  containers: 1", 14)]


def test_tabs_take_one_column(excerpts, pod):
    text = json.dumps(pod(nodeSelector=COUNT), indent="\t")
    assert excerpts(text) == [('   "nvidia.com/gpu.count": "8"', 27)]


def test_control_characters_take_one_column_and_are_not_printed(invoke, cluster, write):
    line = '  nodeSelector: {"\u202e\u200b": a, nvidia.com/gpu.count: "8"}'
    text = f"{MALFORMED}{line}\n  containers: [{{name: a, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]\n"
    done = invoke("review", "--cluster", cluster, write("pod.yaml", text))
    shown = line.replace("\u202e", " ").replace("\u200b", " ")
    before = " " * line.index('"8"')
    assert f"    {shown}\n    {before}^\n" in done.stdout


@pytest.mark.parametrize(
    ("comment", "columns"),
    [("müller", 6), ("\u65e5\u672c", 4), ("\uff21", 2), ("e\u0301", 1), ("\U0001f600", 2)],
    ids=["accented", "wide", "full-width", "combining", "emoji"],
)
def test_caret_stands_below_the_place_behind_characters_of_other_widths(excerpts, comment, columns):
    before = '  nodeSelector: {"'
    line = f'{before}{comment}": a, nvidia.com/gpu.count: "8"}}'
    text = f"{MALFORMED}{line}\n  containers: [{{name: a, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]\n"
    ((shown, caret),) = [each for each in excerpts(text) if "count" in each[0]]
    assert shown == line
    assert caret == len(before) + columns + len('": a, nvidia.com/gpu.count: ')


def test_json_on_one_line_is_cut_on_both_sides(excerpts, pod):
    ((shown, caret),) = excerpts(json.dumps(pod(nodeSelector=COUNT, hostname="a" * 300)))
    assert len(shown) == 100
    assert (shown[0], shown[-1]) == ("…", "…")
    assert shown[:caret].endswith('"nodeSelector": {"nvidia.com/gpu.count": ')
    assert shown[caret:].startswith('"8"}')


def test_long_line_of_wide_characters_is_cut_to_the_columns(excerpts, pod):
    document = pod(hostname="\u65e5" * 200, nodeSelector=COUNT)
    ((shown, caret),) = excerpts(json.dumps(document, ensure_ascii=False))
    wide = shown.count("\u65e5")
    assert (wide > 10, shown[0]) == (True, "…")
    assert caret + len('"8"}}}') == len(shown) + wide
    assert 98 <= len(shown) + wide <= 100


def test_object_in_an_admission_review_has_its_line(excerpts, pod):
    document = pod()
    document["spec"]["nodeSelector"] = COUNT
    document["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1}
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "object": document,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert excerpts(json.dumps(review, indent=1)) == [('     "nvidia.com/gpu.count": "8"', 29)]


def test_findings_at_one_place_share_an_excerpt(excerpts):
    expression = json.dumps("true ||\n device.drivers == 'a' || device.attribute == 1")
    head = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n"
    line = f"spec: {{selectors: [{{cel: {{expression: {expression}}}}}]}}"
    assert excerpts(f"{head}{line}\n") == [(line, line.index('"'))]


def test_finding_on_the_whole_object_has_no_excerpt(invoke, write, pod):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 2}]},
    }
    done = invoke("review", write("files.yaml", namespace, quota, pod(gpus=3)))
    assert (
        "  GA502 deny  files.yaml:16:1  A namespace must not have more GPUs than its quota allows\n"
        '    An administrator can raise limit "all" of GPUQuota gpu\n'
    ) in done.stdout


def test_refusal_by_two_limits_has_each_number_once(invoke):
    clusters = ("--cluster", EXAMPLES / "cluster", "--cluster", WITH_QUOTA)
    done = invoke("review", *clusters, EXAMPLES / "quota-exceeded")
    (line,) = [each for each in done.stdout.splitlines() if "needs 4 GPUs, 2 of 8 left" in each]
    assert line.endswith('left in limit "memory" (159.3 reserved) [GA502]')


def test_reason_without_a_subject_is_printed_for_each_field(invoke, cluster, write):
    text = f"{MALFORMED}  containers: 1\n  initContainers: 1\n  tolerations: 1\n"
    done = invoke("review", "--cluster", cluster, write("pod.yaml", text))
    reasons = [line for line in done.stdout.splitlines() if "is a number" in line]
    assert len(reasons) == 3
    assert sum(line.startswith("    Reason: ") for line in reasons) == 2


def test_reason_that_was_printed_is_not_repeated(invoke, cluster, write, pod):
    document = pod(gpus="0.5")
    document["spec"]["containers"].append({**document["spec"]["containers"][0], "name": "other"})
    done = invoke("review", "--cluster", cluster, write("pod.yaml", document))
    assert done.stdout.count('"0.5" is not a whole number of devices') == 1


def test_long_file_with_many_findings_is_split_once():
    document = load_document("\n".join(["a:", *["- 1"] * 50_000]))
    assert all(document.source_line(line) == "- 1" for line in range(2, 50_001))
    assert (document.source_line(1), document.source_line(0), document.source_line(50_002)) == ("a:", "", "")
