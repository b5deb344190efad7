"""Objects that clients create: pods and claims with GPUs of every kind, and invalid ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from testbed import manifests
from tests.published import shared_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

__all__ = [
    "BEGUN",
    "LABEL",
    "REFUSED",
    "SHARES",
    "SLICES",
    "TAKEN",
    "TEMPLATES",
    "UNLIMITED_SHARE",
    "Order",
    "Orders",
    "share_template",
    "shared_slice",
    "template",
]

LABEL = "storm/order"
"""On everything: which order it is of."""
BEGUN = "storm/begun"
"""An annotation of everything: when its request began, as nanoseconds of the monotonic clock."""
REFUSED = "storm/refused"
"""A label that another webhook refuses."""
TAKEN = "taken"
"""A pod that is there from the beginning, so that nobody else can be called like this."""
TEMPLATES = ("one", "two", "swapped")
"""Templates that are there from the beginning. The last is replaced again and again."""
SHARES = {"Tesla T4": "4", "NVIDIA L4": "unlimited"}
"""GPUs that the DRA driver shares, by product: into four shares, or without limit."""
UNLIMITED_SHARE = "1/8"
"""The setting for GPUs that are shared without limit."""
SLICES = "nvidia.com/mig-1g.10gb"
_GPUS = "nvidia.com/gpu"

Document = dict[str, Any]


@dataclass
class Order:
    """One pod, with a claim that is to be there before it."""

    number: int
    namespace: str
    pod: Document
    claim: Document | None = None
    has_gpus: bool = True
    dry_run: bool = False
    tags: list[str] = field(default_factory=list)
    """What it is, for the report."""


def shared_slice() -> Document:
    """The GPUs of `SHARES`, on a node that does not exist: no claim gets one of them instead of a whole GPU."""
    document = manifests.resource_slice("storm-shares", 0)
    for number, (product, shares) in enumerate(SHARES.items()):
        attributes = {"type": {"string": "gpu"}, "productName": {"string": product}}
        device = {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "16Gi"}}}
        document["spec"]["devices"] = [*document["spec"]["devices"], shared_device(device, shares)]
    return document


def share_template(namespace: str, product: str) -> Document:
    """A template of claims for a share of one GPU; its name is the product's."""
    document = template(namespace, _share_name(product), 1)
    document["spec"]["spec"] = _share(namespace, "", product)["spec"]
    return document


def _share_name(product: str) -> str:
    return product.lower().replace(" ", "-")


def _share(namespace: str, name: str, product: str) -> Document:
    return manifests.claim(namespace, name, f'device.attributes["gpu.nvidia.com"].productName == "{product}"')


def template(namespace: str, name: str, gpus: int) -> Document:
    """A template of claims for whole GPUs."""
    spec = manifests.claim(namespace, name, "true")["spec"]
    spec["devices"]["requests"][0]["exactly"]["count"] = gpus
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec},
    }


class Orders:
    """Makes them by chance."""

    def __init__(self, random: Random, plain: Sequence[str], converting: Sequence[str]) -> None:
        """Args: what chooses; namespaces that leave pods as they are, and those whose pods are converted."""
        self._random = random
        self._plain = plain
        self._converting = converting
        self._made = 0

    def next(self) -> Order:
        """One more."""
        self._made += 1
        namespace = self._random.choice([*self._plain, *self._converting])
        pod = manifests.pod(namespace, f"pod-{self._made}", 1)
        order = Order(self._made, namespace, pod)
        pod["metadata"]["labels"] = {LABEL: str(self._made)}
        kinds = [_whole, _whole, _from_template, _with_claim, _share_from_template, _with_share, _spoofed, _without]
        if namespace in self._plain:
            kinds += [_init, _sidecar, _slices, _slices]
        self._apply(order, self._random.choice(kinds))
        # Few, since each may hold its charge until it expires.
        (odd,) = self._random.choices([_as_it_is, _generated, _dry, _refused, _invalid, _taken], [70, 20, 5, 2, 2, 1])
        self._apply(order, odd)
        return order

    def _apply(self, order: Order, change: Callable[[Order, Random], None]) -> None:
        order.tags.append(change.__name__.strip("_"))
        change(order, self._random)


def _container(order: Order) -> Document:
    container: Document = order.pod["spec"]["containers"][0]
    return container


def _asking(name: str, gpus: int, resource: str = _GPUS) -> Document:
    return {"name": name, "image": "registry.example/train:1", "resources": {"limits": {resource: str(gpus)}}}


def _whole(order: Order, random: Random) -> None:
    order.pod["spec"]["containers"] = [_asking("main", random.choice([1, 1, 2, 3]))]


def _slices(order: Order, random: Random) -> None:
    order.pod["spec"]["containers"] = [_asking("main", random.choice([1, 2]), SLICES)]


def _init(order: Order, random: Random) -> None:
    order.pod["spec"]["initContainers"] = [_asking("first", 3), _asking("second", 1)]


def _sidecar(order: Order, random: Random) -> None:
    order.pod["spec"]["initContainers"] = [{**_asking("beside", 1), "restartPolicy": "Always"}]


def _without(order: Order, random: Random) -> None:
    order.has_gpus = False
    del _container(order)["resources"]


def _claiming(order: Order, source: Document) -> None:
    _container(order)["resources"] = {"claims": [{"name": "gpus"}]}
    order.pod["spec"]["resourceClaims"] = [{"name": "gpus", **source}]


def _from_template(order: Order, random: Random) -> None:
    _claiming(order, {"resourceClaimTemplateName": random.choice(TEMPLATES)})


def _with_claim(order: Order, random: Random) -> None:
    claim = manifests.claim(order.namespace, f"claim-{order.number}", "true")
    claim["metadata"]["labels"] = {LABEL: str(order.number)}
    claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = random.choice([1, 2])
    order.claim = claim
    _claiming(order, {"resourceClaimName": claim["metadata"]["name"]})


def _share_from_template(order: Order, random: Random) -> None:
    _claiming(order, {"resourceClaimTemplateName": _share_name(random.choice([*SHARES]))})


def _with_share(order: Order, random: Random) -> None:
    claim = _share(order.namespace, f"claim-{order.number}", random.choice([*SHARES]))
    claim["metadata"]["labels"] = {LABEL: str(order.number)}
    order.claim = claim
    _claiming(order, {"resourceClaimName": claim["metadata"]["name"]})


def _spoofed(order: Order, random: Random) -> None:
    """A claim that says it was made for a pod that has paid."""
    _with_claim(order, random)
    assert order.claim is not None
    annotation, value = random.choice(
        [
            ("resource.kubernetes.io/pod-claim-name", "gpus"),
            ("resource.kubernetes.io/extended-resource-claim", "true"),
        ]
    )
    order.claim["metadata"]["annotations"] = {annotation: value}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": TAKEN, "controller": True}
    order.claim["metadata"]["ownerReferences"] = [owner]


def _as_it_is(order: Order, random: Random) -> None:
    pass


def _generated(order: Order, random: Random) -> None:
    order.pod["metadata"]["generateName"] = f"{order.pod['metadata'].pop('name')}-"


def _dry(order: Order, random: Random) -> None:
    order.dry_run = True


def _refused(order: Order, random: Random) -> None:
    order.pod["metadata"]["labels"][REFUSED] = "true"


def _invalid(order: Order, random: Random) -> None:
    """What only the API server itself finds, after admission has begun."""
    order.pod["spec"]["containers"].append({"name": "main", "image": "registry.example/train:1"})


def _taken(order: Order, random: Random) -> None:
    order.pod["metadata"]["name"] = TAKEN
