"""Admission plugins and feature gates of the API server, as its metrics show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status
from policies.phrases import format_list
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["METRICS", "ServerFeatures", "feature_checks", "features_in"]

METRICS = ("apiserver_admission_controller_admission_duration_seconds_count{", "kubernetes_feature_enabled{")
"""How the lines begin that are read."""
_PLUGIN = re.compile(r'apiserver_admission_controller_admission_duration_seconds_count\{.*\bname="(\w+)"')
_GATE = re.compile(r'kubernetes_feature_enabled\{.*\bname="(\w+)".*\} ([01])')
_NEEDED = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "ValidatingAdmissionPolicy")
_GATES = {
    "DynamicResourceAllocation": ((1, 34), "nothing can be converted"),
    "DRAExtendedResource": ((1, 36), "the strategies rename and auto cannot rename"),
}
"""The version of Kubernetes since which gpu-admission uses a feature gate, and what is missing without it."""


class ServerFeatures(NamedTuple):
    """What one API server has used since its start."""

    plugins: frozenset[str]
    """Admission plugins that were called."""
    gates: dict[str, bool]
    """Feature gates, each with whether it is on."""


def features_in(lines: Iterable[str]) -> ServerFeatures:
    """The features in lines of the metrics; other lines are ignored.

    Source: k8s.io/apiserver pkg/admission/metrics, k8s.io/component-base metrics/features; seen on Kubernetes 1.36.2.
    """
    plugins: set[str] = set()
    gates: dict[str, bool] = {}
    for line in lines:
        if match := _PLUGIN.match(line):
            plugins.add(match[1])
        elif match := _GATE.match(line):
            gates[match[1]] = match[2] == "1"
    return ServerFeatures(frozenset(plugins), gates)


def feature_checks(features: ServerFeatures | Unknown | None, server: tuple[int, int] | Unknown) -> Iterator[Check]:
    """Whether the API server has what gpu-admission needs switched on.

    Args:
        features: What the metrics show; None if there are no metrics.
        server: The version of the API server.
    """
    if features is None:
        return
    if isinstance(features, Unknown):
        yield Check(
            name="features",
            status=Status.UNKNOWN,
            what="it is unknown which admission plugins and feature gates the API server has",
            why="you may not read /metrics",
            remedy="bind the ClusterRole system:monitoring to the user",
        )
        return
    missing = [name for name in _NEEDED if name not in features.plugins] if features.plugins else []
    if missing:
        yield Check(
            name="features",
            status=Status.WARNING,
            what=f"the API server has not called {format_list(missing)} since its start",
            where="apiserver_admission_controller_admission_duration_seconds_count in /metrics",
            why="an admission plugin that is disabled calls no webhook or policy, so nothing is reviewed",
            remedy="look for --disable-admission-plugins in the options of the API server",
        )
    off = [
        name
        for name, (since, _) in _GATES.items()
        if features.gates.get(name) is False and (isinstance(server, Unknown) or server >= since)
    ]
    for name in off:
        yield Check(
            name="features",
            status=Status.WARNING,
            what=f"the feature gate {name} is off",
            where="kubernetes_feature_enabled in /metrics",
            why=f"without it, {_GATES[name][1]}",
            remedy="enable it on the API server, the scheduler, the controller manager and the kubelets",
        )
    if not (missing or off) and features.plugins:
        yield Check(
            name="features",
            status=Status.OK,
            what="the API server calls webhooks and policies, and serves dynamic resources",
        )
