"""Dry runs: the objects that would be applied, the stored ones, and the reasons why one is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.installation.cluster_checks import Check, Topic
from policies.kubernetes.names import format_count, format_list, shorten
from policies.kubernetes.objects import lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.kubernetes.workloads import group_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object


class Cause(StrEnum):
    """The cause that a write was not accepted."""

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
    """An object that it needs does not exist yet: its namespace, role or ServiceAccount."""
    CONFLICT = "conflict"
    """An object of this name was created or changed meanwhile."""
    SERVER = "server"
    """The API server failed, or the request took too long."""

    @property
    def is_refusal(self) -> bool:
        """True if the object would be refused now; false if the dry run says nothing about that."""
        return self not in (Cause.NO_DRY_RUN, Cause.MISSING, Cause.CONFLICT, Cause.SERVER)


class Refusal(NamedTuple):
    """The reason why an object was not accepted."""

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
    """The text that kubectl would print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedObject:
    """One object of the manifests."""

    document: Object = field(kw_only=False)
    resource: str
    """Its plural in the API; empty if the API server serves no such kind."""
    is_namespaced: bool
    stored: Object | Unknown | None = None
    """The object in the cluster; None if it does not exist."""
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


_MOST = 4
_LONGEST = 400
_BY = {
    Cause.POLICY: "ValidatingAdmissionPolicy {by}",
    Cause.WEBHOOK: "admission webhook {by}",
    Cause.FAILED_WEBHOOK: "admission webhook {by}, which fails closed and does not answer",
    Cause.QUOTA: "ResourceQuota {by}",
    Cause.POD_SECURITY: "Pod Security level {by}",
    Cause.PLUGIN: "an admission plugin of the API server",
    Cause.INVALID: "the API server",
}
_REMEDIES = {
    Cause.POLICY: "exclude namespace {namespace} in the binding of the policy, or change the manifests as it asks",
    Cause.WEBHOOK: "exclude namespace {namespace} in the policies behind the webhook, or change the manifests as it asks",
    Cause.FAILED_WEBHOOK: "repair the webhook, or exclude namespace {namespace} in its namespaceSelector",
    Cause.QUOTA: "raise the quota of namespace {namespace}",
    Cause.POD_SECURITY: "set the label pod-security.kubernetes.io/enforce of namespace {namespace} as the manifests have it",
    Cause.PLUGIN: "see the message of the API server",
    Cause.INVALID: "use manifests for this version of Kubernetes",
}
_UNKNOWN_REMEDIES = {
    Cause.MISSING: "create the namespace, as the manifests have it, and run preflight again",
    Cause.NO_DRY_RUN: "ask the owner of the webhook; its answer is known only when the object is applied",
    Cause.CONFLICT: "run preflight again",
    Cause.SERVER: "run preflight again",
    Cause.RIGHTS: "allow the user to create such objects, or leave the question to the first rollout",
}

_UNKNOWN_REASONS = {Cause.NO_DRY_RUN: 'webhook "{by}" does not support dry run', Cause.RIGHTS: "you may not {message}"}


def kind_checks(planned: Sequence[PlannedObject], defined: frozenset[tuple[str, str]]) -> Iterator[Check]:
    """Kinds of the manifests that the API server does not serve.

    Args:
        planned: The objects.
        defined: Group and kind of the CustomResourceDefinitions in the manifests.
    """
    missing: dict[tuple[str, str], list[str]] = {}
    for each in planned:
        key = each.group, str(each.document.get("kind"))
        if not each.resource and key not in defined:
            missing.setdefault((str(each.document.get("apiVersion")), key[1]), []).append(each.label)
    for (version, kind), labels in missing.items():
        yield Topic.KINDS.failure(
            f'no matches for kind "{kind}" in version "{version}"',
            where=format_list(labels, _MOST),
            why="the API server does not serve it, so these objects cannot be applied",
            remedy=_kind_remedy(version),
        )
    if not missing:
        yield Topic.KINDS.ok("the API server serves every kind of the manifests")


def _kind_remedy(version: str) -> str:
    if version.startswith("monitoring.coreos.com/"):
        return "install the Prometheus operator first, or leave out the component monitoring"
    if version.startswith("cert-manager.io/"):
        return "install cert-manager first, or use the overlay default, which needs none"
    return "use an API server that serves it, or leave these objects out"


