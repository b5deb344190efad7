"""The pipelines of GitHub and GitLab have the shape that these read, and run the gate and a release."""

import json
import os
import subprocess
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from release.plugin import PYTHONS
from release.project import version
from testbed import libyaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = {file.stem: file for file in (ROOT / ".github" / "workflows").iterdir()}
GATE, RELEASE = (libyaml.load(WORKFLOWS[name].read_text())["jobs"] for name in ("gate", "release"))
GITLAB = libyaml.load((ROOT / ".gitlab-ci.yml").read_text())
DIGEST = f"sha256:{'0a' * 32}"
# They note their arguments; make also writes what the next step reads.
MAKE = f"""\
#!/bin/sh
echo "make $*" >> "$NOTES"
case "$1" in
  image) mkdir -p dist && touch dist/gpu-admission-{version()}-image.cdx.json ;;
  release) rm -r dist && mkdir dist && grep -q 'a private key' "${{4#KEY=}}" ;;
esac
"""
PODMAN = f"""\
#!/bin/sh
echo "podman push $4" >> "$NOTES"
printf {DIGEST} > "$3"
"""


def schema(name):
    return json.loads((files("check_jsonschema") / "builtin_schemas" / "vendor" / name).read_text())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_has_the_shape_that_github_reads(name):
    # YAML 1.1 reads the key "on" as true, and GitHub as a word.
    document = {"on" if key is True else key: value for key, value in libyaml.load(WORKFLOWS[name].read_text()).items()}
    jsonschema.validate(document, schema("github-workflows.json"))


def test_pipeline_has_the_shape_that_gitlab_reads():
    jsonschema.validate(GITLAB, schema("gitlab-ci.json"))


def test_gate_runs_on_every_python_that_is_supported():
    assert GATE["test"]["strategy"]["matrix"]["python"] == list(PYTHONS)
    assert GITLAB["gate"]["parallel"]["matrix"] == [{"PYTHON": list(PYTHONS)}]
    assert GATE["test"]["steps"][-1] == {"run": ".ci/run"}
    assert GITLAB["gate"]["script"] == [".ci/run"]


def test_scripts_of_the_workflows_have_no_text_of_others_in_them():
    """A branch may have a name that is a command."""
    steps = [step for job in (*GATE.values(), *RELEASE.values()) for step in job.get("steps", ())]
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_owners_are_of_files_that_exist():
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    paths = [line.split()[0] for line in lines if line.startswith("/")]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path.lstrip("/")).exists()] == []


@pytest.fixture
def release(tmp_path):
    """Run the release of a checkout with other programs; returns the process and the commands."""
    checkout, programs, notes = tmp_path / "checkout", tmp_path / "bin", tmp_path / "notes"
    (checkout / ".ci").mkdir(parents=True)
    (checkout / ".ci" / "release").write_text((ROOT / ".ci" / "release").read_text())
    (checkout / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    programs.mkdir()
    for name, text in (("make", MAKE), ("podman", PODMAN)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def release(tag):
        variables = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "NOTES": str(notes),
            "TAG": tag,
            "IMAGE": "registry.example.com/gpu-admission",
            "URL": "https://downloads.example.com",
            "RELEASE_KEY": "a private key",
        }
        command = ["bash", str(checkout / ".ci" / "release")]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        commands = notes.read_text().splitlines() if notes.exists() else []
        return done, [line.partition(" KEY=")[0].replace(str(programs), "") for line in commands], checkout / "dist"

    return release


def test_release_names_and_signs_the_digest_of_the_image(release):
    done, commands, dist = release(f"v{version()}")
    image = "registry.example.com/gpu-admission"
    assert (done.returncode, done.stderr) == (0, "")
    assert commands == [
        f"make image BUILDER=/podman IMAGE={image}:{version()}",
        f"podman push {image}:{version()}",
        f"make release URL=https://downloads.example.com IMAGE={image}:{version()}@{DIGEST}",
        f"make sign-image IMAGE={image}@{DIGEST}",
    ]
    assert [file.name for file in dist.iterdir()] == [f"gpu-admission-{version()}-image.cdx.json"]


def test_release_of_another_version_than_the_tag_is_refused(release):
    done, commands, _ = release("v9.9.9")
    assert (done.returncode, commands) == (1, [])
    assert done.stderr == (
        f"The tag is v9.9.9, and pyproject.toml has the version {version()}: tag v{version()}, or change the version.\n"
    )
