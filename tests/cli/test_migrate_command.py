"""`gpu-admission migrate`: outputs, files, and input that it refuses."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from policies.analyses.migrate.proof import PROPERTIES
from testbed import libyaml
from tests.cli.conftest import EXAMPLES
from tests.counted_steps import steps
from webhook.cli.migrations import runs

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: team-a}
spec:
  containers:
  - name: c
    resources: {limits: {nvidia.com/gpu: 1}}
"""
LEFT = POD.replace("spec:\n", "spec:\n  nodeSelector: {nvidia.com/gpu.count: '8'}\n").replace("name: a,", "name: b,")
CHART = (
    "spec:\n  replicas: {{ .Values.replicas }}\n  resources:\n    limits:\n      nvidia.com/gpu: {{ .Values.gpus }}\n"
)


@pytest.fixture
def migrate(invoke, cluster):
    def migrate(*arguments, stdin=None):
        return invoke("migrate", "--cluster", cluster, *arguments, stdin=stdin)

    return migrate


def test_diff_is_printed_and_nothing_written(migrate, write, folder):
    write("pod.yaml", POD)
    done = migrate("pod.yaml")
    assert done.exit_code == 0
    assert done.stdout.startswith("--- pod.yaml\n+++ pod.yaml\n")
    assert done.stderr == "pod.yaml:1  Pod team-a/a  migrated: to ResourceClaimTemplate a-gpu\n1 object: 1 migrated\n"
    assert (folder / "pod.yaml").read_text() == POD


def test_yaml_is_the_whole_text(migrate):
    done = migrate("-o", "yaml", "-", stdin=POD)
    kinds = [document["kind"] for document in libyaml.load_all(done.stdout)]
    assert kinds == ["ResourceClaimTemplate", "Pod"]


def test_texts_of_several_files_name_their_files(migrate, write):
    write("a.yaml", POD)
    write("b.yaml", LEFT)
    done = migrate("-o", "yaml", "a.yaml", "b.yaml")
    assert done.stdout.startswith("---\n# Source: a.yaml\n# added by gpu-admission: the claim of Pod a\n")
    assert f"---\n# Source: b.yaml\n{LEFT}" in done.stdout


def test_left_object_is_reported_with_the_finding(migrate):
    done = migrate("-", stdin=LEFT)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr == (
        "STDIN:5  Pod team-a/b  left: Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family: nvidia.com/gpu.count counts the GPUs of the node; no device knows how many there are; "
        "spec.nodeSelector[nvidia.com/gpu.count] [GA307]\n"
        "1 object: 1 left\n"
    )


def test_file_is_written_in_place_with_its_mode_through_a_link(migrate, write, folder):
    write("pod.yaml", POD)
    (folder / "pod.yaml").chmod(0o640)
    (folder / "link.yaml").symlink_to("pod.yaml")
    done = migrate("--in-place", "link.yaml")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (folder / "link.yaml").is_symlink()
    assert "a-gpu" in (folder / "pod.yaml").read_text()
    assert (folder / "pod.yaml").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["link.yaml", "pod.yaml"]


def test_link_out_of_the_folder_is_not_followed(migrate, write, folder):
    write("manifests/inside.yaml", POD.replace("name: a,", "name: inside,"))
    write("elsewhere/pod.yaml", POD)
    (folder / "manifests/pod.yaml").symlink_to("../elsewhere/pod.yaml")
    done = migrate("--in-place", "manifests")
    assert done.exit_code == 2
    assert done.stderr == (
        "manifests/inside.yaml:1  Pod team-a/inside  migrated: to ResourceClaimTemplate inside-gpu\n"
        f"manifests/pod.yaml:1  Pod team-a/a  left: name {folder}/elsewhere/pod.yaml to change it: the file is a link out of what is named\n"
        "2 objects: 1 migrated, 1 left\n"
    )
    assert (folder / "elsewhere/pod.yaml").read_text() == POD
    assert "inside-gpu" in (folder / "manifests/inside.yaml").read_text()


