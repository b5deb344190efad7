"""The other objects of the manifests: CRDs, roles and bindings, policies, and what the service needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission import CONFIGURATIONS, WEBHOOKS, doubled_webhooks, entry_of, opened_webhooks
from policies.analyses.installation.cluster_checks import Check, Status, Topic
from policies.analyses.installation.installation_facts import NAMESPACE, REINSTALL, Unread, unread_check
from policies.analyses.installation.rights import missing_rules, rights_text, rule_rights
from policies.kubernetes.names import format_count, format_list, inflect, shorten
from policies.kubernetes.objects import items_at, lookup, mappings_at, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.installation.installation_facts import Bundle, InstallationFacts
    from policies.kubernetes.objects import Object


_ROLES = ("ClusterRole", "Role")
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_DEFINITION = "CustomResourceDefinition"
_ELSEWHERE = ("Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
"""Kinds that other checks look at."""
_OWN_CERTIFICATES = "gpu-admission-certificates"
"""The roles that only replicas need that make their own certificates."""
_INSIDE = ("NetworkPolicy", "PodDisruptionBudget", "ResourceQuota", "Service")
"""Kinds that only pods need."""
_EXPLAIN = "gpu-admission-explain"
_TEMPLATES = "templates.gpu-admission.io"
_UNLESS_LEFT_OUT = f"{REINSTALL}, unless your overlay leaves it out"
_MISSING = {
    "Service": (Status.FAILING, "API servers cannot call the webhooks"),
    _EXPLAIN: (Status.WARNING, "`gpu-admission explain` fails for users who may not list nodes"),
    _TEMPLATES: (Status.WARNING, "a stolen token of gpu-admission reaches the ResourceClaimTemplates of all users"),
    "ServiceAccount": (Status.FAILING, "no replica can start"),
    "ValidatingAdmissionPolicy": (Status.WARNING, "everybody who may edit namespaces can set what it protects"),
    "ValidatingAdmissionPolicyBinding": (Status.WARNING, "the policy of this name has no effect"),
    "FlowSchema": (
        Status.WARNING,
        "calls of gpu-admission share a queue with every service account, and wait in a storm of pods",
    ),
    "PriorityLevelConfiguration": (
        Status.WARNING,
        "calls of gpu-admission have no seats of their own in the API server",
    ),
    "NetworkPolicy": (Status.WARNING, "every pod reaches all ports of the replicas"),
    "PodDisruptionBudget": (Status.WARNING, "a drain may stop all replicas at once"),
    "ResourceQuota": (Status.WARNING, "some providers allow system-cluster-critical pods only in namespaces with it"),
}
"""The effect of a missing object of a kind, or of a name."""


def wanted_objects(manifests: Sequence[Object], *, issues_certificates: bool) -> list[Object]:
    """The objects of the manifests that are to be looked for, without those that other checks read."""
    return [
        each
        for each in manifests
        if each.get("kind") not in _ELSEWHERE and (issues_certificates or name_of(each) != _OWN_CERTIFICATES)
    ]


def definition_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that the CRDs exist and serve the versions of this command."""
    good = []
    for wanted, stored in _of_kinds(facts, (_DEFINITION,)):
        name, where = name_of(wanted), f"{_DEFINITION} {name_of(wanted)}"
        if isinstance(stored, Unread):
            yield unread_check(Topic.CRDS, f"it is unknown which versions of {name} are served", stored)
            continue
        missing = sorted(_served_versions(wanted) - _served_versions(stored))
        established = any(
            (each.get("type"), each.get("status")) == ("Established", "True")
            for each in mappings_at(stored, ("status", "conditions"))
        )
        if stored is None or missing or not established:
            yield Topic.CRDS.failure(
                f"{name} does not exist"
                if stored is None
                else f"{name} does not serve {format_list(missing)}"
                if missing
                else f"{name} is not served yet",
                where=where,
                why="" if stored is None or missing else "its condition Established is not True",
                remedy=REINSTALL,
            )
        else:
            good.append(f"{name} {format_list(sorted(_served_versions(wanted)))}")
    if good:
        yield Topic.CRDS.ok(f"served: {format_list(good)}")


