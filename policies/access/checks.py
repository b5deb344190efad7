"""The checks of access to GPUs, their remedies, and the service accounts that are exempt."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.checks import Checks

if TYPE_CHECKING:
    from policies.access.subject import Container, Subject

__all__ = ["ACCESS", "CIRCUMSTANCES", "EXEMPT", "ask_or", "is_exempt"]

ACCESS: Checks[Subject] = Checks()
"""What takes GPUs by itself."""

CIRCUMSTANCES: Checks[Subject] = Checks(circumstance=True)
"""What is nothing by itself, and makes more of what `ACCESS` finds in the same pod."""


EXEMPT = "exempt monitoring agents in access.exemptServiceAccounts or access.exemptNamespaces"
"""The end of remedies: what to do where access is wanted."""


def ask_or(container: Container, otherwise: str) -> str:
    """A remedy for a container that takes GPUs: ask for one, or do otherwise; ephemeral containers cannot ask."""
    if container.list_name == "ephemeralContainers":
        return f"{otherwise}: an ephemeral container cannot ask for GPUs; {EXEMPT}"
    return f"ask for nvidia.com/gpu: 1 in resources.limits, or {otherwise}; {EXEMPT}"


def is_exempt(subject: Subject) -> bool:
    """True if `access.exemptServiceAccounts` matches the pod's service account."""
    access, namespace = subject.settings.access, subject.namespace
    if not access.exempt_service_accounts:
        return False
    account = _service_account(subject)
    parts = (pattern.partition("/") for pattern in access.exempt_service_accounts)
    return any(fnmatchcase(namespace, where) and fnmatchcase(account, who) for where, _, who in parts)


def _service_account(subject: Subject) -> str:
    """The pod's service account; `serviceAccount` is the field's old name, which the API server still reads."""
    names = (subject.spec.get("serviceAccountName"), subject.spec.get("serviceAccount"))
    return next((name for name in names if isinstance(name, str) and name), "default")
