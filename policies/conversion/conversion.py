"""Conversions: what is asked about a pod, and what converting it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.conversion.record import ConversionRecord
    from policies.decision import Finding, Template
    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.patch import Editor
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Conversion", "ConversionCandidate"]


@dataclass(frozen=True, slots=True)
class ConversionCandidate:
    """A pod that asks for GPUs and is to be converted, for a strategy to answer."""

    pod: Pod
    namespace: str
    view: ClusterView
    settings: GPUAdmissionPolicy
    record: ConversionRecord
    places: dict[str, FieldPath]
    """Where each resource is first asked for."""
    obstacles: tuple[Finding, ...]
    """Why what the pod asks for cannot be told to a claim; `record` is incomplete then."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What converting a pod comes to."""

    obstacles: tuple[Finding, ...] = ()
    """Why it cannot or must not be converted; the pod stays as it is unless one of them refuses it."""
    notices: tuple[Finding, ...] = ()
    """What else there is to say about the pod."""
    edits: Editor | None = None
    """The converted pod; None where there is nothing to convert."""
    template: Template | None = None
    """The template that the converted pod refers to; None where it needs none."""
    record: ConversionRecord | None = None
    """What a converted pod asked for; None where the pod is not converted."""
    repeated: bool = False
    """Whether the pod was converted before; `edits` then only take out what was added since."""
