"""The archive of the chart: as Helm packages it, and the same bytes each time."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from release.chart import write_chart
from release.project import version
from testbed import libyaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return write_chart(tmp_path_factory.mktemp("archive"))


def files(archive):
    with tarfile.open(archive) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers() if entry.isfile()}


def test_version_of_the_chart_is_that_of_the_project(archive):
    chart = libyaml.load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version(), version())
    assert archive.name == f"gpu-admission-{version()}.tgz"


def test_crds_that_the_chart_announces_are_its_crds(helm):
    crds = libyaml.load(libyaml.load((CHART / "Chart.yaml").read_text())["annotations"]["artifacthub.io/crds"])
    installed = [each for each in helm.template() if each["kind"] == "CustomResourceDefinition"]
    assert [(each["kind"], each["version"], each["name"]) for each in crds] == [
        (each["spec"]["names"]["kind"], each["spec"]["versions"][0]["name"], each["metadata"]["name"])
        for each in sorted(installed, key=lambda each: each["metadata"]["name"])
    ]


def test_archive_has_the_files_that_helm_packages(helm, archive, tmp_path):
    helm.output("package", CHART, "-d", tmp_path)
    packaged, ours = files(tmp_path / archive.name), files(archive)
    assert ours.keys() == packaged.keys()
    same = {name for name in ours if ours[name] == packaged[name]}
    # Helm writes Chart.yaml anew.
    assert ours.keys() - same <= {"gpu-admission/Chart.yaml"}
    assert libyaml.load(ours["gpu-admission/Chart.yaml"]) == libyaml.load(packaged["gpu-admission/Chart.yaml"])


def test_archive_renders_as_the_folder_does(helm, archive):
    arguments = ("-n", "gpu-admission", "--kube-version", "v1.36.2")
    assert helm.output("template", "gpu-admission", archive, *arguments) == helm.output(
        "template", "gpu-admission", CHART, *arguments
    )


def test_archive_is_the_same_for_the_same_sources(archive, tmp_path):
    os.utime(CHART / "Chart.yaml")
    assert write_chart(tmp_path).read_bytes() == archive.read_bytes()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (
            "registry.example.com:5000/team/gpu-admission:1.2.3",
            ("registry.example.com:5000/team/gpu-admission", "1.2.3", ""),
        ),
        ("registry.example.com:5000/gpu-admission", ("registry.example.com:5000/gpu-admission", "", "")),
        ("registry.example.com/gpu-admission@sha256:0", ("registry.example.com/gpu-admission", "", "sha256:0")),
    ],
    ids=["tag", "neither", "digest"],
)
def test_chart_of_a_release_installs_its_image(tmp_path, image, expected):
    values = libyaml.load(files(write_chart(tmp_path, image))["gpu-admission/values.yaml"])
    assert (values["image"]["repository"], values["image"]["tag"], values["image"]["digest"]) == expected


def test_unknown_arguments_are_refused():
    command = [sys.executable, str(ROOT / "deploy" / "render_chart.py"), "--pakage"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: python deploy/render_chart.py [--check]\n")
