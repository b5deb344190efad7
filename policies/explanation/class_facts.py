"""What must be known of DeviceClasses and slices before claims can be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.class_names import class_meant, other_classes
from policies.explanation.cluster import BRING
from policies.explanation.obstacles import Obstacle, ObstacleKind
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.explanation.question import NamedClaim
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["class_obstacles", "classes_of"]


def classes_of(claims: Iterable[NamedClaim], view: ClusterView) -> list[Object]:
    """The DeviceClasses that claims name, as far as they are known."""
    found = (view.get("DeviceClass", name) for name in _names(claims))
    return [device_class for device_class in found if isinstance(device_class, dict)]


def class_obstacles(claims: Sequence[NamedClaim], view: ClusterView) -> tuple[Obstacle, ...]:
    """Classes that do not exist or are not known; and slices, if none are known."""
    if not claims:
        return ()
    obstacles: list[Obstacle] = []
    if view.list("ResourceSlice") is UNKNOWN:
        sentence = "no ResourceSlices are known, so nobody can say which devices there are"
        obstacles.append(Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, BRING))
    unknown = []
    for name in _names(claims):
        found = view.get("DeviceClass", name)
        if found is UNKNOWN:
            unknown.append(name)
        elif found is None:
            sentence = f"DeviceClass {printable(name)} does not exist"
            obstacles.append(Obstacle(ObstacleKind.MISSING, sentence, _remedy(name, view)))
    if unknown:
        what = f"DeviceClass {unknown[0]} is" if len(unknown) == 1 else f"DeviceClasses {', '.join(unknown)} are"
        sentence = f"{printable(what)} not known, so nobody can say which devices the claim may have"
        obstacles.append(Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, BRING))
    return tuple(obstacles)


def _remedy(name: str, view: ClusterView) -> str:
    listed = view.list("DeviceClass")
    known = [] if listed is UNKNOWN else list(map(name_of, listed))
    guess = class_meant(name, known)
    return f"write deviceClassName: {guess}" if guess else other_classes(known)


def _names(claims: Iterable[NamedClaim]) -> list[str]:
    """The classes that claims name, each once, in their order."""
    return list(dict.fromkeys(name for claim in claims for name in _of_requests(claim.claim)))


def _of_requests(claim: Object) -> Iterator[str]:
    requests = lookup(claim, ("spec", "devices", "requests"))
    for request in requests if isinstance(requests, list) else []:
        alternatives: Any = lookup(request, ("firstAvailable",))
        for part in (lookup(request, ("exactly",)), *(alternatives if isinstance(alternatives, list) else [])):
            name = lookup(part, ("deviceClassName",))
            if isinstance(name, str) and name:
                yield name
