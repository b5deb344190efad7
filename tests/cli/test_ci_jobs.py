"""The GitHub Action, the GitLab job and the pre-commit hook: their own shell steps, on good and bad manifests.

The package is installed already, so that nothing is fetched; other tests check that they install the checkout.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml
from junitparser import JUnitXml

from testbed import libyaml

ROOT = Path(__file__).parents[2]
SCHEMAS = files("check_jsonschema") / "builtin_schemas" / "vendor"
ACTION = libyaml.load((ROOT / "action.yml").read_text())
COMPONENT, JOBS = libyaml.load_all((ROOT / "templates" / "review.yml").read_text())
(HOOK,) = libyaml.load((ROOT / ".pre-commit-hooks.yaml").read_text())
PAGES = "GPU_ADMISSION_DOCS"
REFUSED = {"nvidia.com/gpu.count": "8"}
# It does what `python -m venv FOLDER` does, with a pip that notes its arguments.
PYTHON = """\
#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" > "$NOTES"\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


def schema(name):
    return json.loads((SCHEMAS / name).read_text())


def bash(script, folder, **environment):
    """Run a script as GitHub and GitLab do: it ends at the first error."""
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def good(write, pod):
    """A folder with a pod that is admitted, and Helm values."""
    write("manifests/pod.yaml", pod("good"))
    write("manifests/values.yaml", "replicas: 3\n")
    return "manifests"


@pytest.fixture
def bad(good, write, pod):
    """The same folder with a pod that is refused."""
    write("manifests/bad.yaml", pod("bad", nodeSelector=REFUSED))
    return good


@pytest.fixture
def stub(tmp_path_factory):
    """A folder with a `python` that makes virtual environments whose pip only notes its arguments."""
    folder = tmp_path_factory.mktemp("stub")
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    return folder


@pytest.fixture
def action(folder, cluster, tmp_path_factory):
    """Run the step `Review` of the action with inputs."""
    temporary = tmp_path_factory.mktemp("runner")
    programs = temporary / "gpu-admission" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "gpu-admission"):
        (programs / name).symlink_to(Path(sys.executable).parent / name)
    inputs = {name: each["default"] for name, each in ACTION["inputs"].items()} | {"cluster": cluster}
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Review"]

    def action(**given):
        values = inputs | {name.replace("_", "-"): value for name, value in given.items()}
        variables = {
            name: fill_in(text, "${{ inputs.", " }}", values) for name, text in step["env"].items() if name != PAGES
        }
        return bash(step["run"], folder, RUNNER_TEMP=str(temporary), **variables)

    return action


def fill_in(text, start, end, values):
    for name, value in values.items():
        text = text.replace(f"{start}{name}{end}", value)
    return text


def test_action_has_the_shape_that_github_reads():
    jsonschema.validate(ACTION, schema("github-actions.json"))


