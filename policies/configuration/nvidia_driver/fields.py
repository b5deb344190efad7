"""Fields of an NVIDIADriver: image, driver type, startup probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import NVIDIA_DRIVER
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_DEFAULT_IMAGE = "nvcr.io/nvidia/driver"
_VGPU = ("vgpu", "vgpu-host-manager")


@NVIDIA_DRIVER.rule(
    "GA193",
    "An NVIDIADriver must name its image together with repository and version",
    default=Severity.DENY,
    remedy="write repository: nvcr.io/nvidia, image: driver and a version",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1alpha1/nvidiadriver_types.go GetImagePath, internal/image/image.go",
    rows=("K-05",),
)
def named_image(change: Change) -> Iterator[Problem]:
    """The default of `image` is a whole path, and the operator puts the repository before it.

    So with a repository it is doubled, without one the version is refused, and alone it has no tag. The operator takes
    no image from its own settings here, as it does for a ClusterPolicy.
    """
    image = change.text("image")
    if image not in ("", _DEFAULT_IMAGE):
        return
    repository, version = change.text("repository"), change.text("version")
    field, by_default = "image", " by default" if not image else ""
    if repository and version:
        mark = "@" if version.startswith("sha256:") else ":"
        text = f'is "{_DEFAULT_IMAGE}"{by_default}, so nodes would pull "{repository}/{_DEFAULT_IMAGE}{mark}{version}"'
        yield problem(change.at(field), text, "write image: driver")
    elif repository or version:
        field, missing = ("version", "repository") if version else ("repository", "version")
        shown = f"repository={repository}, image={_DEFAULT_IMAGE}, version={version}"
        text = (
            f"is set without {missing}; the operator would report: invalid image specification: repository, image and "
            f"version must all be set ({shown})"
        )
        yield problem(change.at(field), text)
    else:
        text = f'is "{_DEFAULT_IMAGE}"{by_default} and the whole reference, so nodes would pull "{_DEFAULT_IMAGE}-<os>"'
        yield problem(change.at(field), text)


@NVIDIA_DRIVER.rule(
    "GA194",
    "Settings of an NVIDIADriver must fit its driver type, which must not change",
    default=Severity.DENY,
    remedy="set usePrecompiled: false, or disable gds and gdrcopy",
    source="github.com/NVIDIA/gpu-operator controllers/nvidiadriver_controller.go, config/crd/bases; docs.nvidia.com GPU "
    "Operator, driver configuration",
    rows=("K-07", "K-08", "K-11", "K-18"),
)
def fitting_kind(change: Change) -> Iterator[Problem]:
    """GPUDirect Storage and GDRCopy are built beside the driver, which precompiled drivers are not.

    The operator stops at such an NVIDIADriver, and no driver is deployed. `driverType` and `usePrecompiled` cannot
    change afterwards: each makes another DaemonSet, and the drivers of one would be removed under running pods. vGPU
    drivers have none of these parts, and without a licence a vGPU slows down after some minutes.
    """
    for component in ("gds", "gdrcopy") if change.flag("usePrecompiled") else ():
        if change.flag(component, "enabled"):
            error = (
                "GPUDirect Storage driver (nvidia-fs) and/or GDRCopy driver is not supported along with pre-compiled "
                "NVIDIA drivers"
            )
            text = f"does not work with usePrecompiled: true; the operator would report: {error}"
            yield problem(change.at(component, "enabled"), text)
    yield from _vgpu(change)
    if change.old is not None:
        yield from _type_changes(change)


def _vgpu(change: Change) -> Iterator[Problem]:
    kind = change.text("driverType")
    if kind not in _VGPU:
        return
    for steps in (("gds", "enabled"), ("gdrcopy", "enabled"), ("rdma", "enabled"), ("usePrecompiled",)):
        if change.flag(*steps):
            text = f"is not supported with driverType: {kind}"
            remedy = f"remove {steps[0]}, or write driverType: gpu"
            yield problem(change.at(*steps), text, remedy, severity=Severity.WARN)
    licence = change.mapping("licensingConfig")
    if kind == "vgpu" and not (licence.get("secretName") or licence.get("name")):
        text = "is missing, so the vGPUs stay unlicensed and slow down after some minutes"
        remedy = (
            "write licensingConfig: {secretName: ...} with gridd.conf and client_configuration_token.tok in the Secret"
        )
        yield problem(change.at("licensingConfig"), text, remedy, severity=Severity.WARN)


def _type_changes(change: Change) -> Iterator[Problem]:
    anew = "delete this NVIDIADriver, and create another one"
    before, now = change.value_before("driverType") or "gpu", change.text("driverType") or "gpu"
    if isinstance(before, str) and before != now:
        text = f'was "{before}" and cannot change to "{now}"; the API server refuses it'
        yield problem(change.at("driverType"), text, anew)
    was, precompiled = change.value_before("usePrecompiled"), change.flag("usePrecompiled")
    if isinstance(was, bool) and isinstance(change.value("usePrecompiled"), bool) and was != precompiled:
        text = "cannot change once it is set; the API server refuses it"
        yield problem(change.at("usePrecompiled"), text, anew)
    elif was is None and precompiled:
        text = "was not set before, so the API server lets it pass, and the driver is replaced on every selected node"
        yield problem(change.at("usePrecompiled"), text, f"{anew}, when the nodes are drained", severity=Severity.WARN)


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
    """A startup probe replaces the operator's own; it is not merged with it as in a ClusterPolicy.

    A missing field gets Kubernetes' default: three failures, a timeout of one second. The kubelet then kills the driver
    again and again while it compiles its modules. The driver's template has no liveness and readiness probes, and labels
    by which the operator finds the pods are dropped.
    """
    if change.mapping("startupProbe") and change.text("driverType") != "vgpu-host-manager":
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
    probe = change.section("startupProbe")
    rendered = {name: probe.number(name) or default for name, default in _OF_KUBERNETES.items()}
    seconds = rendered["initialDelaySeconds"] + rendered["periodSeconds"] * rendered["failureThreshold"]
    missing = [name for name in ("failureThreshold", "periodSeconds") if not probe.number(name)]
    whole = ", ".join(f"{name}: {probe.number(name) or default}" for name, default in _DEFAULTS.items())
    remedy = f"write startupProbe: {{{whole}}}"
    if missing and seconds < _ENOUGH_SECONDS and not change.flag("usePrecompiled"):
        text = (
            f"leaves out {' and '.join(missing)}, which become Kubernetes' defaults and not the operator's; the driver "
            f"would be killed after {seconds} seconds, while it compiles its modules"
        )
        yield problem(probe.at(), text, remedy)
    elif not probe.number("timeoutSeconds"):
        text = "leaves out timeoutSeconds, which becomes 1 and not the operator's 60, too short for nvidia-smi at times"
        yield problem(probe.at(), text, remedy, severity=Severity.WARN)
