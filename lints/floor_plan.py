"""The floor plan, measured: `python -m lints.floor_plan [--draw]` counts rooms, floors and arrows.

A room is a folder with code, at most two levels deep: `policies/quota`, `webhook/server`, `certs`. An arrow leads from a room to
one that it imports, imports inside functions and for type checking included. A room stands one floor above the highest room
that it imports. The floors are those of what is shipped; what tests and measures it stands above.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from grimp import build_graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


SHIPPED = ("policies", "webhook", "certs")
OTHERS = ("benchmarks", "lints", "release", "testbed", "website")
MOST_ROOMS = 34
MOST_FLOORS = 13


@dataclass(frozen=True)
class FloorPlan:
    """Rooms, and the arrows between them."""

    rooms: frozenset[str]
    arrows: frozenset[tuple[str, str]]
    """Pairs of a room and one that it imports."""

    @cached_property
    def floors(self) -> Mapping[str, int]:
        """The floor of each room, the lowest is 1. Raises ValueError if rooms import each other in a circle."""
        below = {room: {b for a, b in self.arrows if a == room} for room in self.rooms}
        floors: dict[str, int] = {}
        while len(floors) < len(self.rooms):
            ready = [room for room in self.rooms - floors.keys() if below[room] <= floors.keys()]
            if not ready:
                raise ValueError(f"a circle of rooms: {', '.join(sorted(self.rooms - floors.keys()))}")
            floors |= {room: 1 + max((floors[each] for each in below[room]), default=0) for room in ready}
        return floors


def measured_plan(roots: Iterable[str]) -> FloorPlan:
    """The floor plan of packages, read from their imports."""
    graph = build_graph(*roots, exclude_type_checking_imports=False, cache_dir=None)
    modules = graph.modules
    folders = {name for name in modules if any(other.startswith(f"{name}.") for other in modules)}

    def room_of(module: str) -> str:
        two = ".".join(module.split(".")[:2])
        return two if two in folders else module.split(".", maxsplit=1)[0]

    imports = {
        (room_of(name), room_of(other)) for name in modules for other in graph.find_modules_directly_imported_by(name)
    }
    arrows = frozenset((a, b) for a, b in imports if a != b)
    # A folder that only holds other rooms is none.
    rooms = {room_of(name) for name in modules if name not in folders} | {room for arrow in arrows for room in arrow}
    return FloorPlan(frozenset(rooms), arrows)


def main() -> int:
    """Print the figures, and the floors with `--draw`; 1 if there are too many rooms or floors."""
    shipped, whole = measured_plan(SHIPPED), measured_plan(SHIPPED + OTHERS)
    if "--draw" in sys.argv[1:]:
        for floor in range(max(shipped.floors.values()), 0, -1):
            print(f"{floor:3}  " + "  ".join(sorted(room for room, at in shipped.floors.items() if at == floor)))
    floors = max(shipped.floors.values())
    print(
        f"{len(whole.rooms)} rooms, at most {MOST_ROOMS}; {floors} floors, at most {MOST_FLOORS}; {len(whole.arrows)} arrows"
    )
    return int(len(whole.rooms) > MOST_ROOMS or floors > MOST_FLOORS)


if __name__ == "__main__":
    sys.exit(main())
