"""Configs: what a driver gets to read, which Kubernetes does not understand but bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.field_errors import REQUIRED, driver_name_error, invalid, too_long
from policies.dra.claims.subject import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Config

_LONGEST = 10 * 1024
"""Bytes of parameters, as JSON."""


@CLAIMS.rule(
    "GA213",
    "A config must name its driver and have parameters",
    default=Severity.DENY,
    remedy="write opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: ...}}",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateOpaqueConfiguration, validateRawExtension",
)
def opaque_configs(subject: Subject) -> Iterator[Problem]:
    """The named driver reads the config, a JSON object of at most 10 KiB, when it prepares the devices.

    What the parameters say is the driver's business; other rules look at those of NVIDIA's driver.
    """
    for config in subject.configs:
        opaque = config.fields.get("opaque")
        if opaque is None:
            # GA201 reports parameters beside opaque.
            if not {"driver", "parameters"} & config.fields.keys():
                yield problem(config.path / "opaque", REQUIRED)
        elif isinstance(opaque, dict):
            yield from _driver_problems(config, opaque.get("driver"))
            yield from _parameter_problems(config, opaque.get("parameters"))


def _driver_problems(config: Config, driver: Any) -> Iterator[Problem]:
    if driver is None or driver == "":
        wrong, remedy = REQUIRED, "add driver: gpu.nvidia.com, or whose config it is"
    elif isinstance(driver, str) and (error := driver_name_error(driver)):
        wrong, remedy = invalid(driver, error), "write the name of the driver as its ResourceSlices have it"
    else:
        return
    yield problem(config.path / "opaque" / "driver", wrong, remedy)


def _parameter_problems(config: Config, parameters: Any) -> Iterator[Problem]:
    if parameters is None:
        yield problem(config.parameters_path, REQUIRED, "add parameters, with the apiVersion and kind of a config")
    elif not isinstance(parameters, dict):
        text = (
            "remove the | or the quotes, so that it is a mapping" if isinstance(parameters, str) else "write a mapping"
        )
        yield problem(config.parameters_path, "Invalid value: must be a valid JSON object", text)
    elif (size := _size(parameters)) > _LONGEST:
        yield problem(config.parameters_path, f"{too_long(_LONGEST)}, and has {size}", "shorten the parameters")


def _size(parameters: Any) -> int:
    """Bytes as JSON without blanks, counted without recursion, because parameters may be nested deeply."""
    size, pending = 0, [parameters]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list):
            size += len("{}") + max(0, len(value) - 1)
            pending += value
            if isinstance(value, dict):
                size += len(":") * len(value)
                pending += value.values()
        else:
            size += len(_as_json(value).encode(errors="surrogatepass"))
    return size


_as_json = json.JSONEncoder(ensure_ascii=False).encode