def test_file_that_is_edited_during_the_migration_is_left(migrate, write, folder, monkeypatch):
    write("pod.yaml", POD)
    edited = f"# by hand\n{POD}"
    monkeypatch.setattr(runs, "write_files", edit_before(runs.write_files, folder / "pod.yaml", edited))
    done = migrate("--in-place", "pod.yaml")
    assert done.exit_code == 2
    assert done.stderr == (
        "pod.yaml:1  Pod team-a/a  left: the file was not written: was changed after it was read; run the command again\n"
        "1 object: 1 left\n"
    )
    assert (folder / "pod.yaml").read_text() == edited


def edit_before(write_files, file, text):
    """The function that writes files, after an editor has saved one of them."""

    def edit_and_write(*arguments):
        file.write_text(text)
        write_files(*arguments)

    return edit_and_write


def test_file_with_hard_links_is_left_and_the_others_are_written(migrate, write, folder):
    write("a.yaml", POD)
    os.link(folder / "a.yaml", folder / "a.txt")
    write("b.yaml", POD.replace("name: a,", "name: b,"))
    done = migrate("--in-place", ".")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "2 objects: 1 migrated, 1 left")
    assert "a.yaml:1  Pod team-a/a  left: the file was not written: has 2 hard links" in done.stderr
    assert (folder / "a.yaml").read_text() == POD
    assert "b-gpu" in (folder / "b.yaml").read_text()


def test_diff_shows_direction_marks_as_escapes(migrate, write):
    write("pod.yaml", POD.replace("- name: c\n", "- name: c  # \u202e\tx\n"))
    stdout = migrate("pod.yaml").stdout
    assert "\u202e" not in stdout
    assert "  - name: c  # \\u202e\tx\n" in stdout


def test_byte_order_mark_and_line_breaks_stay(migrate, folder):
    content = b"\xef\xbb\xbf" + POD.replace("\n", "\r\n").encode()
    (folder / "pod.yaml").write_bytes(content)
    migrate("--in-place", "pod.yaml")
    migrated = (folder / "pod.yaml").read_bytes()
    assert migrated.startswith(b"\xef\xbb\xbf# added")
    assert migrated.count(b"\n") == migrated.count(b"\r\n")
    migrate("--in-place", "--to", "device-plugin", "pod.yaml")
    assert (folder / "pod.yaml").read_bytes() == content


def test_broken_file_is_a_problem_and_nothing_is_written(migrate, write, folder):
    write("a.yaml", POD)
    write("b.yaml", "apiVersion: v1\nkind: [\n")
    done = migrate("--in-place", "a.yaml", "b.yaml")
    assert done.exit_code == 2
    assert "b.yaml:" in done.stderr
    assert done.stderr.endswith("1 problem; nothing was done\n")
    assert (folder / "a.yaml").read_text() == POD


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to migrate: name files, folders, or - for standard input"),
        (("--in-place", "-"), "--in-place writes files, and - is standard input"),
    ],
)
def test_wrong_arguments_are_refused(invoke, arguments, message):
    done = invoke("migrate", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_name_that_is_taken_gets_a_number(migrate):
    other = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: a-gpu, namespace: team-a}\n"
    done = migrate("-o", "yaml", "-", stdin=f"{other}spec: {{spec: {{}}}}\n---\n{POD}")
    assert "resourceClaimTemplateName: a-gpu-2}" in done.stdout


def test_chart_is_not_rewritten_and_its_lines_are_named(migrate, write, folder):
    write("chart/Chart.yaml", "name: chart\n")
    write("chart/templates/pod.yaml", CHART)
    write("chart/values.yaml", "resources:\n  limits:\n    nvidia.com/gpu: 1\n")
    done = migrate("--in-place", "chart")
    assert done.exit_code == 1
    assert "chart/templates/pod.yaml:5: nvidia.com/gpu is part of a Helm chart: replace it by " in done.stderr
    assert "chart/values.yaml:3: nvidia.com/gpu is part of a Helm chart: replace it by " in done.stderr
    assert (folder / "chart/templates/pod.yaml").read_text() == CHART