def object_checks(planned: Sequence[PlannedObject]) -> Iterator[Check]:
    """A check for each reason of a refusal, and one for all objects that would be accepted."""
    refused: dict[Refusal, list[PlannedObject]] = {}
    unknown: dict[Refusal, list[PlannedObject]] = {}
    for each in planned:
        refusal = each.dry_run.refusal if each.dry_run else None
        if refusal is None or _is_of_rights(each, refusal):
            continue
        group = refused if refusal.cause.is_refusal and refusal.cause is not Cause.RIGHTS else unknown
        group.setdefault(refusal, []).append(each)
    for refusal, objects in refused.items():
        # What is invalid in one namespace is invalid in each; policies, webhooks and quotas differ.
        differs = refusal.cause is not Cause.INVALID
        if certain := [each for each in objects if not (each.is_stand_in and differs)]:
            yield Topic.OBJECTS.failure(
                f"{_labels(certain)} would be refused by {_text(_BY[refusal.cause], refusal, certain)}",
                where=_field(refusal),
                why=shorten(refusal.message, _LONGEST) or "without an explanation",
                remedy=_text(_REMEDIES[refusal.cause], refusal, certain),
            )
        if tried := [each for each in objects if each.is_stand_in and differs]:
            yield _stand_in_check(refusal, tried)
    yield from _unknown(unknown)
    # Neither in the cluster nor in the manifests, as that of a chart.
    in_manifests = {name_of(each.document) for each in planned if each.document.get("kind") == "Namespace"}
    for namespace in sorted({namespace_of(each.document) for each in planned if each.is_stand_in} - in_manifests):
        yield Topic.OBJECTS.warning(
            f"namespace {namespace} does not exist, and the manifests do not create it",
            remedy="create it first, or use `helm install --create-namespace`",
        )
    yield from _warnings(planned)
    tried_well = [each for each in planned if each.dry_run and each.dry_run.refusal is None and not each.is_runtime]
    if tried_well:
        exist = sum(each.exists for each in tried_well)
        created = f"{len(tried_well) - exist} would be created" if len(tried_well) > exist else ""
        changed = f"{exist} exist and would be applied again" if exist else ""
        yield Topic.OBJECTS.ok(
            f"the dry run accepts {format_count(len(tried_well), 'object')}: {', '.join(filter(None, (created, changed)))}",
            where=_stand_in_text(tried_well),
        )


def _is_of_rights(each: PlannedObject, refusal: Refusal) -> bool:
    """True if the checks of rights answer the question: also of bindings whose role does not exist yet."""
    if refusal.cause in (Cause.RIGHTS, Cause.ESCALATION):
        return not each.is_runtime
    return refusal.cause is Cause.MISSING and str(each.document.get("kind")).endswith("RoleBinding")


def _stand_in_text(tried: Sequence[PlannedObject]) -> str:
    moved = [each for each in tried if each.is_stand_in]
    if not moved or moved[0].dry_run is None:
        return ""
    missing = format_list(sorted({namespace_of(each.document) for each in moved}))
    return f"{len(moved)} of them tried in namespace {moved[0].dry_run.namespace}, because {missing} does not exist yet"


def _labels(objects: Sequence[PlannedObject]) -> str:
    return format_list([each.label for each in objects], _MOST)


def _text(template: str, refusal: Refusal, objects: Sequence[PlannedObject]) -> str:
    namespace = next(filter(None, (namespace_of(each.document) for each in objects)), "") or "gpu-admission"
    return template.format(by=refusal.by, namespace=namespace)


def _stand_in_check(refusal: Refusal, objects: Sequence[PlannedObject]) -> Check:
    """The namespace does not exist yet, and policies may treat the one that stood in otherwise."""
    dry_run = objects[0].dry_run
    namespace = dry_run.namespace if dry_run else ""
    return Topic.OBJECTS.unknown(
        f"{_labels(objects)} may be refused by {_text(_BY[refusal.cause], refusal, objects)}",
        where=f"tried in namespace {namespace}, because its own does not exist yet",
        why=shorten(refusal.message, _LONGEST) or "without an explanation",
        remedy=_UNKNOWN_REMEDIES[Cause.MISSING],
    )


def _field(refusal: Refusal) -> str:
    """The first field that an invalid object names."""
    if refusal.cause is not Cause.INVALID:
        return ""
    _, found, rest = refusal.message.partition(" is invalid: ")
    path = rest.partition(": ")[0].lstrip("[") if found else ""
    return path if path and " " not in path else ""


def _unknown(unknown: dict[Refusal, list[PlannedObject]]) -> Iterator[Check]:
    by_cause: dict[tuple[Cause, str], list[tuple[Refusal, PlannedObject]]] = {}
    for refusal, objects in unknown.items():
        by_cause.setdefault((refusal.cause, refusal.by), []).extend((refusal, each) for each in objects)
    for (cause, _), found in by_cause.items():
        refusal = found[0][0]
        yield Topic.OBJECTS.unknown(
            f"it is unknown whether {_labels([each for _, each in found])} would be accepted",
            why=_UNKNOWN_REASONS.get(cause, "{message}").format(
                by=refusal.by, message=shorten(refusal.message, _LONGEST)
            ),
            remedy=_UNKNOWN_REMEDIES[cause],
        )


def _warnings(planned: Sequence[PlannedObject]) -> Iterator[Check]:
    found: dict[str, list[str]] = {}
    for each in planned:
        for text in each.dry_run.warnings if each.dry_run else ():
            found.setdefault(text, []).append(each.label)
    for text, labels in found.items():
        yield Topic.OBJECTS.warning(
            f"the cluster warns about {format_list(labels, _MOST)}", why=shorten(text, _LONGEST)
        )


def definitions(planned: Sequence[PlannedObject]) -> frozenset[tuple[str, str]]:
    """Group and kind of the CustomResourceDefinitions in the manifests."""
    return frozenset(
        (str(lookup(each.document, ("spec", "group"))), str(lookup(each.document, ("spec", "names", "kind"))))
        for each in planned
        if each.document.get("kind") == "CustomResourceDefinition" and name_of(each.document)
    )
