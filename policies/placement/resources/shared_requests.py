"""Requests of one container for several shares, where the device plugin allocates only one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.decision import Severity
from policies.fleet.device_plugin import active_cluster_policy
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import Limits, YAMLError, load_document
from policies.nvidia.resources import parse_resource
from policies.placement.sharing import sharing_strategy, ways_of_sharing
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.decision import Finding
    from policies.fleet.gpu_nodes import GPUNode
    from policies.kubernetes.pods import Pod
    from policies.placement.resources.extended_resources import ResourceRequest
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["shared_requests"]

_CONFIG = "nvidia.com/device-plugin.config"
_FIELDS = {"mps": "mps", "time-slicing": "timeSlicing"}


def shared_requests(
    pod: Pod, requests: Iterable[ResourceRequest], view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """Warn about each container whose request every eligible node would refuse."""
    large_requests = [
        request for request in requests if request.amount > 1 and parse_resource(request.resource) is not None
    ]
    nodes = gpu_nodes(view) if large_requests else UNKNOWN
    if nodes is UNKNOWN:
        return
    selected = nodes.select(pod.spec)
    configurations = _Configurations(view, settings)
    offered = {request.resource for request in large_requests if request.resource in nodes.offers}
    refusing = {resource: _refusing_nodes(resource, selected, configurations) for resource in offered}
    ways = {resource: ways_of_sharing(sharing, resource) for resource, sharing in refusing.items() if sharing}
    others = {resource: _number_of_unshared(resource, nodes.nodes) for resource in ways}
    for request in large_requests:
        if request.resource in ways:
            yield _finding(request, ways[request.resource], others[request.resource])


def _refusing_nodes(resource: str, nodes: Sequence[GPUNode], configurations: _Configurations) -> list[GPUNode]:
    """The nodes that offer a resource, if each gives a container one share only; otherwise empty."""
    if any(resource in node.offers and not configurations.gives_one_only(node, resource) for node in nodes):
        return []
    return [node for node in nodes if resource in node.offers]


def _number_of_unshared(resource: str, nodes: Sequence[GPUNode]) -> int:
    return sum(resource in node.offers and sharing_strategy(node, resource) is None for node in nodes)


ONE_SHARE = rule(
    "GA412",
    "A container must request one share where a node gives no more",
    default=Severity.WARN,
    why="""
    Under MPS, and under time-slicing with failRequestsGreaterThanOne, the device plugin refuses a request for more than
    one share: two shares may be of the same GPU and give no more of it than one. The scheduler does not know this limit. It binds the pod, the kubelet fails it, and a controller creates the next pod, which fails too.""",
    remedy="request 1",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go ValidateRequest, api/config/v1/config.go",
)


def _finding(request: ResourceRequest, ways: str, others: int) -> Finding:
    parsed = parse_resource(request.resource)
    things = "MIG devices" if parsed and parsed.mig else "GPUs"
    text = (
        f"is {request.amount}, and every node that offers it to this pod shares its {things}, "
        f"{ways}, and gives a container 1 share; the pod would fail with "
        "UnexpectedAdmissionError: invalid request: maximum request size for shared resources is 1; "
        f"found {request.amount}"
    )
    if not others:
        return ONE_SHARE.finding(request.path, text)
    there_are = (
        "1 node that does not share them" if others == 1 else f"one of the {others} nodes that do not share them"
    )
    return ONE_SHARE.finding(request.path, text, f"request 1, or let the pod run on {there_are}")


class _Configurations:
    """The configurations of the device plugin.

    Source: github.com/NVIDIA/k8s-device-plugin cmd/config-manager; gpu-operator ClusterPolicy devicePlugin.config.
    """

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        config = lookup(active_cluster_policy(view), ("spec", "devicePlugin", "config"))
        name = lookup(config, ("name",))
        self._default = lookup(config, ("default",))
        self._texts: list[Any] = []
        if isinstance(name, str) and name:
            namespaces = settings.configuration.operator_namespaces
            self._texts = [lookup(view.get("ConfigMap", name, namespace), ("data",)) for namespace in namespaces]
        self._read: dict[str, Any] = {}
        self._one_only: dict[tuple[str, str], bool] = {}

    def gives_one_only(self, node: GPUNode, resource: str) -> bool:
        """True if a node's device plugin refuses requests for more than one share of a resource.

        Under MPS it does unless its configuration sets failRequestsGreaterThanOne to false; under time-slicing it
        does only if that is true.

        Source: github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go NewConfig, internal/rm/rm.go
        ValidateRequest.
        """
        strategy = sharing_strategy(node, resource)
        if strategy is None:
            return False
        config = node.labels.get(_CONFIG, "")
        if (strategy, config) not in self._one_only:
            self._one_only[strategy, config] = self._says_one_only(strategy, config or self._default)
        return self._one_only[strategy, config]

    def _says_one_only(self, strategy: str, key: Any) -> bool:
        sharing = _field(self._document(key), "sharing") if isinstance(key, str) else None
        said = lookup(_field(sharing, _FIELDS[strategy]), ("failRequestsGreaterThanOne",))
        return said is True or (strategy == "mps" and said is not False)

    def _document(self, key: str) -> Any:
        """The device plugin configuration of a name; None if it is unknown or unreadable."""
        if key not in self._read:
            text = next((data[key] for data in self._texts if isinstance(data, dict) and key in data), None)
            limits = Limits(size=1024 * 1024, depth=20, nodes=10_000)
            try:
                self._read[key] = load_document(text, limits=limits).value if isinstance(text, str) else None
            except YAMLError:
                self._read[key] = None
        return self._read[key]


def _field(value: Any, name: str) -> Any:
    """A field of a mapping in any letter case, as Go's encoding/json reads it; None if missing."""
    if not isinstance(value, dict) or name in value:
        return lookup(value, (name,))
    return next((item for key, item in value.items() if key.lower() == name.lower()), None)
