"""Every example prints its expected output."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from testbed import libyaml
from testbed.commands import run_command

ROOT = Path(__file__).parents[2]
CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy", "cluster-with-operator")
FOLDERS = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name not in CLUSTERS)
EXPLAINED = [folder for folder in FOLDERS if folder.name.startswith("explain-")]
QUOTAS = [folder for folder in FOLDERS if folder.name == "quota"]
TEAMS = [folder for folder in FOLDERS if folder.name == "team-quota"]
USAGES = [folder for folder in FOLDERS if folder.name == "usage"]
SHARES = [folder for folder in FOLDERS if folder.name == "shares"]
SELECTORS = [folder for folder in FOLDERS if folder.name == "cel"]
CUTOVERS = [folder for folder in FOLDERS if folder.name == "cutover"]
PAIRS = [folder for folder in FOLDERS if folder.name == "network-devices"]
PLANS = [folder for folder in FOLDERS if folder.name == "plan"]
SUITES = [folder for folder in FOLDERS if folder.name == "suite"]
REVIEWED = [
    folder
    for folder in FOLDERS
    if folder not in (*EXPLAINED, *QUOTAS, *TEAMS, *USAGES, *SHARES, *SELECTORS, *PAIRS, *PLANS, *CUTOVERS, *SUITES)
]
CLAIMED = [folder for folder in REVIEWED if folder.name.startswith(("claim-", "compute-domain"))]
SETTINGS = "settings.yaml"
WITH_SETTINGS = [folder for folder in REVIEWED if (folder / SETTINGS).exists()]
WITHOUT_PODS = {
    "ClusterGPUQuota",
    "ComputeDomain",
    "ConfigMap",
    "DeviceClass",
    "GPUAdmissionPolicy",
    "GPUCluster",
    "NVIDIADriver",
    "Node",
    "PriorityClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "Service",
    "Suite",
}
IN_USE = ["--cluster", "examples/cluster", "--cluster", "examples/cluster-in-use"]
WITH_QUOTA = ["--cluster", "examples/cluster", "--cluster", "examples/cluster-with-quota"]
BUSY = [*IN_USE, *WITH_QUOTA[2:], "--cluster", "examples/cluster-busy"]
ENVIRONMENT = {**os.environ, "NO_COLOR": "1"}


def commands(folder):
    (block,) = re.findall(r"```console\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    return [shlex.split(line) for line in block.splitlines()]


def run(command):
    program, *arguments = command
    assert program == "gpu-admission"
    return run_command(*arguments, cwd=ROOT, environment=ENVIRONMENT)


def is_refused(expected):
    """Whether something is refused, as the sum of a review says, or does not fit, as the first line of an explanation."""
    first, *_ = expected.splitlines()
    is_summed_up = re.search(r"^\d+ objects?: .*\d refused", expected, re.MULTILINE) is not None
    is_broken = re.search(r" would (be disrupted|not start again)|^\d+ steps, ", first) is not None
    return is_summed_up or is_broken or first.endswith(("  full", "  impossible", "  blocked", "  unknown"))


def test_there_is_an_example_of_each_feature():
    assert [folder.name for folder in FOLDERS] == [
        "admission-review",
        "affinity",
        "bypass",
        "cel",
        "claim-cel-mistakes",
        "claim-old-shape",
        "claim-sharing-config",
        "claim-unguarded-selector",
        "compute-domain",
        "cutover",
        "deployment",
        "explain-deployment",
        "explain-pending-pod",
        "explain-preemption",
        "fractional",
        "impossible-wish",
        "kueue-left-alone",
        "mig",
        "misspelt-product",
        "multi-container-and-init",
        "network-devices",
        "opt-out",
        "part-of-a-gpu",
        "plan",
        "preview-namespace",
        "product-selector",
        "quota",
        "quota-exceeded",
        "refused-selector",
        "review-in-ci",
        "shared-gpu",
        "shares",
        "single-gpu",
        "suite",
        "team-quota",
        "time-slicing",
        "too-many-gpus",
        "usage",
        "wish",
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_prints_what_it_promises(folder):
    first, *others = commands(folder)
    expected = (folder / "expected.txt").read_text()
    done = run(first)
    assert (done.stdout, done.stderr) == (expected, "")
    assert done.returncode == (1 if is_refused(expected) else 0)
    for command in others:
        assert run(command).returncode == 0


@pytest.mark.parametrize("folder", REVIEWED, ids=lambda folder: folder.name)
def test_example_begins_with_a_command_on_its_own_folder(folder):
    first = commands(folder)[0]
    own = f"examples/{folder.name}"
    asked = (
        [own]
        if folder not in WITH_SETTINGS
        else ["--settings", f"{own}/{SETTINGS}", f"{own}/wrong.yaml", f"{own}/right.yaml"]
    )
    cluster = WITH_QUOTA if folder.name.startswith("quota") else WITH_QUOTA[:2]
    assert first == ["gpu-admission", "review", *cluster, *asked]


@pytest.mark.parametrize("folder", CLAIMED, ids=lambda folder: folder.name)
def test_example_of_claims_shows_the_right_form_as_well(folder):
    lines = (folder / "expected.txt").read_text().splitlines()
    shown = zip(lines, [*lines[1:], ""], strict=True)
    assert any(re.match(rf"examples/{folder.name}/.*  admitted$", line) and not after for line, after in shown)


@pytest.mark.parametrize("folder", EXPLAINED, ids=lambda folder: folder.name)
def test_explained_example_uses_the_cluster_in_use(folder):
    (command,) = commands(folder)
    asked = (
        [f"examples/{folder.name}"]
        if (folder / "pod.yaml").exists() or (folder / "deployment.yaml").exists()
        else ["-n", "team-a", "pod/pretrain"]
    )
    assert command == ["gpu-admission", "explain", *IN_USE, *asked]


@pytest.mark.parametrize("folder", QUOTAS, ids=lambda folder: folder.name)
def test_example_of_a_quota_uses_the_cluster_with_a_quota(folder):
    assert commands(folder) == [["gpu-admission", "quota", *WITH_QUOTA]]


@pytest.mark.parametrize("folder", TEAMS, ids=lambda folder: folder.name)
def test_example_of_a_quota_for_teams_uses_its_own_namespaces(folder):
    assert commands(folder) == [["gpu-admission", "quota", *WITH_QUOTA[:2], "--cluster", "examples/team-quota/cluster"]]


def with_pods(folder):
    """The objects of an example that are pods or make pods."""
    files = [] if folder in (*SUITES, *SHARES) else folder.glob("[!.]*.yaml")
    documents = [document for file in files for document in libyaml.load_all(file.read_text())]
    return [document for document in documents if document["kind"] not in WITHOUT_PODS]


@pytest.mark.parametrize("folder", list(filter(with_pods, FOLDERS)), ids=lambda folder: folder.name)
def test_example_has_pods_as_people_write_them(folder):
    for document in with_pods(folder):
        pod = document if document["kind"] == "Pod" else document["spec"].get("template")
        assert pod["spec"]["volumes"]
        for container in pod["spec"]["containers"]:
            assert re.search(r":[^/]+$", container["image"])
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()


@pytest.mark.parametrize("folder", USAGES, ids=lambda folder: folder.name)
def test_example_of_usage_uses_the_busy_cluster(folder):
    assert commands(folder) == [["gpu-admission", "usage", *BUSY]]


@pytest.mark.parametrize("folder", SELECTORS, ids=lambda folder: folder.name)
def test_example_of_selectors_edits_its_claim(folder):
    asked = ["--edit", "examples/cel/edit.cel", "examples/cel/claim.yaml"]
    assert commands(folder) == [["gpu-admission", "cel", *IN_USE[:2], *asked]]


@pytest.mark.parametrize("folder", PLANS, ids=lambda folder: folder.name)
def test_example_of_a_plan_uses_the_busy_cluster_with_an_operator(folder):
    with_operator = [*BUSY, "--cluster", "examples/cluster-with-operator"]
    assert commands(folder) == [["gpu-admission", "plan", *with_operator, "examples/plan/time-slicing.yaml"]]


@pytest.mark.parametrize("folder", CUTOVERS, ids=lambda folder: folder.name)
def test_example_of_a_cutover_uses_the_busy_cluster_with_an_operator(folder):
    files = ["--cluster", "examples/cluster-with-operator", "--cluster", "examples/cutover/workloads.yaml"]
    assert commands(folder) == [["gpu-admission", "cutover", *BUSY, *files]]


@pytest.mark.parametrize(
    "folder",
    [folder for folder in FOLDERS if folder not in (*USAGES, *SHARES, *CUTOVERS)],
    ids=lambda folder: folder.name,
)
def test_suite_of_an_example_passes(folder):
    done = run(["gpu-admission", "test", "--quiet", f"examples/{folder.name}"])
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
