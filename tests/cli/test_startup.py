"""Imports at the start, and the help. benchmarks/themes/startup.py measures the time."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from webhook.cli import COMMANDS, find_command
from webhook.cli.review import FORMATS

ROOT = Path(__file__).parents[2]
HEAVY = {"aiohttp", "cryptography", "prometheus_client"}

SPY = """\
import json, sys
from webhook.cli import main
code = int(sys.argv[1])
for arguments in map(json.loads, sys.argv[2:]):
    try:
        main(arguments, prog_name="gpu-admission")
    except SystemExit as done:
        assert (done.code or 0) == code, (arguments, done.code)
    print()
    print(json.dumps(sorted(sys.modules)))
"""

SETTINGS = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
"""


NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {gpu-admission.io/dra: enabled}}
"""


def modules(folder, *arguments, code=0):
    """The modules that a command has imported when it ends."""
    command = [sys.executable, "-c", SPY, str(code), json.dumps([str(argument) for argument in arguments])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def imported(folder, *arguments, code=0):
    """The packages of these modules."""
    return {name.partition(".")[0] for name in modules(folder, *arguments, code=code)}


def first_imports(folder, unwanted, commands, code=0):
    """The commands, run by one process, that import unwanted packages first, and these packages."""
    command = [sys.executable, "-c", SPY, str(code), *map(json.dumps, commands)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    ends = [line for line in done.stdout.splitlines() if line.startswith('["') and '"sys"' in line]
    found, before = {}, set()
    for arguments, end in zip(commands, ends, strict=True):
        packages = {name.partition(".")[0] for name in json.loads(end)} & unwanted
        found |= {" ".join(arguments): packages - before} if packages - before else {}
        before |= packages
    return found


@pytest.mark.parametrize("output", FORMATS)
def test_review_of_a_pod_imports_no_server_no_cel_engine_and_only_its_own_form(folder, cluster, write, pod, output):
    names = modules(folder, "review", "--cluster", cluster, "-o", output, write("pod.yaml", pod()))
    packages = {name.partition(".")[0] for name in names}
    assert not packages & {*HEAVY, "orjson", "ssl", *({"pydantic", "asyncio"} if output != "json" else ())}
    own = {"yaml": "text", "patch": "text", "sarif": "github"}
    others = {f"webhook.cli.review.{own.get(name, name)}" for name in FORMATS} - {"webhook.cli.review.text"}
    assert not names & {"policies.cel", *({*others, "webhook.cli.review.baselines", "xml"} if output == "text" else ())}


def test_rules_imports_no_server(folder):
    assert not imported(folder, "rules") & {*HEAVY, "pydantic", "orjson", "asyncio"}


def test_running_server_has_loaded_no_migration_generation_pages_nor_sandbox(folder, cluster):
    options = ["--cluster", str(cluster), "--port=0", "--probe-port=0", "--explain-port=0", "--drain-delay=0"]
    command = [sys.executable, "-X", "importtime", "-m", "webhook", "serve", *options]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "serving" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate()
    names = {".".join(line.rpartition("|")[2].strip().split(".")[:3]) for line in lines}
    assert "policies.analyses.explain" in names
    assert not names & {
        *(
            f"policies.analyses.{name}"
            for name in ("generate", "installation", "migrate", "overview", "plan", "report")
        ),
        "webhook.sandbox",
        "webhook.pages",
    }


def test_help_of_serve_imports_no_server(folder):
    assert not imported(folder, "serve", "--help") & {*HEAVY, "pydantic", "orjson", "ssl"}


def test_help_imports_no_server_and_no_policies(folder):
    unwanted = {*HEAVY, "pydantic", "orjson", "ssl", "policies", "yaml", "difflib"}
    commands = [[*command, "--help"] for command in ([], ["review"], ["explain"], ["snapshot"], ["generate"])]
    assert first_imports(folder, unwanted, commands) == {}


@pytest.mark.parametrize("output", ["text", "json"])
def test_explain_imports_no_server(output):
    arguments = ["explain", "--cluster=cluster", "-o", output, "single-gpu"]
    packages = imported(ROOT / "examples", *arguments)
    assert not packages & {*HEAVY, "orjson", "ssl", *({"pydantic", "asyncio"} if output != "json" else ())}


@pytest.mark.parametrize(
    ("code", "commands"),
    [
        (
            0,
            [
                ["review", "--cluster=cluster-with-quota", "single-gpu"],
                ["usage", "--cluster=cluster", "--cluster=cluster-in-use"],
                ["audit", "--cluster=cluster-in-use"],
                ["quota", "--cluster=cluster-with-quota"],
                ["migrate", "--prove", "--cluster=cluster"],
                ["rules", "GA321"],
            ],
        ),
        (
            1,
            [
                ["plan", "--cluster=cluster", "--cluster=cluster-with-operator", "plan/mig.yaml"],
                ["cel", "--cluster=cluster", "cel/claim.yaml"],
            ],
        ),
    ],
)
def test_text_is_written_without_pydantic_and_orjson(code, commands):
    assert first_imports(ROOT / "examples", {"pydantic", "orjson"}, commands, code) == {}


def test_wrong_usage_imports_no_policies(folder):
    commands = [
        ["review"],
        ["review", "--operation", "UPDATE", "pod.yaml"],
        ["review", "--old", "old.yaml", "pod.yaml"],
        ["explain", "--output=html"],
    ]
    assert first_imports(folder, {"policies", "yaml", "difflib"}, commands, code=2) == {}


def test_pod_of_a_namespace_that_does_not_convert_imports_no_conversion(folder, write, pod):
    names = modules(folder, "review", write("pod.yaml", pod()))
    assert "policies.placement" in names
    assert not names & {"policies.conversion.convert", "policies.configuration", "policies.nvidia.predicates"}


def test_pod_that_is_converted_imports_no_rules_of_configuration(folder, write, pod):
    names = modules(folder, "review", "--cluster", write("team-a.yaml", NAMESPACE), write("pod.yaml", pod()))
    assert "policies.conversion.convert" in names
    assert "policies.configuration" not in names


def test_settings_import_pydantic_only(folder, write, pod):
    arguments = ["review", "--settings", write("settings.yaml", SETTINGS), write("pod.yaml", pod())]
    packages = imported(folder, *arguments)
    assert not packages & HEAVY
    assert "pydantic" in packages


def test_help_lists_the_commands_with_what_they_do(invoke):
    done = invoke("--help")
    assert done.exit_code == 0
    assert (
        done.stdout
        == """\
