"""Admin access: devices that other pods hold, for pods that monitor or maintain them.

Kubernetes allows it by a label on the namespace and does not check who sets that label. In a cluster, the
ValidatingAdmissionPolicy admin-access.gpu-admission.io does (deploy/components/admin-access).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.claims.claim_subject import CLAIMS
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity
from policies.rules.settings.choices import DRA_DRIVER_NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.claim_subject import Subject
    from policies.devices.resource_claims import Subrequest
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


_LABEL = "resource.kubernetes.io/admin-access"
_LABEL_PATH = FieldPath(["metadata", "labels", _LABEL])
_SOURCE = "k8s.io/kubernetes pkg/registry/resource/utils.go AuthorizedForAdmin"


@CLAIMS.rule(
    "GA220",
    "A claim must not request adminAccess in a namespace without the label for it",
    remedy=f'remove adminAccess, or ask an administrator to label the namespace {_LABEL}: "true"',
    source=_SOURCE,
)
def admin_access_label(subject: Subject) -> Iterator[Problem]:
    """Admin access reaches devices that others hold; the API server requires a label on the namespace.

    The label is checked when a claim or a template is created and when devices are allocated; a claim that is allocated
    keeps its devices without it. An alternative of a prioritized list has no such field. If the namespace is unknown, this
    rule says nothing: the API server will.
    """
    if _is_allowed(subject) is not False:
        return
    for subrequest in _admin_requests(subject):
        text = f'needs the label {_LABEL}: "true" on namespace "{subject.namespace}", which does not have it'
        yield Problem(subrequest.path / "adminAccess", text)


@CLAIMS.rule(
    "GA231",
    "A claim must request adminAccess only to monitor or maintain devices",
    default=Severity.WARN,
    remedy="remove adminAccess, unless the claim's pods monitor or maintain devices",
    source=f"{_SOURCE}; KEP-5018",
)
def admin_access_requested(subject: Subject) -> Iterator[Problem]:
    """With admin access a pod gets devices that other pods hold, and they are not protected from it.

    NVIDIA's driver gives such a pod the device as to any other pod, so it can compute there and use up the memory. In the
    namespaces of the GPU Operator and of NVIDIA's DRA driver, whose agents need admin access, it is only noted.
    """
    if _is_allowed(subject) is False or Feature.DRAAdminAccess.is_on(subject.facts.view) is False:
        return
    severity = _severity(subject.namespace, subject.facts.settings)
    for subrequest in _admin_requests(subject):
        text = "lets the claim's pods use devices that other pods hold"
        yield Problem(subrequest.path / "adminAccess", text, severity=severity)


def _admin_requests(subject: Subject) -> Iterator[Subrequest]:
    exact = (request for request in subject.requests if not request.is_prioritized)
    return (each for request in exact for each in request.subrequests if each.has_admin_access)


def _is_allowed(subject: Subject) -> bool | None:
    """True if the namespace has the label; None if the namespace is unknown."""
    labels = subject.facts.namespace_labels(subject.namespace)
    return None if labels is UNKNOWN else labels.get(_LABEL) == "true"


def validate_namespace(request: Request, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings for a namespace that is created or updated with a label for admin access."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from admin_access_allowed(request, settings)


@RulesOn("Namespace").rule(
    "GA232",
    "A namespace must allow admin access only where administrators create the claims",
    default=Severity.WARN,
    remedy="remove the label, unless only administrators may create claims, templates and pods in this namespace",
    source=f"{_SOURCE}; kubernetes/kubernetes#141293",
)
def admin_access_allowed(request: Request, settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """The label allows adminAccess to everyone who may create claims or templates in the namespace.

    Kubernetes does not check who sets it. In a cluster, the policy admin-access.gpu-admission.io requires the verb "set" on
    namespaceadminaccess.gpu-admission.io; a review of files does not know who applies them. The namespaces of the GPU
    Operator, which labels its own, and of NVIDIA's DRA driver are only noted.
    """
    value = lookup(request.object, _LABEL_PATH)
    if value is None or value == lookup(request.old_object, _LABEL_PATH):
        return
    name = name_of(request.object or {})
    if value != "true":
        text = f'is {shown(value)}, which allows nothing: only "true" does, as a string'
        yield Problem(_LABEL_PATH, text, 'write "true" in quotes, or remove the label', severity=Severity.WARN)
        return
    text = f'lets everyone who may create claims in namespace "{name}" use devices that other pods hold'
    severity = _severity(name, settings)
    if not request.entry and severity is None:
        text += (
            '; setting it requires the verb "set" on namespaceadminaccess.gpu-admission.io, and whether the user who '
        )
        text += "applies this has it cannot be known offline"
    yield Problem(_LABEL_PATH, text, severity=severity)


def _severity(namespace: str, settings: GPUAdmissionPolicy) -> Severity | None:
    """Only noted where GPUs are handed out; None for the rule's default."""
    hands_out = namespace in (*settings.configuration.operator_namespaces, *DRA_DRIVER_NAMESPACES)
    return Severity.AUDIT if hands_out else None
