"""The wheel has all that the commands need, and nothing else; an environment with it alone runs them."""

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from release.__main__ import write_packages
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


def test_second_build_has_the_same_bytes(packages, tmp_path):
    write_packages(tmp_path)
    assert {file.name: sha256(file) for file in tmp_path.iterdir()} == {
        file.name: sha256(file) for file in packages.iterdir()
    }


def test_installed_demo_needs_no_checkout(run):
    done = run("gpu-admission", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The audit of the cluster" in done.stdout


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
