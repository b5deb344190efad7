"""Exemptions: namespaces and users that are exempt from some rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.rules.decision import Severity
from policies.rules.settings.choices import DEFAULTS, DRA_DRIVER_NAMESPACES, GPUAdmissionPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.rules.decision import Finding
    from policies.rules.request import Concern, UserInfo
    from policies.rules.settings.choices import Exemption


_OF_CONVERSION = ("conversion", "preview", "conversion-check", "opt-in")
_WILD = re.compile(r"[*?\[]")

NEVER_MATCHED = ("kube-system", "gpu-admission")
"""Namespaces that no webhook of ours is called for: a cluster must be able to heal itself, and we to start, without us."""


def exemption(concern: Concern | None, namespace: str, settings: GPUAdmissionPolicy) -> str:
    """The reason for which a concern leaves a namespace alone, as a clause; empty if it does not.

    Without a concern, why every webhook leaves it alone.
    """
    for names, why in _names_with_reasons(concern, settings):
        if namespace in names:
            return why
    patterns, why = _patterns(concern, settings)
    return why if any(fnmatchcase(namespace, pattern) for pattern in patterns) else ""


def exemption_in_cluster(concern: Concern | None, namespace: str, settings: GPUAdmissionPolicy) -> str:
    """The reason why a concern leaves a namespace alone in a cluster, as a clause; empty if it does not.

    The API server calls the installed webhooks for no namespace that is exempt by default, whatever the settings say.
    """
    why = exemption(concern, namespace, settings)
    if not why and exemption(concern, namespace, DEFAULTS):
        return "the installed webhook configurations leave it out"
    return why


def exempt_names(concern: Concern | None, settings: GPUAdmissionPolicy) -> frozenset[str]:
    """The names of namespaces that a concern leaves alone; without patterns such as `monitoring-*`."""
    named = (name for names, _ in _names_with_reasons(concern, settings) for name in names)
    return frozenset((*named, *(name for name in _patterns(concern, settings)[0] if not _WILD.search(name))))


def exempt_patterns(concern: Concern, settings: GPUAdmissionPolicy) -> list[str]:
    """The patterns of namespaces that a concern leaves alone, which no selector can name."""
    return [pattern for pattern in _patterns(concern, settings)[0] if _WILD.search(pattern)]


def is_excluded(concerns: Sequence[Concern], namespace: str, settings: GPUAdmissionPolicy) -> bool:
    """True if a webhook excludes a namespace in a cluster.

    Args:
        concerns: The webhook excludes namespaces that are exempt from all of them; without any, those never matched.
        namespace: The name of the namespace.
        settings: The settings in use.
    """
    return all(exemption_in_cluster(concern, namespace, settings) for concern in concerns or (None,))


def excluded_names(concerns: Sequence[Concern], settings: GPUAdmissionPolicy) -> frozenset[str]:
    """The names of the namespaces that a namespaceSelector excludes; `concerns` as in `is_excluded`."""
    return frozenset.intersection(*(exempt_names(concern, settings) for concern in concerns or (None,)))


def in_default_order(names: frozenset[str]) -> list[str]:
    """Names of namespaces: those that are exempt by default in their order, then the others sorted."""
    default = (*NEVER_MATCHED, *DEFAULTS.configuration.operator_namespaces, *DRA_DRIVER_NAMESPACES)
    return [*(name for name in default if name in names), *sorted(names - {*default})]


def _names_with_reasons(concern: Concern | None, settings: GPUAdmissionPolicy) -> list[tuple[tuple[str, ...], str]]:
    named: list[tuple[tuple[str, ...], str]] = [(NEVER_MATCHED, "no webhook is called for it")]
    if concern in (*_OF_CONVERSION, "access", "quota"):
        named.append((settings.configuration.operator_namespaces, "configuration.operatorNamespaces names it"))
    if concern in _OF_CONVERSION:
        named.append((DRA_DRIVER_NAMESPACES, "NVIDIA's DRA driver runs there"))
    return named


def _patterns(concern: Concern | None, settings: GPUAdmissionPolicy) -> tuple[tuple[str, ...], str]:
    match concern:
        case "access":
            return settings.access.exempt_namespaces, "access.exemptNamespaces matches it"
        case "quota":
            return settings.quota.exempt_namespaces, "quota.exemptNamespaces matches it"
    return (), ""


CONVERSION = "conversion"
ACCESS = "access"
OF_ACCESS = "GA6*"
"""The rules that `access` stands for in `from` of an exemption."""
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class ExemptPolicy(GPUAdmissionPolicy):
    """The settings for a user who is exempt from some of them."""

    exempt_from: frozenset[str] = frozenset()
    """The values of `from` of the exemptions; `access` is replaced by `GA6*`."""

    @property
    def exempts_from_conversion(self) -> bool:
        """True if the pods of the user are not converted."""
        return CONVERSION in self.exempt_from

    def judge(self, findings: Iterable[Finding], namespace: str) -> tuple[Finding, ...]:
        """The findings with their severities; those that an exemption lowers are audited only."""
        judged = GPUAdmissionPolicy.judge(self, findings, namespace)
        return tuple(
            replace(found, severity=Severity.AUDIT, exempt=True)
            if found.severity in (Severity.DENY, Severity.WARN)
            and not (found.rule.fixed or found.announces_refusal)
            and any(fnmatchcase(found.rule.id, pattern) for pattern in self.exempt_from)
            else found
            for found in judged
        )


def settings_for(user: UserInfo, namespace: str, settings: GPUAdmissionPolicy) -> GPUAdmissionPolicy:
    """The settings for a user: the same ones, or an `ExemptPolicy`."""
    if not settings.exemptions:
        return settings
    exempt_from = {
        OF_ACCESS if what == ACCESS else what
        for exemption in settings.exemptions
        if exemption.holds_in(namespace) and _names(exemption, user)
        for what in exemption.from_
    }
    if not exempt_from:
        return settings
    chosen = {each.name: getattr(settings, each.name) for each in fields(GPUAdmissionPolicy)}
    return ExemptPolicy(**chosen, exempt_from=frozenset(exempt_from))


def _names(exemption: Exemption, user: UserInfo) -> bool:
    """True if an exemption includes a user; never for an unauthenticated one."""
    if not user.username:
        return False
    if any(fnmatchcase(user.username, pattern) for pattern in exemption.users):
        return True
    if any(fnmatchcase(group, pattern) for pattern in exemption.groups for group in user.groups):
        return True
    account = user.username.removeprefix(_ACCOUNT)
    if account == user.username:
        return False
    namespace, _, name = account.partition(":")
    parts = (pattern.partition("/") for pattern in exemption.service_accounts)
    return any(fnmatchcase(namespace, where) and fnmatchcase(name, who) for where, _, who in parts)
