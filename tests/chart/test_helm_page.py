"""Values, commands and options of docs/helm.md are right."""

import re
from pathlib import Path

import pytest

from testbed import libyaml

TEXT = (Path(__file__).parents[2] / "docs" / "helm.md").read_text()
EXAMPLES = [libyaml.load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]
VALUES = [example for example in EXAMPLES if "apiVersion" not in example]
COMMANDS = [
    (line.split()[1], re.findall(r"(?<= )(--[a-z-]+)", line.partition("|")[0]))
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("helm ")
]
NEW = {"--force-conflicts"}
"""Options of Helm 4."""


def test_page_has_examples_and_commands():
    assert (len(VALUES), len(EXAMPLES) - len(VALUES)) == (15, 2)
    assert {name for name, _ in COMMANDS} == {"install", "upgrade", "rollback", "uninstall", "test", "template"}


@pytest.mark.parametrize("values", VALUES, ids=lambda values: next(iter(values)))
def test_values_of_the_page_are_rendered(chart, values):
    assert len(chart(values)) > 30


def test_commands_of_the_page_have_their_options(any_helm):
    for name, options in COMMANDS:
        known = {*re.findall(r"--[a-z-]+", any_helm.output(name, "--help"))}
        if not any_helm.version.startswith("4"):
            known |= NEW
        assert {*options} <= known, name


@pytest.mark.parametrize(("option", "version"), [("--rollback-on-failure", "4"), ("--atomic", "3"), ("--wait", "")])
def test_options_that_the_page_explains_exist(any_helm, option, version):
    if any_helm.version.startswith(version):
        assert option in any_helm.output("upgrade", "--help")


def test_shown_templates_are_what_the_page_says(helm):
    shown = {path: helm.template({}, "--show-only", path) for path in re.findall(r"--show-only (\S+)", TEXT)}
    assert {each["kind"] for documents in shown.values() for each in documents} == {
        "ConfigMap",
        "CustomResourceDefinition",
    }
    (config_map,) = shown["templates/hooks/configurations.yaml"]
    assert "kind: MutatingWebhookConfiguration" in config_map["data"]["webhooks.yaml"]