def test_claim_that_was_edited_is_left_on_the_way_back(migrate, write, folder):
    write("pod.yaml", POD)
    migrate("--in-place", "pod.yaml")
    edited = (folder / "pod.yaml").read_text().replace("count: 1", "count: 2")
    (folder / "pod.yaml").write_text(edited)
    done = migrate("--to", "device-plugin", "--in-place", "pod.yaml")
    assert done.exit_code == 1
    assert "left: its claim differs from the one that the marked lines give: it was edited" in done.stderr
    assert (folder / "pod.yaml").read_text() == edited


def test_claim_without_marks_is_left_on_the_way_back(migrate):
    text = "".join(
        line.replace("  # added by gpu-admission", "")
        for line in migrate("-o", "yaml", "-", stdin=POD).stdout.splitlines(keepends=True)
        if not line.lstrip().startswith("#") and "gpu-admission was" not in line
    )
    done = migrate("--to", "device-plugin", "-", stdin=text)
    assert done.exit_code == 1
    assert "left: its claim has no marks of a migration; write its GPUs into resources.limits by hand" in done.stderr


FOLDERS = sorted(
    each.name
    for each in EXAMPLES.iterdir()
    if each.is_dir()
    and not each.name.startswith("cluster")
    and any("nvidia.com/" in p.read_text() for p in each.glob("*.yaml"))
)


@pytest.mark.parametrize("name", FOLDERS)
def test_migrated_example_is_reviewed_unchanged_and_turned_back(invoke, folder, name):
    shutil.copytree(EXAMPLES / "cluster", folder / "cluster")
    text = (folder / "cluster/namespaces.yaml").read_text()
    for team in ("team-legacy", "team-preview", "team-vision", "default"):
        text += f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {team}, labels: {{gpu-admission.io/dra: enabled}}}}\n"
    (folder / "cluster/namespaces.yaml").write_text(text)
    shutil.copytree(EXAMPLES / name, folder / "work")
    before = {path: path.read_bytes() for path in (folder / "work").rglob("*") if path.is_file()}
    done = invoke("migrate", "--cluster", "cluster", "--in-place", "work")
    migrated = [path for path in before if path.read_bytes() != before[path]]
    again = invoke("migrate", "--cluster", "cluster", "work")
    assert (again.stdout, " migrated" in again.stderr) == ("", False)
    for path in migrated:
        review = invoke("review", "--cluster", "cluster", "--no-diff", path)
        assert "Error from server" not in review.stdout
        assert ", changed" not in review.stdout
        assert ", converted" not in review.stdout
        if "  warning: " not in done.stderr:
            assert "Warning: " not in review.stdout
    invoke("migrate", "--cluster", "cluster", "--to", "device-plugin", "--in-place", "work")
    assert {path: path.read_bytes() for path in before} == before


IN_USE = [
    argument
    for name in ("cluster", "cluster-with-quota", "cluster-busy")
    for argument in ("--cluster", str(EXAMPLES / name))
]


def test_proof_is_json_for_programs(invoke):
    done = invoke("migrate", "--prove", *IN_USE, "-o", "json")
    proof = json.loads(done.stdout)
    assert (done.exit_code, {*proof}) == (0, {"workloads", "assumptions"})
    assert {*proof["workloads"][0]} == {"workload", "namespace", "pods", "left", *PROPERTIES}


def test_proof_fails_if_a_workload_loses_something(invoke, write):
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}, "spec": {}}
    done = invoke("migrate", "--prove", *IN_USE, "--cluster", write("pool.yaml", pool))
    assert done.exit_code == 1
    assert "Lost:\n- autoscaling of " in done.stdout


