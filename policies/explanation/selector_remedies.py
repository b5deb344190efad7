"""What to write instead of a selector that reads what a device lacks, by the rules that review claims."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from policies.dra.claims.cluster.domains import domains
from policies.dra.claims.cluster.missing import missing_reads
from policies.dra.claims.cluster.removed import removed_attributes
from policies.dra.claims.cluster.unguarded import unguarded_reads
from policies.dra.claims.cluster.wording import text_place
from policies.dra.claims.subject import Subject
from policies.kubernetes.objects import namespace_of

if TYPE_CHECKING:
    from policies.dra.cel.reads import Read
    from policies.dra.claims.facts import Facts
    from policies.kubernetes.objects import Object

__all__ = ["remedy_by_rules"]


def remedy_by_rules(document: Object, selector: str, read: Read, facts: Facts) -> str:
    """The remedy of the rule that tells of the read; empty where none does.

    Args:
        document: the ResourceClaim or DeviceClass of the selector, in the shape of resource.k8s.io/v1.
        selector: its text.
        read: what a device lacks.
        facts: the cluster, as rules see it.
    """
    kind = "DeviceClass" if document.get("kind") == "DeviceClass" else "ResourceClaim"
    subject = Subject({**document, "kind": kind}, None, kind, "v1", namespace_of(document), facts)
    place = (read.part, read.domain, read.name)
    missing = [each for each in missing_reads(subject) if each.selector.text == selector]
    found = next((each for each in missing if each.place == place), None)
    if found is None:
        return ""
    if found.reason == "domain":  # told once for all that is read of the domain
        found = next(each for each in missing if (each.reason, *each.place[:2]) == ("domain", *place[:2]))
    where = text_place(found.selector, found.offset)
    told = chain(domains(subject), removed_attributes(subject), unguarded_reads(subject))
    return next((each.remedy for each in told if each.place == where and each.remedy), "")
