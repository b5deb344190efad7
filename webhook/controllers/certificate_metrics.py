"""Metrics of rotation; they join those of the server on `/metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from prometheus_client import Counter, Gauge

from certs.rotation import CHANGES

if TYPE_CHECKING:
    from datetime import datetime

    from prometheus_client import CollectorRegistry

    from certs.rotation import ChangeKind

__all__ = ["CertificateMetrics", "Failure"]

Failure = Literal["cluster", "secret", "certificate", "other"]
"""Why a look failed: the API server, the Secret, a certificate that cannot be served, a mistake of ours."""

_FAILURES: tuple[Failure, ...] = ("cluster", "secret", "certificate", "other")


class CertificateMetrics:
    """What became of certificates. Labels take only values that the program itself chooses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leaf = Gauge(
            "gpu_admission_stored_certificate_expiry_timestamp_seconds",
            "When the serving certificate in the Secret expires.",
            registry=registry,
        )
        self._authority = Gauge(
            "gpu_admission_ca_expiry_timestamp_seconds",
            "When the authority that issued it expires.",
            registry=registry,
        )
        self._looked = Gauge(
            "gpu_admission_certificate_last_look_timestamp_seconds",
            "When the Secret and the webhook configurations were last looked at without a failure.",
            registry=registry,
        )
        changes = Counter(
            "gpu_admission_certificate_changes_total",
            "Steps of rotation that this replica wrote; switched is a rotation's end.",
            ["change"],
            registry=registry,
        )
        failures = Counter(
            "gpu_admission_certificate_failures_total",
            "Looks that failed, by what they failed at.",
            ["reason"],
            registry=registry,
        )
        self._changes = {kind: changes.labels(kind) for kind in (*CHANGES, "restored")}
        self._failures = {reason: failures.labels(reason) for reason in _FAILURES}

    def show(self, leaf: datetime, authority: datetime) -> None:
        """Show when the certificates in the Secret expire."""
        self._leaf.set(leaf.timestamp())
        self._authority.set(authority.timestamp())

    def show_look(self, moment: datetime) -> None:
        """Show when everything was last looked at."""
        self._looked.set(moment.timestamp())

    def count_change(self, kind: ChangeKind | Literal["restored"]) -> None:
        """Count a change that was written."""
        self._changes[kind].inc()

    def count_failure(self, reason: Failure) -> None:
        """Count a look that failed."""
        self._failures[reason].inc()
