"""Planned objects for tables of tests."""

from policies.analyses.installation import DryRun, PlannedObject
from policies.analyses.installation.dry_runs import refusal_of

RBAC = "rbac.authorization.k8s.io/v1"


def planned(
    kind, name, namespace="", *, api_version="v1", stored=None, dry_run=None, resource=None, runtime=False, **fields
):
    """An object of the manifests, which was tried in its own namespace."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    return PlannedObject(
        document,
        resource=f"{kind.lower()}s" if resource is None else resource,
        is_namespaced=bool(namespace),
        stored=stored,
        dry_run=dry_run,
        is_runtime=runtime,
    )


def refused(code, message, namespace=""):
    """A dry run that was refused."""
    return DryRun(namespace, refusal_of(code, message))


def texts(checks, *fields):
    """The status and the fields of checks."""
    return [(str(each.status), *(getattr(each, field) for field in fields)) for each in checks]