Usage: gpu-admission [OPTIONS] COMMAND [ARGS]...

  Admission control for the NVIDIA GPUs of a Kubernetes cluster.

  What would the cluster do with this manifest?
    gpu-admission review --live pod.yaml
  Why is this pod Pending?
    gpu-admission explain pod/train -n team-a
  Who holds which GPUs, and which are free?
    gpu-admission usage
  What does a rule require, and why?
    gpu-admission rules GA307

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
  review           Review manifests as the webhook would, before they are
                   applied.
  test             Test that gpu-admission decides as your suites expect.
  migrate          Rewrite manifests from the device plugin to claims, and back.
  explain          Show where a pod or claim fits, and why not elsewhere.
  cel              Show which devices a selector matches, and why.
  plan             Show what a change of GPU configuration would break, before
                   it is applied.
  cutover          Plan the way from a ClusterPolicy to a GPUCluster, and back.
  audit            Review all objects of a cluster; show which namespaces are
                   ready to convert.
  quota            Show the GPU limits of namespaces, what is used, and which
                   pods use it.
  usage            Show who holds which GPUs, and which are free.
  report           Write a page that shows GPUs, holders, quotas and findings.
  snapshot         Write a running cluster into files for --cluster, without
                   secrets.
  generate         Print a configuration, quota, claim or wish from a few
                   options.
  rules            List the rules, or explain one.
  serve            Serve the webhook over HTTPS.
  preflight        Show what an install or upgrade would do, before it is
                   applied.
  doctor           Show whether an installation works, and what to do if not.
  apply-webhooks   Apply the webhooks of a version, without a call that fails.
  delete-webhooks  Delete the webhooks, before gpu-admission is removed.
  sandbox          Serve a Kubernetes API of manifests, for tests and for trying
                   out.
  demo             Show conversion from end to end, on a cluster in memory.
  completion       Print the script that completes commands in bash, zsh or
                   fish.
"""
    )


@pytest.mark.parametrize(
    "command",
    [
        "review",
        "explain",
        "cel",
        "plan",
        "audit",
        "quota",
        "usage",
        "snapshot",
        "generate",
        "rules",
        "serve",
        "preflight",
        "doctor",
    ],
)
def test_help_of_a_command_has_examples(invoke, command):
    done = invoke(command, "-h")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Usage: gpu-admission {command}")
    assert f"    gpu-admission {command} " in done.stdout


def test_unknown_command_is_a_usage_error(invoke):
    done = invoke("reveiw")
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: No such command 'reveiw'. Did you mean 'review'?\n")


def test_version_is_that_of_the_distribution(run):
    done = run("--version")
    assert done.stdout == f"gpu-admission {importlib.metadata.version('gpu-admission')}\n"


def test_help_of_the_sandbox_imports_no_server(folder):
    assert not imported(folder, "sandbox", "--help") & {*HEAVY, "orjson", "asyncio", "ssl"}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_of_the_table_is_found_by_its_name(name):
    assert find_command(name).name == name


@pytest.mark.parametrize("module", ["explain.live_explanations", "reports.live_audits"])
def test_command_that_reads_a_cluster_prints_no_log_messages(module):
    code = (
        f"import logging, webhook.cli.{module}; "
        "logging.getLogger('gpu_admission.cluster').warning('cached namespaces are forbidden')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
