"""The caBundles of webhooks: those in the manifests, and those that installed webhooks lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cluster_checks import Check, Status
from policies.kubernetes.paths import lookup, mappings_at
from policies.phrases import format_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.preflight.planned_objects import PlannedObject

__all__ = ["bundle_checks"]


def bundle_checks(planned: Sequence[PlannedObject]) -> Iterator[Check]:
    """Manifests that write a caBundle, and installed webhooks that have none."""
    written = [name for each in planned for name, bundle in _bundles(each.document) if bundle]
    missing = [name for each in planned for name, bundle in _bundles(each.stored) if not bundle]
    if written:
        yield Check(
            name="caBundle",
            status=Status.WARNING,
            what=f"the manifests write the caBundle of {format_list(written, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="gpu-admission or cert-manager rotates it, and the manifests would bring back an old one",
            remedy="leave it out of the manifests",
        )
    if missing:
        yield Check(
            name="caBundle",
            status=Status.WARNING,
            what=f"installed webhooks have no caBundle: {format_list(missing, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="their calls fail, unless the serving certificate is of a public authority",
            remedy="look at `/readyz` of a replica: the leader writes it within seconds if it may",
        )


def _bundles(document: object) -> list[tuple[str, bool]]:
    """The webhooks of a configuration, each with whether it has a caBundle."""
    webhooks = mappings_at(document, ("webhooks",))
    return [(str(each.get("name")), bool(lookup(each, ("clientConfig", "caBundle")))) for each in webhooks]