def test_action_reads_all_its_inputs():
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Review"]
    inputs = (value for name, value in step["env"].items() if name != PAGES)
    assert sorted(inputs) == sorted(f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"])
    assert "${{" not in step["run"]


def test_action_installs_its_checkout(folder, stub):
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Install gpu-admission"]
    variables = {"PYTHON": str(stub / "python"), "CHECKOUT": str(ROOT)}
    done = bash(step["run"], folder, RUNNER_TEMP=str(stub), NOTES=str(stub / "notes"), **variables)
    assert done.returncode == 0, done.stderr
    *_, option, constraints, checkout = (stub / "notes").read_text().splitlines()
    assert (option, constraints, checkout) == ("--constraint", str(ROOT / "constraints.txt"), str(ROOT))
    assert "${{" not in step["run"]


def test_action_passes_good_manifests(action, good):
    done = action(paths=good)
    assert (done.returncode, done.stderr) == (0, "1 file skipped: no Kubernetes objects\n")
    assert done.stdout == "1 object: 1 admitted (1 converted)\n"


def test_action_fails_and_annotates_bad_manifests(action, bad):
    done = action(paths=bad)
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=manifests/bad.yaml,line=14,col=27,title=GA307%3A")


def test_action_reviews_the_repository_by_default(action, bad):
    assert "file=manifests/bad.yaml" in action().stdout


def test_action_takes_several_paths_and_names_with_blanks(action, good, write, pod):
    write("more manifests/pod.yaml", pod("more"))
    assert "2 objects:" in action(paths="manifests\n\nmore manifests\n").stdout


def test_action_takes_patterns_that_are_no_globs_of_the_shell(action, bad):
    assert action(exclude="*.yml\nb*.yaml").returncode == 0


def test_action_accepts_a_baseline(action, bad, run, cluster):
    run("review", "--cluster", cluster, "--baseline", ".known.yaml", "--update-baseline", ".")
    assert action(baseline=".known.yaml").returncode == 0


def test_action_writes_a_file(action, bad):
    done = action(output="sarif", output_file="review.sarif")
    assert done.returncode == 1
    assert json.loads(Path("review.sarif").read_text())["version"] == "2.1.0"


def test_action_stops_commands_in_other_output(action, bad, write, pod):
    write("::warning::fake.yaml", pod("worse", nodeSelector=REFUSED))
    done = action(output="text")
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("::stop-commands::")
    assert (done.returncode, last) == (1, f"::{first.removeprefix('::stop-commands::')}::")


def test_action_fails_on_the_rules_that_it_names(action, bad):
    assert [action(fail_on=rules).returncode for rules in ("GA410", "GA410,GA307")] == [0, 1]


@pytest.mark.parametrize("text", ["$(touch owned)", "`touch owned`", '"; touch owned; "', "--help"])
def test_input_of_the_action_is_no_command(action, good, text):
    done = action(paths=text)
    assert (done.returncode, Path("owned").exists()) == (2, False)


@pytest.fixture
def job(folder, stub):
    """Run the script of the GitLab job with inputs."""
    defaults = {name: (each or {}).get("default", "") for name, each in COMPONENT["spec"]["inputs"].items()}
    (found,) = JOBS.values()
    programs = str(Path(sys.executable).parent)

    def job(*, lines="script", path=programs, **given):
        variables = {
            name: fill_in(text, "$[[ inputs.", " ]]", {**defaults, **given})
            for name, text in found["variables"].items()
        }
        environment = {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "NOTES": str(stub / "notes"), **variables}
        return bash("\n".join(found[lines]), folder, **environment)

    return job


def test_gitlab_job_has_the_shape_that_gitlab_reads():
    for document in (COMPONENT, JOBS):
        jsonschema.validate(document, schema("gitlab-ci.json"))


def test_gitlab_job_installs_its_checkout(job, stub):
    done = job(lines="before_script", path=stub, checkout=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert (stub / "notes").read_text().splitlines()[-1] == str(ROOT)


def test_gitlab_job_passes_good_manifests(job, good, cluster):
    done = job(paths=good, arguments=f"--cluster {cluster}")
    assert (done.returncode, JUnitXml.fromfile("gpu-admission.xml").failures) == (0, 0)


def test_gitlab_job_fails_on_bad_manifests_with_a_report(job, bad, cluster):
    done = job(arguments=f"--cluster {cluster} --exclude *.json")
    assert done.returncode == 1
    assert "What fails:\n  manifests/bad.yaml:1  Pod team-a/bad  refused  GA307\n" in done.stderr
    (found,) = JOBS.values()
    reports = found["artifacts"]["reports"]
    assert JUnitXml.fromfile(reports["junit"]).failures == 1
    assert [each["check_name"] for each in json.loads(Path(reports["codequality"]).read_text())] == ["GA307"]
    assert found["artifacts"]["when"] == "always"


def test_page_names_inputs_and_hooks_that_exist():
    page = (ROOT / "docs" / "review.md").read_text()
    blocks = [libyaml.load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    jobs = [block["jobs"]["review"] for block in blocks if "jobs" in block]
    steps = [step for job in jobs for step in job["steps"] if "gpu-admission@" in step["uses"]]
    assert [step["with"].keys() <= ACTION["inputs"].keys() for step in steps] == [True, True]
    ((include,),) = [block["include"] for block in blocks if "include" in block]
    assert include["inputs"].keys() <= COMPONENT["spec"]["inputs"].keys()
    assert (ROOT / include["file"].removeprefix("/")).exists()
    (repository,) = next(block["repos"] for block in blocks if "repos" in block)
    assert [hook["id"] for hook in repository["hooks"]] == [HOOK["id"]]


@pytest.fixture
def commit(folder, tmp_path_factory):
    """Run the hook with pre-commit, in a repository with all files of the folder."""
    hook = {**HOOK, "language": "system", "entry": f"{Path(sys.executable).parent}/{HOOK['entry']}"}
    home = tmp_path_factory.mktemp("pre-commit")

    def commit(*arguments):
        config = {"repos": [{"repo": "local", "hooks": [hook | ({"args": [*arguments]} if arguments else {})]}]}
        (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
        environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", "init", "--quiet", "."], cwd=folder, env=environment, check=True)
        subprocess.run(["git", "add", "."], cwd=folder, env=environment, check=True)
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return commit


def test_hook_runs_the_command_that_is_installed():
    assert (HOOK["language"], shlex.split(HOOK["entry"])[0]) == ("python", "gpu-admission")


def test_hook_passes_good_manifests(commit, good, cluster):
    done = commit("--cluster", cluster, ".")
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout


def test_hook_fails_on_bad_manifests(commit, bad, cluster):
    done = commit("--cluster", cluster, ".")
    assert done.returncode == 1
    assert "manifests/bad.yaml:1  Pod team-a/bad  refused" in done.stdout


def test_hook_reviews_the_repository_by_default(commit, write):
    write("a.yaml", "apiVersion: v1\nkind: [\n")
    assert "a.yaml:2:8: expected a value here" in commit().stdout
