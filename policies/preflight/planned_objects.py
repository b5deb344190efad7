"""The objects that would be applied, and what the cluster has of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.workloads import group_of
from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.preflight.refusals import Refusal

__all__ = ["DryRun", "PlannedObject", "label_of"]


def label_of(document: Object) -> str:
    """Kind, namespace and name of an object: `Deployment gpu-admission/gpu-admission`."""
    namespace = namespace_of(document)
    return f"{document.get('kind')} {f'{namespace}/' if namespace else ''}{name_of(document)}"


@dataclass(frozen=True, slots=True)
class DryRun:
    """The answer to one dry run."""

    namespace: str
    """The namespace of the dry run: the object's own, or the one that stood in for it."""
    refusal: Refusal | None = None
    warnings: tuple[str, ...] = ()
    """What kubectl would print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedObject:
    """One object of the manifests."""

    document: Object = field(kw_only=False)
    resource: str
    """Its plural in the API; empty if the API server serves no such kind."""
    is_namespaced: bool
    stored: Object | Unknown | None = None
    """What the cluster has; None if it does not exist."""
    dry_run: DryRun | None = None
    """The dry run; None if there was none."""
    is_runtime: bool = False
    """True for objects that the service and controllers create later, such as pods and claim templates."""

    @property
    def label(self) -> str:
        """Kind, namespace and name."""
        return label_of(self.document)

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return group_of(self.document)

    @property
    def exists(self) -> bool:
        """True if the cluster has the object."""
        return self.stored is not None and self.stored is not UNKNOWN

    @property
    def is_refused(self) -> bool:
        """True if the API server would refuse the object now."""
        if self.dry_run is None or self.dry_run.refusal is None or self.is_stand_in:
            return False
        return self.dry_run.refusal.cause.is_refusal

    @property
    def is_stand_in(self) -> bool:
        """True if the dry run was in another namespace, because its own does not exist yet."""
        return self.dry_run is not None and self.dry_run.namespace != namespace_of(self.document)
