"""The two webhook configurations: what is missing, opened, unknown, or has no caBundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.entries import CONFIGURATIONS
from policies.admission.installed import entry_of, opened_webhooks
from policies.admission.webhooks import WEBHOOKS
from policies.cluster_checks import Check, Status
from policies.health.facts import Unread, unread_check
from policies.kubernetes.paths import lookup, mappings_at
from policies.phrases import format_count, format_list, inflect, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.health.facts import Bundle
    from policies.kubernetes.objects import Object

__all__ = ["APPLY", "bundle_checks", "called_url", "known_notes", "read_configurations", "webhook_checks"]

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
    """Whether all webhooks of this version are installed, and fail as they must.

    Args:
        configurations: By kind.
    """
    found: list[Check] = []
    count = 0
    for kind, name in CONFIGURATIONS:
        document, where = configurations.get(kind), f"{kind} {name}"
        if isinstance(document, Unread):
            found.append(unread_check("webhooks", f"it is unknown which webhooks {where} has", document))
        elif document is None:
            found.append(
                Check(
                    name="webhooks",
                    status=Status.FAILING,
                    what=f"{where} does not exist",
                    why="API servers call none of its webhooks, so pods are neither converted, charged nor checked",
                    remedy=APPLY,
                )
            )
        else:
            count += len(mappings_at(document, ("webhooks",)))
            found += _entry_checks(kind, where, document)
    if not found:
        what = f"all {format_count(count, 'webhook')} of this version are installed, with their failurePolicy"
        found = [Check(name="webhooks", status=Status.OK, what=what)]
    yield from found


def _entry_checks(kind: str, where: str, document: Object) -> Iterator[Check]:
    webhooks = mappings_at(document, ("webhooks",))
    names = {str(each.get("name")) for each in webhooks}
    wanted = [each.entry.webhook for each in WEBHOOKS if each.mutating is kind.startswith("Mutating")]
    if missing := [name for name in wanted if name not in names]:
        yield Check(
            name="webhooks",
            status=Status.FAILING,
            what=f"webhooks are missing: {format_list(missing, _MOST)}",
            where=where,
            why="API servers do not call what is not configured",
            remedy=APPLY,
        )
    if unknown := [name for name in names if name not in wanted]:
        yield Check(
            name="webhooks",
            status=Status.WARNING,
            what=f"this version does not know {format_list(sorted(unknown), _MOST)}",
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
        yield Check(
            name="webhooks",
            status=Status.WARNING,
            what=f"failurePolicy of {format_list(names, _MOST)} is {stored}",
            where=where,
            why=opened if stored == "Ignore" else closed,
            remedy=APPLY,
        )


def bundle_checks(bundles: Sequence[Bundle], *, is_compared: bool) -> Iterator[Check]:
    """Whether each webhook has a caBundle, and it verifies the certificate in the Secret.

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
        yield Check(
            name="caBundle",
            status=Status.FAILING,
            what=f"{format_list(names, _MOST)} {inflect('has', len(names))} no caBundle",
            where=configuration,
            why="API servers do not trust the certificate of the service, so every call fails",
            remedy="a replica writes it within seconds if it runs and may patch the configuration (see replicas and rbac here); "
            "with cert-manager, docs/troubleshooting.md#certificates",
        )
    for (configuration, why), names in refused.items():
        yield Check(
            name="caBundle",
            status=Status.FAILING,
            what=f"the caBundle of {format_list(names, _MOST)} does not verify the certificate in the Secret",
            where=configuration,
            why=shorten(why),
            remedy="if a GitOps tool writes it, make it ignore caBundle (docs/install.md); else docs/troubleshooting.md#certificates",
        )
    if bundles and not missing and not refused:
        verified = ", which verifies the certificate in the Secret" if is_compared else ""
        what = f"all {format_count(len(bundles), 'webhook')} have a caBundle{verified}"
        yield Check(name="caBundle", status=Status.OK, what=what)
