"""`gpu-admission review DIR` of any repository: other files are skipped, and a broken file does not stop the review."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from tests.robustness.repositories.reviews import NO_MANIFESTS, WITHOUT_KIND, names, pod, review
from webhook.cli import main

HELM_TEMPLATE = (
    '{{- if .Values.gpu }}\napiVersion: v1\nkind: Pod\nmetadata: {name: "{{ .Release.Name }}"}\n{{- end }}\n'
)


SKIPPED = "1 file skipped: no Kubernetes objects"


@pytest.mark.parametrize("name", NO_MANIFESTS)
def test_file_without_objects_is_skipped_and_counted(write, name):
    write({name: NO_MANIFESTS[name], "pod.yaml": pod("train")})
    done = review("repo")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == SKIPPED


def test_skipped_files_are_counted_on_standard_error_where_standard_output_is_for_programs(write):
    write({"package.json": "{}", "pod.yaml": pod("train")})
    done = review("-o", "json", "repo")
    assert (names(done), done.stderr) == (["train"], f"{SKIPPED}\n")


def test_document_without_object_beside_objects_is_counted_as_a_document(write):
    write({"all.yaml": yaml.safe_dump_all([pod("train"), {"just": "data"}, pod("serve")])})
    done = review("repo")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "1 document skipped: no Kubernetes objects"


@pytest.mark.parametrize("name", NO_MANIFESTS)
def test_strict_makes_what_is_skipped_an_error(write, name):
    write({name: NO_MANIFESTS[name], "pod.yaml": pod("train")})
    done = review("--strict", "repo")
    assert done.exit_code == 2
    assert f"repo/{name}" in done.stderr
    assert "skipped" not in done.output


@pytest.mark.parametrize("name", NO_MANIFESTS)
def test_file_that_is_named_is_not_skipped(write, name):
    write({name: NO_MANIFESTS[name], "pod.yaml": pod("train")})
    done = review(f"repo/{name}", "repo/pod.yaml")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"repo/{name}")
    assert "Pod default/train" in done.stdout


def test_folder_without_objects_is_a_usage_error_that_tells_what_was_skipped(write):
    write({"package.json": "{}"})
    done = review("repo")
    assert done.exit_code == 2
    assert done.stderr.endswith(f"Error: nothing to review: no objects in repo; {SKIPPED}\n")


@pytest.mark.parametrize("name", ["chart/templates/pod.yaml", "chart/templates/tests/pod.yaml", "anywhere/pod.yaml"])
def test_helm_template_is_skipped_with_what_to_do(write, name):
    write({"chart/Chart.yaml": "", name: HELM_TEMPLATE, "pod.yaml": pod("train")})
    done = review("repo")
    assert done.exit_code == 0
    assert (
        done.stdout.splitlines()[-1]
        == "1 file skipped: templates; review what they render, such as the output of `helm template`"
    )


def test_helm_template_that_happens_to_be_yaml_is_skipped(write):
    write({"chart/Chart.yaml": "", "chart/templates/pod.yaml": pod("{{ .Release.Name }}"), "pod.yaml": pod("train")})
    assert names(review("-o", "json", "repo")) == ["train"]


def test_manifest_among_helm_templates_is_reviewed(write):
    write({"chart/Chart.yaml": "", "chart/templates/pod.yaml": pod("train")})
    assert names(review("-o", "json", "repo")) == ["train"]


def test_quoted_braces_make_no_template(write):
    write({"workflow.yaml": pod("train") | {"metadata": {"name": "train", "annotations": {"a": "{{inputs.a}}"}}}})
    assert names(review("-o", "json", "repo")) == ["train"]


def test_broken_document_does_not_stop_the_others(write):
    texts = [yaml.safe_dump(pod("train")), "apiVersion: v1\nkind: Pod\nmetadata: [\n", yaml.safe_dump(pod("serve"))]
    write({"a.yaml": "---\n".join(texts), "b.yaml": pod("batch")})
    done = review("-o", "json", "repo")
    assert (done.exit_code, names(done)) == (2, ["train", "serve", "batch"])
    assert done.stderr.splitlines()[-1] == "1 problem; everything else was reviewed"


@pytest.mark.parametrize("content", ["kind: Pod\nmetadata: {name: a}\n", "apiVersion: v1\nkind: List\nitems: [1]\n"])
def test_object_that_lacks_something_is_a_problem_rather_than_skipped(write, content):
    write({"a.yaml": content, "b.yaml": pod("train")})
    done = review("-o", "json", "repo")
    assert (done.exit_code, names(done)) == (2, ["train"])
    assert done.stderr.startswith("repo/a.yaml:")


def test_manifest_in_utf16_is_a_problem(write, tmp_path):
    write({"b.yaml": pod("train")})
    (tmp_path / "repo" / "a.yaml").write_bytes(yaml.safe_dump(pod("train")).encode("utf-16"))
    done = review("repo")
    assert done.exit_code == 2
    assert done.stderr.startswith("repo/a.yaml:1:1: the text is not UTF-8")


def test_refusal_beside_a_problem_ends_with_code_2(write):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: a}\n"
    write({"a.yaml": text, "b.yaml": "apiVersion: v1\nkind: ["})
    assert review("repo").exit_code == 2


def test_old_object_that_is_missing_does_not_stop_the_others(write):
    write({"old.yaml": pod("train"), "new.yaml": yaml.safe_dump_all([pod("train"), pod("serve")])})
    done = review("--operation", "UPDATE", "--old", "repo/old.yaml", "-o", "json", "repo/new.yaml")
    assert (done.exit_code, names(done)) == (2, ["train"])


HELM_OUTPUT = """\
---
# Source: train/templates/pod.yaml
apiVersion: v1
kind: Pod
metadata: {name: train, name: train}
---
# Source: train/charts/db/templates/broken.yaml
apiVersion: v1
kind: [
---
# A comment of the template

# Source: train/templates/late.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
"""


def test_messages_about_helm_output_name_the_template(write):
    done = review("-", stdin=HELM_OUTPUT)
    assert "STDIN (train/templates/pod.yaml):3  Pod default/train  refused\n" in done.stdout
    assert "GA710 deny  STDIN (train/templates/pod.yaml):5:" in done.stdout
    assert "STDIN (train/templates/late.yaml):14  ConfigMap plain" in done.stdout
    assert done.stderr.startswith("STDIN (train/charts/db/templates/broken.yaml):9:8: expected a value here\n")


def test_messages_about_kustomize_output_name_the_origin(write):
    origin = {"config.kubernetes.io/origin": "path: base/pod.yaml\n"}
    document = pod("train") | {"metadata": {"name": "train", "annotations": origin}}
    done = review("-", stdin=yaml.safe_dump(document))
    assert done.stdout.startswith("STDIN (base/pod.yaml):1  Pod default/train")


def test_file_with_helm_output_keeps_its_own_name(write):
    write({"all.yaml": HELM_OUTPUT})
    assert "repo/all.yaml:3  Pod default/train  refused\n" in review("repo/all.yaml").stdout


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}}


def explain(*arguments):
    return CliRunner().invoke(main, ["explain", *arguments], prog_name="gpu-admission")


def test_explain_skips_and_counts_what_is_no_manifest(write):
    write({**NO_MANIFESTS, "pod.yaml": pod("train")})
    done = explain("--cluster", "repo/pod.yaml", "repo")
    assert (done.exit_code, done.stderr) == (1, f"{len(NO_MANIFESTS)} files skipped: no Kubernetes objects\n")
    assert done.stdout.startswith("pod default/train  unknown\n")


def test_folder_of_the_cluster_may_hold_other_files(write):
    write({**WITHOUT_KIND, "node.yaml": NODE, "version.yaml": "serverVersion: {gitVersion: v1.36.0}\n"})
    write({"../pod.yaml": pod("train")})
    done = review("--cluster", "repo", "pod.yaml")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "GA413" in done.stdout


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (WITHOUT_KIND, "repo: holds no Kubernetes objects"),
        ({"node.yaml": "kind: Node\n"}, "repo/node.yaml:1:1: has no apiVersion; every object of Kubernetes names one"),
        ({"node.yaml": "kind: [Node\n"}, 'repo/node.yaml:1:12: expected "," or "]" in the list that begins at line 1'),
    ],
    ids=["nothing but other files", "without apiVersion", "broken"],
)
def test_nothing_is_reviewed_if_facts_of_the_cluster_may_be_missing(write, files, problem):
    write({**files, "../pod.yaml": pod("train")})
    done = review("--cluster", "repo", "pod.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"{problem}\n1 problem; nothing was done\n"


def test_large_file_without_objects_is_not_parsed(write, monkeypatch):
    parsed = []
    scan = "webhook.cli.manifest_reader.scan_documents"
    monkeypatch.setattr(scan, lambda content, **_: (parsed.append(content), ([], []))[1])
    write({"package-lock.json": json.dumps({"packages": {str(n): {"version": "1.0.0"} for n in range(1000)}})})
    write({"openapi.json": json.dumps({"definitions": [{"properties": {"kind": "apiVersion: v1"}}] * 1000})})
    assert "2 files skipped: no Kubernetes objects" in review("repo").stderr
    assert parsed == []


UNRENDERED = {
    "jinja.yaml": "apiVersion: v1\nkind: Pod\nspec:\n{% if gpu %}\n  a: 1\n{% endif %}\n",
    "terraform.yaml": 'apiVersion: v1\nkind: Pod\n%{ if gpu ~}\nmetadata: {name: "a"}\n%{ endif ~}\n',
    "lines.yaml": "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n${CONTAINERS}\nmore\n",
    "name.yaml": pod("${NAME}"),
    "default.yaml": pod("${NAME:-train}"),
    "helm-elsewhere.yaml": pod("{{ .Release.Name }}"),
    "namespace.yaml": pod("train") | {"metadata": {"name": "train", "namespace": "$(NAMESPACE)"}},
}


@pytest.mark.parametrize("name", UNRENDERED)
def test_template_of_other_tools_is_skipped_and_counted(write, name):
    write({name: UNRENDERED[name], "pod.yaml": pod("train")})
    done = review("repo")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("1 file skipped: templates; review what they render")


def test_template_that_is_named_is_reviewed(write):
    write({"name.yaml": pod("${NAME}")})
    assert names(review("-o", "json", "repo/name.yaml")) == ["${NAME}"]


FOREIGN = {
    "zarf.yaml": "kind: ZarfPackageConfig\nmetadata: {name: operator}\n",
    "stack.yaml": "Resources:\n  Role:\n    kind: a\n    Value: !Ref Name\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_document_of_another_tool_that_looks_like_a_manifest_is_skipped(write, name):
    write({name: FOREIGN[name], "pod.yaml": pod("train")})
    done = review("repo")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == SKIPPED


@pytest.mark.parametrize(
    "content", [" apiVersion: v1\n kind: Pod\n spec: [\n", '{"apiVersion": "v1", "kind": "Pod",\n']
)
def test_broken_manifest_is_no_document_of_another_tool(write, content):
    write({"broken.yaml": content, "pod.yaml": pod("train")})
    assert review("repo").exit_code == 2
