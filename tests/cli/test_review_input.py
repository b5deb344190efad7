"""Input of `review`: files, folders, standard input, lists."""

from __future__ import annotations

import json

import pytest
import yaml

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
SETTINGS = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}


def names(results):
    return [result["object"]["name"] for result in results]


def test_several_files_are_reviewed_in_their_order(reviewed, write, pod):
    assert names(reviewed(write("z.yaml", pod("z")), write("a.yaml", pod("a")))) == ["z", "a"]


def test_documents_of_a_file_are_reviewed_one_by_one(reviewed, write, pod):
    assert names(reviewed(write("pods.yaml", pod("a"), "# nothing but a comment\n", pod("b")))) == ["a", "b"]


def test_json_is_read(reviewed, write, pod):
    (result,) = reviewed(write("pod.json", json.dumps(pod(nodeSelector={"nvidia.com/gpu.count": "8"}), indent=2)))
    assert result["object"]["name"] == "train"
    assert result["findings"][0]["line"] == 21


def test_standard_input_is_read_for_a_dash(reviewed, write, pod):
    (result,) = reviewed("-", stdin=json.dumps(pod()))
    assert result["object"]["name"] == "train"
    assert result["source"] == {"file": "STDIN", "line": 1}


def test_refusal_of_standard_input_names_it_as_kubectl_does(run, cluster, pod):
    done = run("review", "--cluster", cluster, "-", stdin=json.dumps(pod(gpus="0.5")))
    assert done.returncode == 1
    assert 'Error from server (Forbidden): error when creating "STDIN": admission webhook' in done.stdout


def test_folder_is_read_with_all_that_is_in_it_sorted(reviewed, write, pod):
    for name in ("b.yaml", "a.yml", "c.json", "deep/er/d.yaml", ".hidden/e.yaml", ".f.yaml", "g.txt", "h.yaml.bak"):
        write(f"manifests/{name}", json.dumps(pod(name.rpartition("/")[2].partition(".")[0])))
    results = reviewed("manifests")
    assert [result["source"]["file"] for result in results] == [
        "manifests/a.yml",
        "manifests/b.yaml",
        "manifests/c.json",
        "manifests/deep/er/d.yaml",
    ]


def test_files_and_subfolders_are_read_in_the_order_of_kubectl(reviewed, write, pod):
    for name in ("m.yaml", "a/z.yaml", "z/a.yaml", "a.yaml", "m/a.yaml"):
        write(f"manifests/{name}", pod())
    files = [result["source"]["file"] for result in reviewed("manifests")]
    assert files == [f"manifests/{name}" for name in ("a/z.yaml", "a.yaml", "m/a.yaml", "m.yaml", "z/a.yaml")]


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_items_of_lists_are_reviewed_one_by_one(reviewed, write, pod, kind):
    items = [pod("a"), pod("b", nodeSelector={"nvidia.com/gpu.count": "8"})]
    results = reviewed(write("list.yaml", {"apiVersion": "v1", "kind": kind, "items": items}))
    assert names(results) == ["a", "b"]
    assert [result["source"]["line"] for result in results] == [4, 16]
    assert [finding["line"] for finding in results[1]["findings"]] == [29]


def test_items_of_a_typed_list_have_its_kind(reviewed, write, pod):
    item = pod()
    del item["kind"], item["apiVersion"]
    (result,) = reviewed(write("list.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [item]}))
    assert result["object"]["kind"] == "Pod"
    assert result["templates"]


def test_lists_in_lists_are_opened(reviewed, write, pod):
    inner = {"apiVersion": "v1", "kind": "List", "items": [pod("a")]}
    assert names(reviewed(write("list.yaml", {"apiVersion": "v1", "kind": "List", "items": [inner]}))) == ["a"]


def test_kind_that_ends_with_list_and_has_no_items_is_an_object(reviewed, write):
    document = {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "a"}}
    assert names(reviewed(write("list.yaml", document))) == ["a"]


def test_anchors_are_written_out(invoke, cluster, write):
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: team-a}
spec:
  containers:
  - name: one
    resources: &resources {limits: {nvidia.com/gpu: 1}}
  - name: two
    resources: *resources
