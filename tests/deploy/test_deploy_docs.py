"""Links, files, names, commands and patches in the pages about operation are right."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from testbed import libyaml
from webhook.cli import main

ROOT = Path(__file__).parents[2]
PAGES = {
    name: ROOT / "docs" / f"{name}.md"
    for name in (
        "install",
        "upgrade",
        "uninstall",
        "air-gap",
        "troubleshooting",
        "security",
        "failure-modes",
        "break-glass",
        "slo",
    )
}
TEXTS = {name: page.read_text() for name, page in PAGES.items()}
OF_KUBERNETES = {"--admission-control-config-file", "--dry-run", "--max-request-bytes", "--runtime-config"}
"""Options of kubectl, kube-apiserver and etcd."""


def found(pattern, *pages):
    """A case for each page that has matches, of those named or of all: the matches."""
    matches = {name: re.findall(pattern, TEXTS[name], re.DOTALL | re.MULTILINE) for name in pages or TEXTS}
    return pytest.mark.parametrize("found", [pytest.param(each, id=name) for name, each in matches.items() if each])


@found(r"\bdeploy/(?!test_)[\w./-]+\w")
def test_files_that_are_named_exist(found):
    for path in found:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_commands_that_are_named_exist(text):
    named = set(re.findall(r"(?:^|`)gpu-admission ([a-z-]+)", text, re.MULTILINE))
    assert named <= {*main.list_commands(click.Context(main))}


@found(r"(?:`| value: )(--[a-z-]+)")
def test_flags_that_are_named_exist(found):
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in main.list_commands(context)]
    known = {option for command in commands for each in command.params for option in each.opts} | OF_KUBERNETES
    for flag in found:
        assert flag in known, flag


@found(r"```yaml\n(.*?)```")
def test_examples_are_yaml(found):
    for example in found:
        assert libyaml.load(example)


def test_alerts_that_are_named_exist(deploy):
    files = [deploy / "components" / "monitoring" / name for name in ("prometheus-rule.yaml", "slo-rule.yaml")]
    groups = [group for file in files for group in libyaml.load(file.read_text())["spec"]["groups"]]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    for text in TEXTS.values():
        assert set(re.findall(r"\bGPUAdmission(?!Policy)[A-Z]\w+", text)) <= alerts


@found(
    r"kubectl (?:delete|patch) ([a-z]+,[a-z,]+|[a-z]*configuration|[a-z]*binding) ([\w.-]+)",
    "install",
    "uninstall",
    "break-glass",
)
def test_objects_that_are_deleted_exist(found, installed):
    names = {(each["kind"].lower(), each["metadata"]["name"]) for each in installed}
    for kinds, name in found:
        assert {(kind, name) for kind in kinds.split(",")} <= names


def test_patches_of_break_glass_meet_the_webhooks_that_fail_closed(one):
    text = TEXTS["break-glass"]
    patches = [json.loads(patch) for patch in re.findall(r"-p '(\[.*?\])'", text, re.DOTALL)]
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    named = set()
    for kind, steps in zip(kinds, patches, strict=True):
        for test, replace in zip(steps[::2], steps[1::2], strict=True):
            index = int(test["path"].split("/")[2])
            webhook = one(kind)["webhooks"][index]
            assert (test["op"], test["value"], webhook["failurePolicy"]) == ("test", webhook["name"], "Fail")
            assert replace == {"op": "replace", "path": f"/webhooks/{index}/failurePolicy", "value": "Ignore"}
            named.add(webhook["name"])
    assert named == {
        each["name"] for kind in kinds for each in one(kind)["webhooks"] if each["failurePolicy"] == "Fail"
    }


def test_readiness_is_quoted_in_the_words_of_the_program():
    """What stands between dots is somewhere in its source."""
    files = [*(ROOT / "webhook").rglob("*.py"), *(ROOT / "policies" / "settings").rglob("*.py")]
    source = "\n".join(file.read_text() for file in files)
    section = TEXTS["troubleshooting"].partition("\n## Not ready\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    quoted = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row) if quote != "/readyz"]
    assert len(quoted) > 8
    for quote in quoted:
        for part in quote.removeprefix("GPUAdmissionPolicy default").split("..."):
            assert part.strip(" ,:") in source, quote


def built_overlay(folder, deploy, text):
    (folder / "deploy").symlink_to(deploy)
    overlay = folder / "my-overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(text)
    return subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, for kubectl kustomize")
def test_overlay_of_the_installation_page_builds(tmp_path, deploy):
    example = re.findall(r"```yaml\n(.*?)```", TEXTS["install"], re.DOTALL)[0]
    done = built_overlay(tmp_path, deploy, example)
    assert done.returncode == 0, done.stderr
    assert "image: registry.example.com/gpu-admission:0.1.0" in done.stdout


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, for kubectl kustomize")
def test_overlay_with_credentials_of_the_installation_page_builds(tmp_path, deploy):
    overlay, patches = re.findall(r"```yaml\n(.*?)```", TEXTS["install"], re.DOTALL)[:2]
    done = built_overlay(tmp_path, deploy, overlay + patches)
    assert done.returncode == 0, done.stderr
    (found,) = (each for each in libyaml.load_all(done.stdout) if each["kind"] == "Deployment")
    assert found["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_no_registry_is_named():
    """Whoever builds the image knows where it comes from and where it goes."""
    hosts = re.compile(
        r"\b(docker\.io|ghcr\.io|quay\.io|gcr\.io|nvcr\.io|pypi\.org|pythonhosted\.org|registry\.k8s\.io)\b"
    )
    files = [ROOT / "Dockerfile", ROOT / "Makefile", *(each for each in (ROOT / "deploy").rglob("*") if each.is_file())]
    assert [str(file) for file in files if hosts.search(file.read_text())] == []


def test_examples_of_exemptions_name_the_namespaces_of_the_webhooks(webhooks):
    (names,) = (
        each["values"]
        for each in webhooks["validating", "guard-pods"]["namespaceSelector"]["matchExpressions"]
        if each["operator"] == "NotIn"
    )
    for name in set(names) - {"kube-system", "gpu-admission"}:
        assert f"`{name}`" in TEXTS["install"]
