"""A contract of import-linter: no circles between modules.

import-linter's own `acyclic_siblings` compares packages as wholes, which may well import each other's modules. This one
looks at single modules. Imports under TYPE_CHECKING and inside functions count too.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from importlinter import Contract, ContractCheck, output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grimp import ImportGraph


class AcyclicModulesContract(Contract):
    """No module imports itself by way of others."""

    type_name = "acyclic_modules"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check that the modules of all root packages import each other in one direction only."""
        circles = import_circles({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
        return ContractCheck(kept=not circles, metadata={"circles": circles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each circle on a line."""
        for circle in check.metadata["circles"]:
            output.print(" -> ".join(circle))
        output.print("Move what both need into the module of its concept, or join the modules.")


def import_circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Circles of modules, each beginning and ending with the same one.

    Without one import of each, no circle is left.
    """
    left = {importer: set(imports[importer]) for importer in sorted(imports)}
    circles: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            backwards: list[str] = error.args[1]
            circles.append(backwards[::-1])
            left[backwards[1]].remove(backwards[0])
        else:
            return circles
