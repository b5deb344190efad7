"""What of an NVIDIADriver does not reach the pods of the driver, or reaches them otherwise than it was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.nvidia_driver.checks import NVIDIA_DRIVER
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_ENOUGH_SECONDS = 600
"""How long a driver may take to compile its modules."""
_DEFAULTS = {"initialDelaySeconds": 60, "periodSeconds": 10, "timeoutSeconds": 60, "failureThreshold": 120}
"""The operator's startup probe, for a driver that compiles its modules."""
_OF_KUBERNETES = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
"""What the API server makes of the zeros that the operator writes for fields that are not set."""


@NVIDIA_DRIVER.rule(
    "GA196",
    "A startup probe must be complete, and settings must reach the pods of the driver",
    default=Severity.DENY,
    remedy="remove startupProbe, or write all of its fields",
    source="github.com/NVIDIA/gpu-operator internal/state/driver.go, manifests/state-driver/0500_daemonset.yaml",
    rows=("K-12", "K-13", "K-17"),
)
def whole_probe(change: Change) -> Iterator[Problem]:
    """A startup probe replaces the operator's own, it is not merged with it as in a ClusterPolicy.

    What is left out becomes Kubernetes' default: three failures, a second each. The kubelet then kills the driver while
    it compiles its modules, again and again. Liveness and readiness probes are not in the driver's template at all, and
    labels by which the operator finds the pods are left out.
    """
    if change.deleted:
        return
    yield from _startup_probe(change)
    for probe in ("livenessProbe", "readinessProbe"):
        if change.mapping(probe):
            text = "has no effect, because the driver's container has a startup probe only"
            yield problem(change.at(probe), text, "remove it", severity=Severity.WARN)
    for key in change.mapping("labels"):
        if key == "app" or key.startswith("app.kubernetes.io/"):
            text = "is silently dropped, because the operator finds its pods by this label"
            yield problem(change.at("labels", key), text, "use another label", severity=Severity.WARN)


def _startup_probe(change: Change) -> Iterator[Problem]:
    probe = change.mapping("startupProbe")
    if not probe or change.text("driverType") == "vgpu-host-manager":
        return
    rendered = {name: _number(probe.get(name)) or default for name, default in _OF_KUBERNETES.items()}
    path = change.at("startupProbe")
    seconds = rendered["initialDelaySeconds"] + rendered["periodSeconds"] * rendered["failureThreshold"]
    missing = [name for name in ("failureThreshold", "periodSeconds") if not _number(probe.get(name))]
    whole = {name: _number(probe.get(name)) or default for name, default in _DEFAULTS.items()}
    remedy = f"write startupProbe: {{{', '.join(f'{name}: {value}' for name, value in whole.items())}}}"
    if missing and seconds < _ENOUGH_SECONDS and not change.flag("usePrecompiled"):
        text = (
            f"leaves out {' and '.join(missing)}, which become Kubernetes' defaults and not the operator's; the driver "
            f"would be killed after {seconds} seconds, while it compiles its modules"
        )
        yield problem(path, text, remedy)
    elif not _number(probe.get("timeoutSeconds")):
        text = "leaves out timeoutSeconds, which becomes 1 and not the operator's 60, too short for nvidia-smi at times"
        yield problem(path, text, remedy, severity=Severity.WARN)


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
