"""Cutovers: from a ClusterPolicy to a GPUCluster, in waves of nodes.

`plan_cutover` returns the inventory, the waves and the steps with their checks and ways back. `open_points` says what a step
lacks, and `cutover_documents` has the files that commands read.
"""

from __future__ import annotations

from policies.analyses.cutover.cutover import (
    CutoverDocuments,
    CutoverError,
    CutoverPlan,
    Effect,
    Wave,
    cutover_documents,
    plan_cutover,
)
from policies.analyses.cutover.cutover_steps import CutoverStep, open_points
from policies.analyses.cutover.inventory import Inventory

__all__ = [
    "CutoverDocuments",
    "CutoverError",
    "CutoverPlan",
    "CutoverStep",
    "Effect",
    "Inventory",
    "Wave",
    "cutover_documents",
    "open_points",
    "plan_cutover",
]
