"""The checks of access to GPUs, their remedies, and the service accounts that are exempt."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.rules.decision import WORKLOAD
from policies.rules.registry import Checks

if TYPE_CHECKING:
    from policies.access.subject import Container, Subject

__all__ = ["ACCESS", "CIRCUMSTANCES", "EXEMPT", "RECREATE", "is_exempt", "request_or"]

ACCESS: Checks[Subject] = Checks("Pod", WORKLOAD)
"""Checks of fields that give a container GPUs."""

CIRCUMSTANCES: Checks[Subject] = Checks("Pod", WORKLOAD, circumstance=True)
"""Checks of privileges that matter only beside a finding of `ACCESS` in the same pod."""


EXEMPT = "exempt monitoring agents in access.exemptServiceAccounts or access.exemptNamespaces"
"""The end of remedies: what to do if the access is intended."""


RECREATE = f"keep what the pod has, or create another pod that requests nvidia.com/gpu: 1 in resources.limits; {EXEMPT}"
"""The remedy for a change of a pod that exists: its requests cannot change."""


def request_or(container: Container, otherwise: str) -> str:
    """A remedy: request a GPU so that it is allocated, or `otherwise`; only that for ephemeral containers."""
    if container.list_name == "ephemeralContainers":
        return f"{otherwise}: an ephemeral container cannot request GPUs; {EXEMPT}"
    if container.loss is not None:
        return f"remove {container.loss.field}, or {otherwise}; {EXEMPT}"
    return f"request nvidia.com/gpu: 1 in resources.limits, or {otherwise}; {EXEMPT}"


def is_exempt(subject: Subject) -> bool:
    """True if `access.exemptServiceAccounts` matches the pod's service account."""
    access, namespace = subject.settings.access, subject.namespace
    if not access.exempt_service_accounts:
        return False
    account = _service_account(subject)
    parts = (pattern.partition("/") for pattern in access.exempt_service_accounts)
    return any(fnmatchcase(namespace, where) and fnmatchcase(account, who) for where, _, who in parts)


def _service_account(subject: Subject) -> str:
    """The pod's service account; `serviceAccount` is the old name of the field, still in use."""
    names = (subject.spec.get("serviceAccountName"), subject.spec.get("serviceAccount"))
    return next((name for name in names if isinstance(name, str) and name), "default")
