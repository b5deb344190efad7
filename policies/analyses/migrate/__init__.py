"""Migration of manifests: what a pod becomes if its claim is written into the manifest.

The decision is that of conversion. What it writes belongs to the author of the manifest: it has no mark, and the name of
the template is readable.
"""

from __future__ import annotations

from policies.analyses.migrate.objects import MigratedPod, converting_namespace, migrate_pod

__all__ = ["MigratedPod", "converting_namespace", "migrate_pod"]
