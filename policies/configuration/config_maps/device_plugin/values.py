"""Values and fields: what the device plugin cannot read, and what it passes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.config_maps.device_plugin.configuration import CONFIGURATION
from policies.configuration.config_maps.device_plugin.grammar import grammar_problems
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem
    from policies.configuration.config_maps.device_plugin.configuration import Configuration


@CONFIGURATION.rule(
    "GA134",
    "Fields of a device-plugin configuration must have values that the plugin can read",
    default=Severity.DENY,
    remedy="write a value that the device plugin can read",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1, cmd/nvidia-device-plugin/main.go validateFlags",
    rows=("G-08", "G-29", "G-30"),
)
def readable_values(configuration: Configuration) -> Iterator[Problem]:
    """The device plugin parses the file when it starts and exits where it cannot, on every node that selects the key.

    The DaemonSet then crash-loops there and the node has no GPUs to give. A number as sleepInterval is read, but as
    nanoseconds: GPU Feature Discovery then labels the node without a pause.
    """
    for found in grammar_problems(configuration.value):
        if found.kind == "value":
            yield configuration.embedded.problem(found.steps, found.message, found.remedy)


@CONFIGURATION.rule(
    "GA135",
    "Fields of a device-plugin configuration must exist",
    default=Severity.DENY,
    remedy="remove it",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go: the file is not parsed strictly",
    rows=("G-20", "S-02"),
)
def existing_fields(configuration: Configuration) -> Iterator[Problem]:
    """The device plugin drops a field that it does not know, without an error and without a line in its log.

    The setting never takes effect: GPUs stay whole although everything seems applied. A field that is clearly a
    mistake is refused, another one only warned about, because the plugin may be newer than this list (v0.20).
    """
    for found in grammar_problems(configuration.value):
        if found.kind == "unknown":
            severity = None if found.clear else Severity.WARN
            yield configuration.embedded.problem(
                found.steps, found.message, found.remedy, severity=severity, of_key=True
            )
