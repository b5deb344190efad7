"""Certificates: when they expire, and whether replicas serve the one that is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from policies.cluster_checks import Check, Status
from policies.health.facts import Unread, unread_check
from policies.phrases import format_list, inflect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from policies.health.facts import InstallationFacts

__all__ = ["certificate_checks"]

_PAGE = "docs/troubleshooting.md#certificates"
_SECRET = "Secret gpu-admission-certificates in namespace gpu-admission"  # noqa: S105 - a name, and no secret
_SERVING, _AUTHORITY = timedelta(days=7), timedelta(days=60)
"""What remains when an alert fires; see GPUAdmissionCertificateExpires and GPUAdmissionAuthorityExpires."""
_SAME = timedelta(seconds=1)


def certificate_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Whether certificates are valid for long enough, and replicas serve the stored one."""
    served = {
        name: each.metrics.certificate_expiry
        for name, each in facts.replicas.items()
        if not isinstance(each.metrics, Unread) and each.metrics.certificate_expiry is not None
    }
    for expiry in sorted(set(served.values())):
        names = [name for name, each in served.items() if each == expiry]
        yield _expiry_check(
            f"the certificate that {format_list(names)} {'serves' if len(names) == 1 else 'serve'}",
            expiry,
            facts.now,
            _SERVING,
        )
    if not facts.issues_certificates:
        return
    stored = facts.certificates
    if isinstance(stored, Unread):
        yield unread_check("certificate", "the stored certificate and its authority are unknown", stored)
    elif stored is None or stored.problem:
        yield Check(
            name="certificate",
            status=Status.FAILING,
            what="the stored certificate does not exist" if stored is None else "the stored certificate cannot be used",
            where=_SECRET,
            why="" if stored is None else stored.problem,
            remedy=f"a replica creates it if it runs and may write the Secret (see replicas and rbac here); {_PAGE}",
        )
    else:
        if stored.authority_expiry is not None:
            yield _expiry_check("the authority of the certificate", stored.authority_expiry, facts.now, _AUTHORITY)
        if stored.certificate_expiry is not None:
            if not served:
                yield _expiry_check("the stored certificate", stored.certificate_expiry, facts.now, _SERVING)
            yield from _difference(served, stored.certificate_expiry)


def _expiry_check(what: str, expiry: datetime, now: datetime, least: timedelta) -> Check:
    if expiry <= now:
        return Check(
            name="certificate",
            status=Status.FAILING,
            what=f"{what} has expired at {expiry:%Y-%m-%d %H:%M} UTC",
            why="API servers refuse the connection, so every call fails",
            remedy=_PAGE,
        )
    days = (expiry - now).days
    remaining = f"{what} expires in {days} days, at {expiry:%Y-%m-%d %H:%M} UTC"
    if expiry - now < least:
        return Check(
            name="certificate", status=Status.WARNING, what=remaining, why="it was not replaced in time", remedy=_PAGE
        )
    return Check(name="certificate", status=Status.OK, what=f"{what} is valid for {days} days")


def _difference(served: dict[str, datetime], stored: datetime) -> Iterator[Check]:
    others = [name for name, expiry in served.items() if abs(expiry - stored) > _SAME]
    if others:
        yield Check(
            name="certificate",
            status=Status.WARNING,
            what=f"{format_list(others)} {inflect('does', len(others))} not serve the stored certificate",
            where=_SECRET,
            why="a replica loads a new one within a minute, unless it cannot read the Secret",
            remedy=_PAGE,
        )
    elif served:
        yield Check(name="certificate", status=Status.OK, what="replicas serve the stored certificate")
