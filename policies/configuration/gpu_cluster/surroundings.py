"""Surroundings of a GPUCluster: a recent Kubernetes, a recent driver, and no ClusterPolicy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.gpu_cluster.checks import GPU_CLUSTER
from policies.configuration.usage import counted, listed
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_NAME = FieldPath(["metadata", "name"])
_LEAST_KUBERNETES = (1, 34)
_LEAST_BRANCH = 580
_BRANCH = re.compile(r"([0-9]{3,4})(?:\.|$)")


@GPU_CLUSTER.rule(
    "GA198",
    "A GPUCluster must have Kubernetes 1.34, driver 580 and no ClusterPolicy around it",
    default=Severity.DENY,
    remedy="stay with the ClusterPolicy, or delete it first",
    source="github.com/NVIDIA/gpu-operator controllers/gpucluster_controller.go, "
    "deployments/gpu-operator/templates/validations.yaml; docs.nvidia.com GPU Operator, DRA",
    rows=("A-02", "L-01", "L-05"),
)
def surroundings(change: Change) -> Iterator[Problem]:
    """The operator runs either the device plugin, for a ClusterPolicy, or the DRA driver, for a GPUCluster.

    With both it stops to look after either; there is no migration in place, the ClusterPolicy has to go first. The DRA
    driver needs an API that Kubernetes has since 1.34 (1.34.2 in fact), and a driver of branch 580 or later.
    """
    if change.deleted:
        return
    policies = [name_of(policy) for policy in change.facts.known("ClusterPolicy")]
    if change.created and policies:
        text = (
            f'"{change.name}" and the ClusterPolicy "{policies[0]}" exclude each other; the operator would report: A '
            f'ClusterPolicy CR "{policies[0]}" exists; a ClusterPolicy CR and GPUCluster CR may not exist at the same time'
        )
        yield problem(_NAME, text)
    version = change.facts.view.server_version()
    if version is not UNKNOWN and version < _LEAST_KUBERNETES:
        text = (
            f"needs Kubernetes 1.34.2 or later, and this is {version[0]}.{version[1]}; the DRA driver could not start"
        )
        yield problem(FieldPath(["kind"]), text, "write a ClusterPolicy, or upgrade Kubernetes first")
    yield from _old_drivers(change)


def _old_drivers(change: Change) -> Iterator[Problem]:
    """Where NVIDIADrivers are known and all of them are too old; a host may have its driver without one."""
    drivers = change.facts.known("NVIDIADriver")
    old = [f"{name_of(driver)} {lookup(driver, ('spec', 'version'))}" for driver in drivers if _is_old(driver)]
    if old and len(old) == len(drivers):
        text = f"needs driver {_LEAST_BRANCH} or later, and there is {counted(len(old), 'NVIDIADriver', listed(old))}"
        remedy = "write a version such as 595.91.07 in the NVIDIADriver first"
        yield problem(FieldPath(["kind"]), text, remedy, severity=Severity.WARN)


def _is_old(driver: Object) -> bool:
    version = lookup(driver, ("spec", "version"))
    match = _BRANCH.match(version) if isinstance(version, str) else None
    return match is not None and int(match.group(1)) < _LEAST_BRANCH