def _served_versions(definition: Object | None) -> set[str]:
    return {str(each.get("name")) for each in mappings_at(definition, ("spec", "versions")) if each.get("served")}


def role_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that roles and bindings of the manifests exist, with all their rules and subjects."""
    ours = {_role_of(wanted) for wanted, _ in _of_kinds(facts, _BINDINGS) if _is_for_service(wanted)}
    count, is_good = 0, True
    unread: dict[Unread, list[str]] = {}
    for wanted, stored in _of_kinds(facts, (*_ROLES, *_BINDINGS)):
        label = _label(wanted)
        count += 1
        if isinstance(stored, Unread):
            is_good = False
            unread.setdefault(stored, []).append(label)
            continue
        lacking = _deficit(wanted, stored)
        if not lacking:
            continue
        is_good = False
        is_needed = _is_for_service(wanted) or (wanted.get("kind"), name_of(wanted)) in ours
        yield Topic.RBAC.check(
            Status.FAILING if is_needed else Status.WARNING,
            f"{label} {lacking}",
            why="the service lacks rights that it needs"
            if is_needed
            else "users lack rights that docs/install.md describes",
            remedy=REINSTALL if is_needed else _UNLESS_LEFT_OUT,
        )
    yield from _unread_checks(Topic.RBAC, unread, "complete")
    if is_good and count:
        what = f"all {count} roles and bindings exist, with their rules and subjects"
        yield Topic.RBAC.ok(what)


def _deficit(wanted: Object, stored: Object | None) -> str:
    """The rules or subjects that a role or binding lacks, as a predicate; empty if it lacks none."""
    if stored is None:
        return "does not exist"
    if wanted.get("kind") in _ROLES:
        if wanted.get("aggregationRule"):
            return ""
        missing = missing_rules(mappings_at(wanted, ("rules",)), mappings_at(stored, ("rules",)))
        return f"lacks rules: {rights_text(rule_rights(missing))}" if missing else ""
    if _role_of(wanted) != _role_of(stored):
        return f"binds {_role_text(stored)} instead of {_role_text(wanted)}"
    bound = [_subject(each) for each in mappings_at(stored, ("subjects",))]
    unbound = [each for each in mappings_at(wanted, ("subjects",)) if _subject(each) not in bound]
    names = [f"{each.get('kind')} {each.get('name')}" for each in unbound]
    return f"does not bind {format_list(names)}" if unbound else ""


def _role_of(binding: Object) -> tuple[str, str]:
    return str(lookup(binding, ("roleRef", "kind"))), str(lookup(binding, ("roleRef", "name")))


def _role_text(binding: Object) -> str:
    return " ".join(_role_of(binding))


def _subject(subject: Object) -> tuple[object, ...]:
    return tuple(subject.get(field) or "" for field in ("kind", "name", "namespace"))


def _is_for_service(binding: Object) -> bool:
    return any(
        (each.get("kind"), each.get("name")) == ("ServiceAccount", NAMESPACE)
        for each in items_at(binding, ("subjects",))
    )


def object_checks(facts: InstallationFacts, *, is_outside: bool) -> Iterator[Check]:
    """Checks that the remaining objects of the manifests exist.

    Args:
        facts: What was read.
        is_outside: True if replicas run outside of the cluster, where some objects are not needed.
    """
    found = []
    unread: dict[Unread, list[str]] = {}
    elsewhere = (*_ROLES, *_BINDINGS, _DEFINITION, *(_INSIDE if is_outside else ()))
    for wanted, stored in facts.installed:
        kind = str(wanted.get("kind"))
        if kind in elsewhere:
            continue
        if isinstance(stored, Unread):
            unread.setdefault(stored, []).append(_label(wanted))
        elif stored is None:
            status, why = _MISSING.get(name_of(wanted)) or _MISSING.get(kind, (Status.WARNING, ""))
            yield Topic.OBJECTS.check(status, f"{_label(wanted)} does not exist", why=why, remedy=_UNLESS_LEFT_OUT)
        else:
            found.append(kind)
    yield from _unread_checks(Topic.OBJECTS, unread, "there")
    if found:
        kinds = sorted(set(found))
        what = f"{format_count(len(found), 'other object')} of the manifests found: {format_list(kinds, 12)}"
        yield Topic.OBJECTS.ok(what)


def _unread_checks(topic: Topic, unread: Mapping[Unread, Sequence[str]], predicate: str) -> Iterator[Check]:
    """The checks of objects that could not be read, one for each reason."""
    for reason, labels in unread.items():
        what = f"it is unknown whether {format_list(labels, 3)} {inflect('is', len(labels))} {predicate}"
        yield unread_check(topic, what, reason)


def _of_kinds(facts: InstallationFacts, kinds: tuple[str, ...]) -> list[tuple[Object, Object | Unread | None]]:
    return [(wanted, stored) for wanted, stored in facts.installed if wanted.get("kind") in kinds]


def _label(document: Object) -> str:
    namespace = namespace_of(document)
    return f"{document.get('kind')} {f'{namespace}/' if namespace else ''}{name_of(document)}"


APPLY = (
    "gpu-admission apply-webhooks FILE, where FILE has the manifests that you installed; with the chart, helm upgrade to the same "
    "version (docs/upgrade.md)"
)
_MOST = 4


def read_configurations(configurations: Mapping[str, Object | Unread | None]) -> list[Object]:
    """The configurations that exist and were read."""
    return [each for each in configurations.values() if each is not None and not isinstance(each, Unread)]


def called_url(configurations: Mapping[str, Object | Unread | None]) -> str:
    """The URL that API servers call; empty if they call the Service."""
    for each in read_configurations(configurations):
        for webhook in mappings_at(each, ("webhooks",)):
            if isinstance(url := lookup(webhook, ("clientConfig", "url")), str):
                return url.rpartition("/")[0]
    return ""


def known_notes(configurations: Mapping[str, Object | Unread | None]) -> set[str]:
    """The notes of replicas that `webhook_checks` reports with more detail."""
    read = read_configurations(configurations)
    missing = [f"{kind} {name}" for kind, name in CONFIGURATIONS if configurations.get(kind) is None]
    return {
        *opened_webhooks(read),
        *(f"there is no {each}, so API servers call none of its webhooks" for each in missing),
    }


def webhook_checks(configurations: Mapping[str, Object | Unread | None]) -> Iterator[Check]:
    """Checks that all webhooks of this version are installed, and fail as they must.

    Args:
        configurations: By kind.
    """
    found: list[Check] = []
    count = 0
    for kind, name in CONFIGURATIONS:
        document, where = configurations.get(kind), f"{kind} {name}"
        if isinstance(document, Unread):
            found.append(unread_check(Topic.WEBHOOKS, f"it is unknown which webhooks {where} has", document))
        elif document is None:
            found.append(
                Topic.WEBHOOKS.failure(
                    f"{where} does not exist",
                    why="API servers call none of its webhooks, so pods are neither converted, charged nor checked",
                    remedy=APPLY,
                )
            )
        else:
            count += len(mappings_at(document, ("webhooks",)))
            found += _entry_checks(kind, where, document)
    if not found:
        what = f"all {format_count(count, 'webhook')} of this version are installed, with their failurePolicy"
        found = [Topic.WEBHOOKS.ok(what)]
    yield from found


def doubled_checks(
    static: Mapping[str, Object], configurations: Mapping[str, Object | Unread | None]
) -> Iterator[Check]:
    """A check that no webhook is in files of the API servers and in the API too.

    Args:
        static: The configurations in files, by kind.
        configurations: Those of the API, by kind.
    """
    if doubled := doubled_webhooks(static.values(), read_configurations(configurations)):
        yield Topic.WEBHOOKS.failure(
            f"{format_list(doubled, _MOST)} {inflect('is', len(doubled))} in files of the API servers and in the API",
            why="API servers call both, so each pod is reviewed and charged twice",
            remedy="delete the webhook configurations of the API, or the files: docs/static-admission.md",
        )


def _entry_checks(kind: str, where: str, document: Object) -> Iterator[Check]:
    webhooks = mappings_at(document, ("webhooks",))
    names = {str(each.get("name")) for each in webhooks}
    wanted = [each.entry.webhook for each in WEBHOOKS if each.mutating is kind.startswith("Mutating")]
    if missing := [name for name in wanted if name not in names]:
        yield Topic.WEBHOOKS.failure(
            f"webhooks are missing: {format_list(missing, _MOST)}",
            where=where,
            why="API servers do not call what is not configured",
            remedy=APPLY,
        )
    if unknown := [name for name in names if name not in wanted]:
        yield Topic.WEBHOOKS.warning(
            f"this version does not know {format_list(sorted(unknown), _MOST)}",
            where=where,
            why="it is of a later version, or not of gpu-admission; replicas of this version do not answer it",
            remedy=APPLY,
        )
    yield from _policy_checks(where, webhooks)


def _policy_checks(where: str, webhooks: Sequence[Object]) -> Iterator[Check]:
    changed: dict[str, list[str]] = {}
    for webhook in webhooks:
        entry, stored = entry_of(webhook), webhook.get("failurePolicy")
        if entry is not None and stored != entry.failure_policy:
            changed.setdefault(str(stored), []).append(entry.webhook)
    for stored, names in changed.items():
        opened = "pods pass unconverted and uncharged while no replica answers, as after docs/break-glass.md"
        closed = "pods are refused while no replica answers, although this webhook must let them pass"
        yield Topic.WEBHOOKS.warning(
            f"failurePolicy of {format_list(names, _MOST)} is {stored}",
            where=where,
            why=opened if stored == "Ignore" else closed,
            remedy=APPLY,
        )


def bundle_checks(bundles: Sequence[Bundle], *, is_compared: bool) -> Iterator[Check]:
    """Checks that each webhook has a caBundle that verifies the certificate in the Secret.

    Args:
        bundles: Of the webhooks that were read.
        is_compared: True if the certificate in the Secret was read.
    """
    missing: dict[str, list[str]] = {}
    refused: dict[tuple[str, str], list[str]] = {}
    for each in bundles:
        if not each.is_present:
            missing.setdefault(each.configuration, []).append(each.webhook)
        elif each.refusal:
            refused.setdefault((each.configuration, each.refusal), []).append(each.webhook)
    for configuration, names in missing.items():
        yield Topic.CA_BUNDLE.failure(
            f"{format_list(names, _MOST)} {inflect('has', len(names))} no caBundle",
            where=configuration,
            why="API servers do not trust the certificate of the service, so every call fails",
            remedy="a replica writes it within seconds if it runs and may patch the configuration (see replicas and rbac here); "
            "with cert-manager, docs/troubleshooting.md#certificates",
        )
    for (configuration, why), names in refused.items():
        yield Topic.CA_BUNDLE.failure(
            f"the caBundle of {format_list(names, _MOST)} does not verify the certificate in the Secret",
            where=configuration,
            why=shorten(why),
            remedy="if a GitOps tool writes it, make it ignore caBundle (docs/install.md); else docs/troubleshooting.md#certificates",
        )
    if bundles and not missing and not refused:
        verified = ", which verifies the certificate in the Secret" if is_compared else ""
        what = f"all {format_count(len(bundles), 'webhook')} have a caBundle{verified}"
        yield Topic.CA_BUNDLE.ok(what)
