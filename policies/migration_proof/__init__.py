"""Proves a migration: what workloads keep and lose when claims replace the device plugin."""

from __future__ import annotations

from policies.migration_proof.cells import Cell
from policies.migration_proof.proof import PROPERTIES, MigrationProver, Proof, WorkloadProof, prove_migration

__all__ = ["PROPERTIES", "Cell", "MigrationProver", "Proof", "WorkloadProof", "prove_migration"]