def test_proof_of_a_cluster_without_gpus_of_a_device_plugin_says_so(invoke, write):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cpu"}}
    done = invoke("migrate", "--prove", "--cluster", write("node.yaml", node))
    assert (done.exit_code, done.stdout) == (0, "No workload requests GPUs of a device plugin.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--prove"],
            "--prove needs --cluster, such as a snapshot, and takes no other options than -n, --settings and -o json",
        ),
        (
            ["--prove", *IN_USE, "pod.yaml"],
            "--prove needs --cluster, such as a snapshot, and takes no other options than -n, --settings and -o json",
        ),
        (["-o", "json", "pod.yaml"], "-o json is for --prove"),
        (["--prove", *IN_USE, "-n", "team-x"], "namespace team-x does not exist"),
        (
            ["--prove", "--cluster", str(EXAMPLES / "cluster" / "namespaces.yaml")],
            (
                f"nothing to compare: no Node in {EXAMPLES / 'cluster' / 'namespaces.yaml'}; gpu-admission snapshot writes all "
                "that is needed"
            ),
        ),
    ],
    ids=["no-cluster", "files", "json-without-prove", "unknown-namespace", "no-nodes"],
)
def test_wrong_use_of_prove_is_refused(invoke, write, arguments, said):
    write("pod.yaml", POD)
    done = invoke("migrate", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.splitlines()[-1]) == (2, "", f"Error: {said}")


MARKS_IN_A_TEXT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: manifests, namespace: team-a}
data:
  pod.yaml: |
    # gpu-admission was: nvidia.com/gpu: 1
    claims: [{name: gpu}]  # added by gpu-admission
"""


def test_text_of_another_object_with_marks_stays_on_the_way_back(migrate, write, folder):
    write("pod.yaml", f"{MARKS_IN_A_TEXT}---\n{POD}")
    migrate("--in-place", "pod.yaml")
    done = migrate("--to", "device-plugin", "--in-place", "pod.yaml")
    assert done.exit_code == 0
    assert (folder / "pod.yaml").read_text() == f"{MARKS_IN_A_TEXT}---\n{POD}"


def test_object_that_replaced_a_template_is_not_removed(migrate, write, folder):
    write("pod.yaml", f"---\n{POD}")
    migrate("--in-place", "pod.yaml")
    edited = (folder / "pod.yaml").read_text().replace("---\n", f"---  # added by gpu-admission: x\n{LEFT}---\n")
    write("pod.yaml", edited)
    done = migrate("--to", "device-plugin", "--in-place", "pod.yaml")
    assert done.exit_code == 1
    assert "Pod team-a/b  left: the marked lines cannot be read; edit it by hand\n" in done.stderr
    assert (folder / "pod.yaml").read_text() == edited


def test_pod_whose_requests_of_no_gpus_were_removed_is_turned_back(migrate, write, folder):
    text = POD.replace("gpu: 1", "gpu: 0")
    write("pod.yaml", text)
    migrate("--in-place", "pod.yaml")
    done = migrate("--to", "device-plugin", "--in-place", "pod.yaml")
    assert done.stderr.splitlines()[0] == "pod.yaml:1  Pod team-a/a  migrated: back to the device plugin"
    assert (folder / "pod.yaml").read_text() == text


def test_one_uneditable_object_of_a_long_file_costs_few_passes(migrate, write):
    shared = POD.replace("name: a,", "name: shared,").replace("resources: {", "resources: &x {")
    shared += "  - name: d\n    resources: *x\n"
    pods = [POD.replace("name: a,", f"name: p{number},") for number in range(40)]
    write("pods.yaml", "---\n".join(pods))
    write("shared.yaml", "---\n".join([*pods[:25], shared, *pods[25:]]))
    done = migrate("shared.yaml")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "41 objects: 40 migrated, 1 left")
    assert steps(lambda: migrate("shared.yaml")) < 4 * steps(lambda: migrate("pods.yaml"))
