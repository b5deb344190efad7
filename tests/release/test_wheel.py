"""The wheel has all that the commands need, and nothing else; an environment with it alone runs them."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from release.archives import sha256
from release.project import version

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(environment, tmp_path):
    """Run a program of the environment in an empty folder."""

    def run(program, *arguments):
        command = [environment / program, *arguments]
        variables = {"PATH": f"{environment}:/usr/bin:/bin", "HOME": str(tmp_path), "NO_COLOR": "1"}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    return run


def test_wheel_has_packages_and_what_they_ship(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "policies",
        "webhook",
        "certs",
        f"gpu_admission-{version()}.dist-info",
    }
    assert {"policies/py.typed", "webhook/py.typed", "certs/py.typed"} <= {*names}
    shipped = {name.removeprefix("webhook/shipped/") for name in names if name.startswith("webhook/shipped/")}
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*") if path.is_file()}
    assert shipped == examples | {"deploy/install.yaml"}


def test_sdist_has_what_the_wheel_is_built_from(packages):
    (sdist,) = packages.glob("*.tar.gz")
    with tarfile.open(sdist) as content:
        tops = {name.split("/")[1] for name in content.getnames()}
    files = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", ".gitignore"}
    assert tops == {"policies", "webhook", "certs", "examples", "deploy"} | files


def test_second_build_has_the_same_bytes_and_needs_no_sdist(packages, tmp_path):
    """The packages of a release are the sdist and the wheel of it; these are both of the checkout."""
    command = [sys.executable, "-m", "build", "--installer=uv", "--sdist", "--wheel", "--outdir", tmp_path, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    assert {file.name: sha256(file) for file in tmp_path.iterdir()} == {
        file.name: sha256(file) for file in packages.iterdir()
    }


@pytest.fixture
def metadata(wheel):
    """What the wheel says of itself; invalid fields raise."""
    with zipfile.ZipFile(wheel) as content:
        return Metadata.from_email(content.read(f"gpu_admission-{version()}.dist-info/METADATA"), validate=True)


def test_metadata_is_valid_and_complete(metadata):
    assert (metadata.name, str(metadata.version)) == ("gpu-admission", version())
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.description_content_type == "text/markdown"


def test_description_has_no_links_into_the_repository(metadata):
    assert metadata.description.startswith("# gpu-admission\n")
    targets = re.findall(r"\]\(([^)]+)\)", metadata.description)
    assert [target for target in targets if not target.startswith("https://")] == []


def test_installed_demo_needs_no_checkout(run):
    done = run("gpu-admission", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The audit of the cluster" in done.stdout


def test_installed_sandbox_serves_the_files_that_the_demo_names(environment, tmp_path):
    (shipped,) = environment.parent.glob("lib/*/site-packages/webhook/shipped")
    files = [shipped / "examples" / "cluster", shipped / "deploy" / "install.yaml"]
    command = [environment / "gpu-admission", "sandbox", *files, "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as sandbox:
        assert re.match(r"The sandbox serves \d\d+ objects at http://127\.0\.0\.1:\d+, ", sandbox.stdout.readline())
        sandbox.terminate()
    assert sandbox.returncode == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("gpu-admission", "--version"), f"gpu-admission {version()}\n"),
        (("gpu-admission", "rules", "GA307"), "GA307"),
        (("gpu-admission", "completion", "bash"), "complete"),
        (("gpu-admission", "serve", "--help"), "Usage: gpu-admission serve"),
        (("gpu-admission", "generate", "quota", "-n", "team-a", "--gpus", "4"), "kind: GPUQuota"),
        (("kubectl-gpu", "--help"), "Usage: kubectl gpu"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_installed_commands_run(run, command, said):
    done = run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


def test_installed_review_reads_the_shipped_examples(run, environment):
    (examples,) = environment.parent.glob("lib/*/site-packages/webhook/shipped/examples")
    done = run("gpu-admission", "review", "--cluster", examples / "cluster", examples / "refused-selector")
    assert done.returncode == 1
    assert "[GA307]" in done.stdout
