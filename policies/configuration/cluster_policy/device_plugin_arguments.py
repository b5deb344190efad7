"""Device-plugin arguments: what `spec.devicePlugin.args` and `spec.mig.strategy` override in the ConfigMap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.cluster_policy.device_plugin import config_map, reads_config_map
from policies.configuration.config_maps.device_plugin.configuration import configurations
from policies.configuration.config_maps.device_plugin.grammar import STRATEGIES
from policies.decision import Severity
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.configuration.config_maps.device_plugin.configuration import Configuration

_MIG_STRATEGY = "migstrategy"


@CLUSTER_POLICY.rule(
    "GA143",
    "The ClusterPolicy and the ConfigMap of the device plugin must agree",
    default=Severity.DENY,
    remedy="change one of them",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go; "
    "github.com/NVIDIA/k8s-device-plugin api/config/v1/flags.go, cmd/nvidia-device-plugin/main.go",
    rows=("G-12", "G-21", "G-28"),
)
def agreeing_settings(change: Change) -> Iterator[Problem]:
    """The operator hands spec.mig.strategy and args to the device plugin, and both win over the file.

    A strategy that a file was not written for gives other resources than pods ask for, and mixed with MPS keeps the
    plugin from starting. An argument silently undoes what every configuration says of the same setting.
    """
    if change.deleted:
        return
    arguments = _arguments(change.items("devicePlugin", "args"))
    strategy = change.text("mig", "strategy")
    index, value = arguments.get(_MIG_STRATEGY, (0, ""))
    if strategy and value and value != strategy:
        text = f"sets the MIG strategy {value}, and spec.mig.strategy is {strategy}; GPU Feature Discovery uses that"
        remedy = "remove it, and write spec.mig.strategy"
        yield problem(change.at("devicePlugin", "args", index), text, remedy, severity=Severity.WARN)
    document = config_map(change) if reads_config_map(change) else None
    if not isinstance(document, dict):
        return
    for configuration in configurations(replace(change, object=document, old=None, kind="ConfigMap")):
        yield from _of_strategy(change, configuration, strategy)
        yield from _of_arguments(change, configuration, arguments)


def _of_strategy(change: Change, configuration: Configuration, strategy: str) -> Iterator[Problem]:
    path = change.at("mig", "strategy")
    name = change.text("devicePlugin", "config", "name")
    where = f'"{configuration.key}" of ConfigMap "{name}"'
    of_file = configuration.mig_strategy
    if strategy == "mixed" and configuration.strategy("mps") is not None:
        text = f"is mixed, and {where} shares GPUs by mps; the device plugin would exit with: using"
        yield problem(path, f"{text} --mig-strategy=mixed is not supported with MPS", "write single or none")
    # A configuration for nodes without MIG says none, and is right whatever the strategy is.
    elif strategy and of_file in STRATEGIES and of_file not in (strategy, "none"):
        text = f"is {strategy}, and {where} says migStrategy: {of_file}, which it overrides"
        yield problem(path, text, f"write {of_file}, or remove migStrategy there")


def _of_arguments(
    change: Change, configuration: Configuration, arguments: dict[str, tuple[int, str]]
) -> Iterator[Problem]:
    name = change.text("devicePlugin", "config", "name")
    for parent in (("flags",), ("flags", "plugin")):
        fields = configuration.get(*parent)
        for field, value in fields.items() if isinstance(fields, dict) else ():
            index, argument = arguments.get(field.lower(), (0, None))
            if argument is not None and not isinstance(value, dict | list | None) and argument != _text(value):
                text = (
                    f'overrides {field}: {shown(value)} in "{configuration.key}" of ConfigMap "{name}", because the '
                    "command line wins over the file"
                )
                path = change.at("devicePlugin", "args", index)
                yield problem(path, text, "say it in one place only", severity=Severity.WARN)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arguments(arguments: list[Any]) -> dict[str, tuple[int, str]]:
    """The flags among arguments, by the name of their field in lower case, with their index and value."""
    found = {}
    texts = [argument if isinstance(argument, str) else "" for argument in arguments]
    for index, (text, following) in enumerate(zip(texts, [*texts, ""][1:], strict=True)):
        name, sign, value = text.partition("=")
        if name.startswith("--"):
            separate = "" if following.startswith("-") else following
            found[name.replace("-", "").lower()] = (index, value if sign else separate or "true")
    return found
