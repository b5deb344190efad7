"""Exemptions: users who are exempt from some rules, and the severity of findings about them.

A finding that would refuse or warn is only audited, so that the audit log and the metrics show each use of an exemption.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.settings.choices import GPUAdmissionPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.decision import Finding
    from policies.request import UserInfo
    from policies.settings.choices import Exemption

__all__ = ["ACCESS", "CONVERSION", "ExemptPolicy", "settings_for"]

CONVERSION = "conversion"
ACCESS = "access"
_OF_ACCESS = "GA6*"
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
            if found.severity in (Severity.DENY, Severity.WARN) and self._is_exempt_from(found)
            else found
            for found in judged
        )

    def _is_exempt_from(self, found: Finding) -> bool:
        if found.rule.fixed or found.announces_refusal:
            return False
        return any(fnmatchcase(found.rule.id, pattern) for pattern in self.exempt_from)


def settings_for(user: UserInfo, namespace: str, settings: GPUAdmissionPolicy) -> GPUAdmissionPolicy:
    """The settings for a user: the same ones, or an `ExemptPolicy`."""
    if not settings.exemptions:
        return settings
    exempt_from = {
        _OF_ACCESS if what == ACCESS else what
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
