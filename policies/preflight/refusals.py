"""The API server's answer to a dry run: who would refuse an object, and why."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Cause", "Refusal", "refusal_of"]


class Cause(StrEnum):
    """What stands in the way of a write."""

    RIGHTS = "rights"
    """The user may not send the request."""
    ESCALATION = "escalation"
    """The user may not grant what a role has."""
    POLICY = "policy"
    """A ValidatingAdmissionPolicy."""
    WEBHOOK = "webhook"
    """A webhook denied it."""
    FAILED_WEBHOOK = "failed webhook"
    """A webhook that fails closed does not answer."""
    QUOTA = "quota"
    """A ResourceQuota."""
    POD_SECURITY = "pod security"
    """The Pod Security level of the namespace."""
    PLUGIN = "plugin"
    """Another admission plugin of the API server."""
    INVALID = "invalid"
    """The API server does not accept the object."""
    NO_DRY_RUN = "no dry run"
    """A webhook that matches has side effects, so the API server does not call it in a dry run."""
    MISSING = "missing"
    """What the object needs does not exist yet: its namespace, role or ServiceAccount."""
    CONFLICT = "conflict"
    """An object of this name was created or changed meanwhile."""
    SERVER = "server"
    """The API server failed, or the request took too long."""

    @property
    def is_refusal(self) -> bool:
        """True if the object would be refused now; false if the dry run says nothing about that."""
        return self not in (Cause.NO_DRY_RUN, Cause.MISSING, Cause.CONFLICT, Cause.SERVER)


class Refusal(NamedTuple):
    """Why an object was not accepted."""

    cause: Cause
    by: str
    """The name of the policy, webhook, quota or level; empty if there is none."""
    message: str
    """In the words of the API server or of the webhook."""


_PATTERNS = (
    (Cause.RIGHTS, re.compile(r'User ".*?"()[^"]* cannot (.*)', re.DOTALL)),
    (Cause.ESCALATION, re.compile(r"is attempting to grant RBAC permissions not currently held:()\s*(.*)", re.DOTALL)),
    (
        Cause.POLICY,
        re.compile(r"ValidatingAdmissionPolicy '(.*?)' with binding '.*?' denied request:? ?(.*)", re.DOTALL),
    ),
    (Cause.NO_DRY_RUN, re.compile(r'admission webhook "(.*?)" (does not support dry run)')),
    (Cause.WEBHOOK, re.compile(r'admission webhook "(.*?)" denied the request(?:: | )(.*)', re.DOTALL)),
    (Cause.FAILED_WEBHOOK, re.compile(r'failed calling webhook "(.*?)": (.*)', re.DOTALL)),
    (Cause.QUOTA, re.compile(r"exceeded quota: ([^,\s]+), (.*)", re.DOTALL)),
    (Cause.QUOTA, re.compile(r"failed quota: ([^,:\s]+): (.*)", re.DOTALL)),
    (Cause.POD_SECURITY, re.compile(r'violates PodSecurity "(.*?)": (.*)', re.DOTALL)),
    (Cause.MISSING, re.compile(r"()(error looking up service account .*)", re.DOTALL)),
)
"""The groups are the name and the message. Sources: k8s.io/apiserver pkg/endpoints/handlers/responsewriters,
pkg/admission/plugin/webhook/errors and plugin/policy/validating, plugin/pkg/admission/resourcequota; pod-security-admission;
seen on Kubernetes 1.36.2."""
_BY_CODE = {
    400: Cause.INVALID,
    403: Cause.PLUGIN,
    404: Cause.MISSING,
    409: Cause.CONFLICT,
    413: Cause.INVALID,
    422: Cause.INVALID,
}


def refusal_of(code: int, message: str) -> Refusal:
    """The refusal in an error of the API server.

    Args:
        code: The HTTP status; 0 if there was no answer.
        message: The message of the Status.
    """
    for cause, pattern in _PATTERNS:
        if match := pattern.search(message):
            return Refusal(cause, match[1], " ".join(match[2].split()))
    return Refusal(_BY_CODE.get(code, Cause.SERVER), "", " ".join(message.split()))
