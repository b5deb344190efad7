"""Admission of subjects: the review of each, beside the manifest that it comes from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from policies.admission.objects import ObjectReview, review_object

if TYPE_CHECKING:
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cli.subjects import Subject

__all__ = ["Result", "admit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(ObjectReview):
    """The review of a subject."""

    subject: Subject


def admit(subject: Subject, view: ClusterView, settings: GPUAdmissionPolicy) -> Result:
    """Review a subject as all webhooks would, and the pods of a workload as they would be created."""
    duplicates = subject.duplicates if subject.manifest.document.duplicates else None
    found = review_object(subject.request, view, settings, duplicates)
    return Result(**{each.name: getattr(found, each.name) for each in fields(ObjectReview)}, subject=subject)
