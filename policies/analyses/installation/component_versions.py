"""Versions and features of Kubernetes and of NVIDIA's components, and the APIs that are served."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.installation.cluster_checks import Check, Topic
from policies.kubernetes.names import format_list, format_ranges, shorten
from policies.kubernetes.objects import lookup, mappings_at, name_of
from policies.kubernetes.versions import GATE_LINES, Feature, gate_in, version_text
from policies.kubernetes.view import Unknown
from policies.nvidia.releases import NVIDIAFeature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object


_DRIVER = "gpu.nvidia.com"
_NUMBER = re.compile(r"v?(\d+)\.(\d+)")
_VERSIONS = "docs/versions.md"

COMPONENTS = {
    "gpu-operator": "GPU Operator",
    "k8s-device-plugin": "device plugin",
    "k8s-dra-driver-gpu": "DRA driver",
    "dra-driver-nvidia-gpu": "DRA driver",
}
"""NVIDIA's components by the last part of their images. Source: the Helm charts of gpu-operator 26.7, k8s-device-plugin and
k8s-dra-driver-gpu."""


def component_of(image: str) -> tuple[str, str] | None:
    """The component of an image and its tag, which may be empty; None if it is another image."""
    path = image.partition("@")[0].rpartition("/")[2]
    name, _, tag = path.partition(":")
    component = COMPONENTS.get(name)
    return None if component is None else (component, tag)


def kubernetes_checks(
    server: tuple[int, int] | Unknown,
    claims: Sequence[str] | Unknown,
    nodes: Sequence[Object] | Unknown,
    slices: Sequence[Object] | Unknown,
) -> Iterator[Check]:
    """The versions of the API server and of the kubelets, and whether claims are served.

    Args:
        server: The version of the API server.
        claims: The served versions of resource.k8s.io.
        nodes: All nodes.
        slices: All ResourceSlices.
    """
    yield _server_check(server)
    yield _claims_check(claims)
    if isinstance(nodes, Unknown):
        yield Topic.KUBELETS.forbidden("the versions of the kubelets are unknown", "list nodes")
    else:
        yield _kubelet_check(nodes, () if isinstance(slices, Unknown) else slices)


def _server_check(server: tuple[int, int] | Unknown) -> Check:
    if isinstance(server, Unknown):
        return Topic.KUBERNETES.unknown(
            "the version of the API server is unknown",
            why="you may not read /version",
            remedy="bind the ClusterRole system:public-info-viewer to the user",
        )
    text = f"the API server is Kubernetes {version_text(server)}"
    if not Feature.ResourceV1.default_in(server):
        return Topic.KUBERNETES.failure(
            text,
            why=f"gpu-admission needs {Feature.ResourceV1.on_since} or newer, which serves claims as resource.k8s.io/v1",
            remedy=f"upgrade Kubernetes first; {_VERSIONS}",
        )
    renames = Feature.DRAExtendedResource
    limits = "" if renames.default_in(server) else f"; the strategies rename and auto need {renames.on_since}"
    return Topic.KUBERNETES.ok(f"{text}{limits}")


def _claims_check(claims: Sequence[str] | Unknown) -> Check:
    if isinstance(claims, Unknown):
        return Topic.CLAIMS.unknown("it is unknown whether resource.k8s.io/v1 is served", why="discovery failed")
    if "v1" not in claims:
        served = (
            f"it serves {format_list(list(claims))} of this group only" if claims else "it does not serve this group"
        )
        return Topic.CLAIMS.warning(
            "the API server does not serve resource.k8s.io/v1",
            why=f"{served}, so nothing can be converted, and claims are unknown to the rules",
            remedy="enable the feature gate DynamicResourceAllocation and the API resource.k8s.io/v1",
        )
    return Topic.CLAIMS.ok("resource.k8s.io/v1 is served")


def _kubelet_check(nodes: Sequence[Object], slices: Iterable[Object]) -> Check:
    versions = {name_of(each): str(lookup(each, ("status", "nodeInfo", "kubeletVersion")) or "") for each in nodes}
    with_devices = {
        str(lookup(each, ("spec", "nodeName"))) for each in slices if lookup(each, ("spec", "driver")) == _DRIVER
    }
    old = [
        name
        for name, text in versions.items()
        if name in with_devices and (found := _numbers(text)) and not Feature.ResourceV1.default_in(found)
    ]
    if old:
        return Topic.KUBELETS.warning(
            f"kubelets of nodes with GPUs of the DRA driver are older than {Feature.ResourceV1.on_since}: {format_ranges(old)}",
            why="they cannot read claims of resource.k8s.io/v1, so converted pods do not start there [GA336]",
            remedy="upgrade these nodes before a namespace converts",
        )
    counts = Counter(text or "unknown" for text in versions.values())
    parts = [f"{text} on {count:,}" for text, count in sorted(counts.items())]
    noun = "node" if len(versions) == 1 else "nodes"
    what = f"kubelets are {format_list(parts)} {noun}" if parts else "there are no nodes"
    return Topic.KUBELETS.ok(what)


def _numbers(text: str) -> tuple[int, int] | None:
    match = _NUMBER.match(text)
    return (int(match[1]), int(match[2])) if match else None


def component_checks(
    images: Mapping[tuple[str, str], int] | Unknown, slices: Sequence[Object] | Unknown, converting: Sequence[str]
) -> Iterator[Check]:
    """The components of NVIDIA that run.

    Args:
        images: Component and tag, with the number of running pods.
        slices: All ResourceSlices.
        converting: The namespaces that convert or would, by their label.
    """
    publishes = not isinstance(slices, Unknown) and any(lookup(each, ("spec", "driver")) == _DRIVER for each in slices)
    if isinstance(images, Unknown):
        what = "it is unknown which GPU Operator, device plugin and DRA driver run"
        yield Topic.COMPONENTS.forbidden(what, "list pods in all namespaces")
        if publishes:
            yield _dra_driver_check([], converting, publishes=True)
        return
    found = {name: sorted({tag for each, tag in images if each == name}) for name in COMPONENTS.values()}
    for name, tags in found.items():
        if name == "DRA driver":
            yield _dra_driver_check(tags, converting, publishes=publishes)
        elif tags:
            yield Topic.COMPONENTS.ok(f"{name} {format_list([tag or 'of unknown version' for tag in tags])}")
    missing = [name for name, tags in found.items() if not tags and name != "DRA driver"]
    if missing and images:
        yield Topic.COMPONENTS.ok(f"{format_list(missing)} not seen; gpu-admission needs none")


def _dra_driver_check(tags: Sequence[str], converting: Sequence[str], *, publishes: bool) -> Check:
    old = [tag for tag in tags if NVIDIAFeature.KnownDriver.is_in(tag) is False]
    if old:
        return Topic.COMPONENTS.warning(
            f"DRA driver {format_list(old)} is older than what gpu-admission knows",
            why="conversion needs 25.8 to 25.12, or 0.4 and newer",
            remedy=f"upgrade the DRA driver; {_VERSIONS}",
        )
    if tags or publishes:
        text = format_list(list(tags)) if tags else "of unknown version, seen by its ResourceSlices"
        return Topic.COMPONENTS.ok(f"DRA driver {text}")
    if converting:
        return Topic.COMPONENTS.warning(
            "no DRA driver of NVIDIA is seen",
            why=f"pods of {format_list(list(converting))} would convert to claims, which nothing could allocate",
            remedy="install NVIDIA's DRA driver before these namespaces convert, or remove their label gpu-admission.io/dra",
        )
    return Topic.COMPONENTS.ok("no DRA driver of NVIDIA is seen; only conversion needs it")


METRICS = ("apiserver_admission_controller_admission_duration_seconds_count{", GATE_LINES)
"""The beginnings of the lines that are read."""
_PLUGIN = re.compile(r'apiserver_admission_controller_admission_duration_seconds_count\{.*\bname="(\w+)"')
_NEEDED = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "ValidatingAdmissionPolicy")
_GATES = {
    Feature.DynamicResourceAllocation: "nothing can be converted",
    Feature.DRAExtendedResource: "the strategies rename and auto cannot rename",
}
"""The consequence of a feature gate that is off though the version has it on by default."""


class ServerFeatures(NamedTuple):
    """The features and APIs that one API server has used since its start."""

    plugins: frozenset[str]
    """Admission plugins that were called."""
    gates: dict[str, bool]
    """Feature gates, each with whether it is on."""


def features_in(lines: Iterable[str]) -> ServerFeatures:
    """The features in lines of the metrics; other lines are ignored.

    Source: k8s.io/apiserver pkg/admission/metrics; seen on Kubernetes 1.36.2.
    """
    plugins: set[str] = set()
    gates: dict[str, bool] = {}
    for line in lines:
        if match := _PLUGIN.match(line):
            plugins.add(match[1])
        elif gate := gate_in(line):
            gates[gate[0]] = gate[1]
    return ServerFeatures(frozenset(plugins), gates)


def feature_checks(features: ServerFeatures | Unknown | None, server: tuple[int, int] | Unknown) -> Iterator[Check]:
    """Checks that the API server has switched on what gpu-admission needs.

    Args:
        features: What the metrics show; None if there are no metrics.
        server: The version of the API server.
    """
    if features is None:
        return
    if isinstance(features, Unknown):
        yield Topic.FEATURES.unknown(
            "it is unknown which admission plugins and feature gates the API server has",
            why="you may not read /metrics",
            remedy="bind the ClusterRole system:monitoring to the user",
        )
        return
    missing = [name for name in _NEEDED if name not in features.plugins] if features.plugins else []
    if missing:
        yield Topic.FEATURES.warning(
            f"the API server has not called {format_list(missing)} since its start",
            where="apiserver_admission_controller_admission_duration_seconds_count in /metrics",
            why="an admission plugin that is disabled calls no webhook or policy, so nothing is reviewed",
            remedy="look for --disable-admission-plugins in the options of the API server",
        )
    off = [gate for gate in _GATES if features.gates.get(gate.name) is False and gate.default_in(server) is not False]
    for gate in off:
        yield Topic.FEATURES.warning(
            f"the feature gate {gate.name} is off",
            where="kubernetes_feature_enabled in /metrics",
            why=f"without it, {_GATES[gate]}",
            remedy="enable it on the API server, the scheduler, the controller manager and the kubelets",
        )
    if not (missing or off) and features.plugins:
        yield Topic.FEATURES.ok("the API server calls webhooks and policies, and serves dynamic resources")


def api_checks(services: Sequence[Object] | Unknown) -> Iterator[Check]:
    """Aggregated APIs that are not available.

    Args:
        services: All APIServices.
    """
    if isinstance(services, Unknown):
        right = "list apiservices.apiregistration.k8s.io"
        yield Topic.APIS.forbidden("it is unknown whether all aggregated APIs are available", right)
        return
    broken = [
        (each, condition)
        for each in services
        for condition in mappings_at(each, ("status", "conditions"))
        if condition.get("type") == "Available" and condition.get("status") == "False"
    ]
    for each, condition in broken:
        yield Topic.APIS.warning(
            f"aggregated API {name_of(each)} is not available",
            where=f"APIService {name_of(each)}",
            why=f"{condition.get('reason')}: {shorten(str(condition.get('message')))}; discovery is incomplete, and namespaces "
            "cannot be deleted meanwhile",
            remedy="repair the service behind it, or delete the APIService if nothing uses it",
        )
    if not broken:
        yield Topic.APIS.ok("every aggregated API is available")


def conversion_checks(broken: Sequence[tuple[str, str]] | Unknown) -> Iterator[Check]:
    """Custom resources that gpu-admission reads and whose conversion webhook fails.

    Args:
        broken: The names of CRDs, each with the error of a list of its objects.
    """
    if isinstance(broken, Unknown):
        right = "list customresourcedefinitions.apiextensions.k8s.io"
        yield Topic.CONVERSIONS.forbidden("it is unknown whether a conversion webhook fails", right)
        return
    for name, error in broken:
        yield Topic.CONVERSIONS.warning(
            f"objects of {name} cannot be read",
            where=f"CustomResourceDefinition {name}, spec.conversion",
            why=shorten(error),
            remedy="repair its conversion webhook; until then, rules treat these objects as unknown",
        )
    if not broken:
        yield Topic.CONVERSIONS.ok("no conversion webhook fails for objects that gpu-admission reads")
