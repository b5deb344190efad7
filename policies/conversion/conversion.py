"""Conversions: a pod that is to be converted, and the result of converting it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.conversion.record import ConversionRecord
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding, Template
    from policies.rules.patch import Editor
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["Conversion", "ConversionCandidate"]


@dataclass(frozen=True, slots=True)
class ConversionCandidate:
    """A pod that requests GPUs and is to be converted by a strategy."""

    pod: Pod
    namespace: str
    view: ClusterView
    settings: GPUAdmissionPolicy
    record: ConversionRecord
    places: dict[str, FieldPath]
    """The path at which each resource is first requested."""
    obstacles: tuple[Finding, ...]
    """Why a claim cannot express what the pod requests; `record` is incomplete then."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of converting a pod."""

    obstacles: tuple[Finding, ...] = ()
    """Why the pod cannot or must not be converted; it stays as it is unless one of them refuses it."""
    notices: tuple[Finding, ...] = ()
    """Other findings about the pod."""
    edits: Editor | None = None
    """The converted pod; None if there is nothing to convert."""
    template: Template | None = None
    """The template that the converted pod refers to; None if it needs none."""
    record: ConversionRecord | None = None
    """The record of a converted pod; None if the pod is not converted."""
    repeated: bool = False
    """True if the pod was converted before; `edits` then only remove what was added since."""
