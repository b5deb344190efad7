"""Shared requests: more than one share for one container, where the device plugin gives no more than one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.decision import Severity
from policies.fleet.device_plugin import active_cluster_policy
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.paths import lookup
from policies.nvidia.resources import parse_resource
from policies.placement.resources.extended_resources import asks
from policies.placement.sharing import sharing_strategy, ways_of_sharing
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.decision import Finding
    from policies.fleet.gpu_nodes import GPUNode
    from policies.kubernetes.pods import Pod
    from policies.placement.resources.extended_resources import Ask
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["shared_requests"]

_CONFIG = "nvidia.com/device-plugin.config"
_FIELDS = {"mps": "mps", "time-slicing": "timeSlicing"}


def shared_requests(pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """The containers that would be turned down on every node that offers to the pod what they ask for."""
    many_asked = [ask for ask in asks(pod) if ask.amount > 1 and parse_resource(ask.resource) is not None]
    nodes = gpu_nodes(view) if many_asked else UNKNOWN
    if nodes is UNKNOWN:
        return
    selected = nodes.select(pod.spec)
    configurations = _Configurations(view, settings)
    offered = {ask.resource for ask in many_asked if ask.resource in nodes.offers}
    turning_down = {resource: _turning_down(resource, selected, configurations) for resource in offered}
    ways = {resource: ways_of_sharing(sharing, resource) for resource, sharing in turning_down.items() if sharing}
    others = {resource: _not_sharing(resource, nodes.nodes) for resource in ways}
    for ask in many_asked:
        if ask.resource in ways:
            yield _finding(ask, ways[ask.resource], others[ask.resource])


def _turning_down(resource: str, nodes: Sequence[GPUNode], configurations: _Configurations) -> list[GPUNode]:
    """The nodes that offer a resource, if each of them gives a container one share only; else none."""
    if any(resource in node.offers and not configurations.gives_one_only(node, resource) for node in nodes):
        return []
    return [node for node in nodes if resource in node.offers]


def _not_sharing(resource: str, nodes: Sequence[GPUNode]) -> int:
    return sum(resource in node.offers and sharing_strategy(node, resource) is None for node in nodes)


ONE_SHARE = rule(
    "GA412",
    "A container must request one share where a node gives no more",
    default=Severity.WARN,
    why="""
    Under MPS, and under time-slicing with failRequestsGreaterThanOne, the device plugin turns down whoever asks for
    more than one share: two shares may be of one GPU, and are no more of it than one. The scheduler does not know. It
    binds the pod, the kubelet fails it, and a controller makes the next one, which fails in the same way.""",
    remedy="ask for 1",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go ValidateRequest, api/config/v1/config.go",
)


def _finding(ask: Ask, ways: str, others: int) -> Finding:
    parsed = parse_resource(ask.resource)
    things = "MIG devices" if parsed and parsed.mig else "GPUs"
    text = (
        f"is {ask.amount}, and every node that offers it to this pod shares its {things}, "
        f"{ways}, and gives a container 1 share; the pod would fail with "
        "UnexpectedAdmissionError: invalid request: maximum request size for shared resources is 1; "
        f"found {ask.amount}"
    )
    if not others:
        return ONE_SHARE.finding(ask.path, text)
    there_are = (
        "1 node that does not share them" if others == 1 else f"one of the {others} nodes that do not share them"
    )
    return ONE_SHARE.finding(ask.path, text, f"ask for 1, or let the pod run on {there_are}")


class _Configurations:
    """The configurations of the device plugin, by the nodes that use them.

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
        """Whether a node's device plugin certainly turns down who asks for more than one share of a resource.

        Under MPS it does unless its configuration says no, under time-slicing only where that says so.

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
        """The configuration of a name; None where it is not known, or cannot be read."""
        from policies.kubernetes.yaml import Limits, YAMLError, load_document  # noqa: PLC0415 - few pods need it

        if key not in self._read:
            text = next((data[key] for data in self._texts if isinstance(data, dict) and key in data), None)
            limits = Limits(size=1024 * 1024, depth=20, nodes=10_000)
            try:
                self._read[key] = load_document(text, limits=limits).value if isinstance(text, str) else None
            except YAMLError:
                self._read[key] = None
        return self._read[key]


def _field(value: Any, name: str) -> Any:
    """A field of a mapping, exactly or in any case, as Go's encoding/json reads it; None where it is absent."""
    if not isinstance(value, dict) or name in value:
        return lookup(value, (name,))
    return next((item for key, item in value.items() if key.lower() == name.lower()), None)
