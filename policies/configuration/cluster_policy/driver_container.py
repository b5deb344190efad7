"""The driver's containers: probes, the driver manager, the host's network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.components.driver import Driver, drivers_of
from policies.decision import Severity
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_PROBE_FIELDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_BUILD_SECONDS = 600
_MANAGER = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})")
_OLDEST_MANAGER = (0, 6, 4)


@CLUSTER_POLICY.rule(
    "GA124",
    "The driver must have its startup probe only, with enough time to build",
    default=Severity.DENY,
    remedy="remove it; the driver's container has only a startupProbe",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go setContainerProbe; "
    "assets/state-driver/0500_daemonset.yaml; k8s.io/kubernetes pkg/apis/core/validation",
    rows=("C-17", "C-18", "C-19"),
)
def probes(change: Change) -> Iterator[Problem]:
    """The driver's container has a startup probe only; the operator writes the others into nothing and crashes.

    It crashes again on each restart, so nothing is reconciled any more. A startup probe that gives up before the kernel
    modules are compiled has the kubelet kill the container in the middle, over and over.
    """
    for driver in drivers_of(change):
        for probe in ("livenessProbe", "readinessProbe"):
            if any(_number(driver, probe, field) for field in _PROBE_FIELDS):
                text = (
                    "makes the operator crash on every reconciliation: the driver's container has no such probe to set"
                )
                yield problem(driver.at(probe), text)
        delay, successes = (
            _number(driver, "startupProbe", name) for name in ("initialDelaySeconds", "successThreshold")
        )
        if delay < 0:
            text = f"is {delay}; Kubernetes would report: must be greater than or equal to 0"
            path = driver.at("startupProbe", "initialDelaySeconds")
            yield problem(path, text, "write initialDelaySeconds: 60")
        if successes > 1:
            text = f"is {successes}; Kubernetes would report: must be 1"
            yield problem(driver.at("startupProbe", "successThreshold"), text, "write successThreshold: 1")
        yield from _short(driver)


def _short(driver: Driver) -> Iterator[Problem]:
    if driver.precompiled or not any(_number(driver, "startupProbe", field) for field in _PROBE_FIELDS):
        return
    delay = _number(driver, "startupProbe", "initialDelaySeconds") or 60
    period = _number(driver, "startupProbe", "periodSeconds") or 10
    failures = _number(driver, "startupProbe", "failureThreshold") or 120
    total = max(delay, 0) + period * failures
    if min(period, failures) > 0 and total < _BUILD_SECONDS:
        text = (
            f"gives the driver {total} s ({max(delay, 0)} + {failures} x {period}); a build takes ten minutes on some "
            "nodes, and is killed and begun again until then"
        )
        enough = -(-(_BUILD_SECONDS * 2) // period)
        yield problem(driver.at("startupProbe"), text, f"write failureThreshold: {enough}", severity=Severity.WARN)


def _number(driver: Driver, *steps: str) -> int:
    value = driver.value(*steps)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_SUPERSEDED = {
    "ENABLE_AUTO_DRAIN": ("enable", "false"),
    "DRAIN_USE_FORCE": ("force", "false"),
    "DRAIN_POD_SELECTOR_LABEL": ("podSelector", ""),
    "DRAIN_TIMEOUT_SECONDS": ("timeoutSeconds", "0s"),
    "DRAIN_DELETE_EMPTYDIR_DATA": ("deleteEmptyDir", "false"),
}
"""Variables of the driver manager, the field of upgradePolicy.drain that replaces each, and what charts set by default."""


@CLUSTER_POLICY.rule(
    "GA127",
    "The driver manager must leave upgrades to the operator",
    default=Severity.WARN,
    remedy="set driver.upgradePolicy instead",
    source="docs.nvidia.com GPU Operator, GPU driver upgrades; github.com/NVIDIA/gpu-operator "
    "deployments/gpu-operator/values.yaml",
    rows=("C-32", "C-33", "S-14"),
)
def driver_manager(change: Change) -> Iterator[Problem]:
    """With `upgradePolicy.autoUpgrade` the operator's upgrade controller evicts and drains, by its own settings.

    The variables that told the driver manager to do so are not read any more: a node that was meant to be drained is
    not, and the upgrade waits for its pods.
    """
    for driver in drivers_of(change):
        version = driver.text("manager", "version")
        match = _MANAGER.fullmatch(version)
        if match and tuple(map(int, match.groups())) < _OLDEST_MANAGER:
            text = f'"{version}" is older than v0.6.4, the oldest that works with this operator'
            yield problem(driver.at("manager", "version"), text, "write version: v0.12.0, or what your registry has")
        if not change.flag("driver", "upgradePolicy", "autoUpgrade"):
            continue
        variables = change.items("driver", "manager", "env")
        for index, variable in enumerate(variables):
            name, value = lookup(variable, ("name",)), lookup(variable, ("value",))
            if found := _ignored_variable(change, name, value):
                yield problem(driver.at("manager", "env", index), *found)


def _ignored_variable(change: Change, name: Any, value: Any) -> tuple[str, str] | None:
    """What is wrong with a variable of the driver manager; nothing where the upgrade policy says the same."""
    if not isinstance(name, str) or not isinstance(value, str):
        return None
    text = f'sets {name} to "{value}", which nothing reads with upgradePolicy.autoUpgrade: true'
    if name == "ENABLE_GPU_POD_EVICTION" and value == "false":
        return text, "remove it; set upgradePolicy.autoUpgrade: false to keep GPU pods from being evicted"
    field, usual = _SUPERSEDED.get(name, ("", value))
    said = change.value("driver", "upgradePolicy", "drain", field)
    spelled = str(said).lower() if isinstance(said, bool) else str(said)
    if value in (usual, spelled, f"{spelled}s"):
        return None
    number = value.removesuffix("s")
    return (
        text,
        f"remove it, and write driver.upgradePolicy.drain.{field}: {number if field == 'timeoutSeconds' else value}",
    )


_PORTS = {"dcgm": 5555, "dcgmExporter": 9400}


@CLUSTER_POLICY.rule(
    "GA128",
    "A component must use the host network only where its port is free and the namespace allows it",
    default=Severity.WARN,
    remedy="write hostNetwork: false",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyHostNetworkConfig; kubernetes.io Pod "
    "Security Standards",
    rows=("C-35",),
)
def host_network(change: Change) -> Iterator[Problem]:
    """On the host's network a port can be taken once: DCGM listens on 5555, its exporter on 9400.

    A second listener leaves the pod pending or restarting. In a namespace whose pod security standard is baseline or
    restricted such pods are refused altogether.
    """
    if change.deleted:
        return
    for name in ("driver", *_PORTS):
        if not change.flag(name, "hostNetwork") or not change.flag(name, "enabled", default=True):
            continue
        path = change.at(name, "hostNetwork")
        if enforced := _enforced(change):
            yield problem(
                path,
                f"is refused in {enforced}; Kubernetes would report: violates PodSecurity: host namespaces "
                "(hostNetwork=true)",
                "write hostNetwork: false, or set psa.enabled: true",
            )
        port = _PORTS.get(name)
        if port and (other := _listener(change, port)):
            yield problem(path, f"needs port {port} of each GPU node, which {other} takes already")


def _enforced(change: Change) -> str:
    """The operator's namespace, where pod security keeps pods off the host's network and the operator leaves it so."""
    if change.flag("psa", "enabled"):
        return ""
    for name in change.facts.operator_namespaces:
        level = lookup(
            change.facts.get("Namespace", name), ("metadata", "labels", "pod-security.kubernetes.io/enforce")
        )
        if level in ("baseline", "restricted"):
            return f'namespace "{name}", which enforces pod security "{level}"'
    return ""


def _listener(change: Change, port: int) -> str:
    for pod in change.facts.known("Pod"):
        if namespace_of(pod) not in change.facts.operator_namespaces and _takes(pod, port):
            return f'pod "{namespace_of(pod)}/{name_of(pod)}"'
    return ""


def _takes(pod: Object, port: int) -> bool:
    on_host = lookup(pod, ("spec", "hostNetwork")) is True
    containers = lookup(pod, ("spec", "containers"))
    for container in containers if isinstance(containers, list) else []:
        ports = lookup(container, ("ports",))
        for one in ports if isinstance(ports, list) else []:
            if lookup(one, ("hostPort",)) == port or (on_host and lookup(one, ("containerPort",)) == port):
                return True
    return False