"""
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pod.yaml", text))
    assert done.stdout.count("request: one") == done.stdout.count("request: two") == 1
    assert "&" not in done.stdout


def test_nothing_named_is_a_usage_error(invoke):
    done = invoke("review")
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: nothing to review: name files, folders, or - for standard input\n")


@pytest.mark.parametrize("text", ["", "# a comment\n", "---\n---\n", "apiVersion: v1\nkind: List\nitems: []\n"])
def test_files_without_objects_are_a_usage_error(invoke, write, text):
    done = invoke("review", write("a.yaml", text), write("b.yaml", text))
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: nothing to review: no objects in a.yaml, b.yaml\n")


@pytest.fixture
def repository(write, pod):
    """A pod beside the files that options name."""
    write("pod.yaml", pod())
    write("cluster/more/nodes.yaml", NODE)
    write("cluster/pods.yaml", pod("running"))
    write("settings.yaml", SETTINGS)
    write("known.yaml", "findings: []\n")


@pytest.mark.parametrize(
    ("options", "skipped"),
    [
        (("--cluster", "cluster"), ["2 files skipped: named by --cluster"]),
        (("--cluster", "./cluster/pods.yaml", "--exclude", "nodes.yaml"), ["1 file skipped: named by --cluster"]),
        (
            ("--cluster", "cluster", "--settings", "settings.yaml", "--baseline", "known.yaml", "--strict"),
            [
                "1 file skipped: named by --baseline",
                "2 files skipped: named by --cluster",
                "1 file skipped: named by --settings",
            ],
        ),
    ],
    ids=["folder", "file", "several options"],
)
def test_files_that_options_name_are_not_reviewed_with_their_folder(invoke, repository, options, skipped):
    if "known.yaml" not in options:
        options = (*options, "--exclude", "/settings.yaml", "--exclude", "/known.yaml")
    lines = invoke("review", "--no-diff", *options, ".").stdout.splitlines()
    assert [line for line in lines if "skipped" in line] == skipped
    assert [line.split()[2] for line in lines if ".yaml:1  " in line] == ["team-a/train"]


def test_old_objects_are_not_reviewed_with_their_folder(invoke, write, pod):
    write("apps/pod.yaml", pod())
    write("apps/before/pod.yaml", pod())
    done = invoke("review", "--operation", "UPDATE", "--old", "apps/before/pod.yaml", "apps")
    assert done.stdout.splitlines()[-2:] == ["1 object: 1 not reviewed", "1 file skipped: named by --old"]


@pytest.mark.parametrize("path", ["cluster", "cluster/pods.yaml", "cluster/more"])
def test_files_that_are_named_for_review_are_reviewed_whatever_options_name_them(invoke, repository, path):
    assert "skipped" not in invoke("review", "--cluster", "cluster", path).stdout


def test_folder_with_nothing_else_than_named_files_is_a_usage_error(invoke, write, pod):
    write("repository/cluster/pods.yaml", pod())
    done = invoke("review", "--cluster", "repository/cluster", "repository")
    assert done.exit_code == 2
    assert done.stderr.endswith("nothing to review: no objects in repository; 1 file skipped: named by --cluster\n")


@pytest.mark.parametrize(("version", "kind"), [("nvidia.com/v1", "ClusterPolicy"), ("v1", "Node")])
def test_namespace_of_a_cluster_scoped_object_is_ignored_as_the_api_server_ignores_it(invoke, write, version, kind):
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: one, namespace: kube-system}}\nspec: {{}}\n"
    done = invoke("review", write("one.yaml", text))
    assert done.stdout.splitlines()[0].split()[:3] == ["one.yaml:1", kind, "one"]
    assert "not reviewed" not in done.stdout


def marked(document, text):
    """The object with a value in labels, annotations and the node selector."""
    document = json.loads(json.dumps(document))
    pod = document["spec"].get("template", document)
    pod.setdefault("metadata", {}).update(labels={"app": text}, annotations={"note": text})
    pod["spec"]["nodeSelector"] = {"node-role.kubernetes.io/gpu": text}
    return document


@pytest.mark.parametrize("kind", ["Pod", "Job", "List", "AdmissionReview"])
def test_null_in_labels_and_node_selectors_is_empty_text_as_for_the_api_server(reviewed, write, pod, kind):
    def wrapped(text):
        plain = marked(pod(), text)
        plain["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "team-a"}}
        request = {"uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE"}
        return {
            "Pod": plain,
            "Job": marked({**job, "spec": {"template": {"spec": {**plain["spec"], "restartPolicy": "Never"}}}}, text),
            "List": {"apiVersion": "v1", "kind": "List", "items": [plain]},
            "AdmissionReview": {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {**request, "namespace": "team-a", "object": plain},
            },
        }[kind]

    (with_null,), (with_text,) = (
        reviewed(write("object.json", json.dumps(wrapped(text), indent=1))) for text in (None, "")
    )
    assert with_null == with_text
    assert with_null["verdict"] == "admitted"
    assert with_null["patch"] or kind == "Job"


def test_admitted_pod_has_empty_text_where_the_file_has_null(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pod.json", json.dumps(marked(pod(), None))))
    admitted = next(each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "Pod")
    assert admitted["metadata"]["labels"]["app"] == ""
    assert admitted["spec"]["nodeSelector"]["node-role.kubernetes.io/gpu"] == ""
