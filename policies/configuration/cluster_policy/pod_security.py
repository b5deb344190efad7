"""Pod security: `spec.psa`, and what the operator's namespace enforces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.distributions import is_openshift
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_ENFORCE = "pod-security.kubernetes.io/enforce"
_STANDARDS = ("baseline", "restricted")
_OPENSHIFT_NAMESPACE = "nvidia-gpu-operator"


@CLUSTER_POLICY.rule(
    "GA185",
    "The namespace of the operator must admit privileged pods",
    default=Severity.DENY,
    remedy=f"write psa.enabled: true, or label the namespace {_ENFORCE}=privileged",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go",
    rows=("F-14", "F-15"),
)
def privileged_namespace(change: Change) -> Iterator[Problem]:
    """Driver, toolkit and device plugin run privileged and mount paths of the host.

    Where the namespace enforces the baseline or the restricted standard, their pods are forbidden and the DaemonSets stay
    at zero. With `psa.enabled` the operator labels its namespace itself; on OpenShift only the one that it knows.
    """
    if change.deleted:
        return
    namespaces = {name: change.facts.get("Namespace", name) for name in change.facts.operator_namespaces}
    present = {name: labels_of(found) for name, found in namespaces.items() if isinstance(found, dict)}
    if change.flag("psa", "enabled"):
        elsewhere = [name for name in present if name != _OPENSHIFT_NAMESPACE]
        if elsewhere and namespaces.get(_OPENSHIFT_NAMESPACE) is None and _is_openshift(change):
            text = f'has no effect on OpenShift in the namespace "{elsewhere[0]}", only in "{_OPENSHIFT_NAMESPACE}"'
            remedy = f"label the namespace {_ENFORCE}=privileged"
            yield problem(change.at("psa", "enabled"), text, remedy, severity=Severity.WARN)
        return
    strict = {name: labels[_ENFORCE] for name, labels in present.items() if labels.get(_ENFORCE) in _STANDARDS}
    for name, standard in strict.items():
        text = f'is false while the namespace "{name}" enforces the standard "{standard}", which forbids every operand'
        yield problem(
            change.at("psa", "enabled"), text, severity=None if len(strict) == len(present) else Severity.WARN
        )


def _is_openshift(change: Change) -> bool:
    """Whether the nodes, or the driver toolkit that only OpenShift has, say so."""
    return change.flag("operator", "use_ocp_driver_toolkit") or any(map(is_openshift, change.facts.known("Node")))
