"""The ResourceClaimTemplates that conversion creates: named by content, deleted when unused.

A name is `gpu-` and the first 16 hexadecimal digits of the SHA-256 of the template's `spec` as JSON in UTF-8, with sorted
keys, without white space, and only with the escapes that JSON requires. Every default of the API server is written out,
so that the stored spec equals the hashed one.

A template is deleted in two steps, so that users can see it coming. First it is marked with the time since when no pod
uses it. It is deleted once the mark is older than the grace period. A replica that needs a marked template removes the
mark, which changes its resourceVersion, so that an earlier decision to delete it fails. The mark is on the template and
not in memory, so that a new leader continues where the old one stopped.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.bounds import count_work
from policies.kubernetes.names import MANAGED, UNUSED_SINCE
from policies.kubernetes.objects import has_ended, items_at, lookup, name_of, namespace_of
from policies.kubernetes.quantities import mebibytes_text
from policies.nvidia.predicates import TRUE, AllOf, Predicate
from policies.rules.decision import Template

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import timedelta

    from policies.kubernetes.objects import Object


_MOST_SELECTORS = 32

_OUR_NAME = re.compile(r"gpu-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class ExactRequest:
    """One exact request of a claim: a number of devices of a class that meet a predicate."""

    name: str
    device_class: str
    count: int
    predicate: Predicate = TRUE
    shares: int = 0
    """Requested shares of each device, if the driver shares devices (`shares`, ConsumableShares)."""
    memory: int = 0
    """Requested memory of each device in MiB, if the driver shares devices by memory."""
    unused: tuple[str, ...] = ()
    """Capacities of which nothing is requested; a request that does not name them takes all."""

    def manifest(self) -> dict[str, Any]:
        """The request as JSON."""
        return {"name": self.name, "exactly": self.fields()}

    def fields(self) -> dict[str, Any]:
        """The fields that an exact request and an alternative have in common."""
        exactly: dict[str, Any] = {
            "deviceClassName": self.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if expressions := cel_expressions(self.predicate):
            exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
        capacity = dict.fromkeys(self.unused, "0")
        if self.memory:
            capacity["memory"] = mebibytes_text(self.memory)
        if self.shares:
            capacity["shares"] = str(self.shares)
        if capacity:
            exactly["capacity"] = {"requests": capacity}
        return exactly


@dataclass(frozen=True, slots=True)
class PrioritizedRequest:
    """One request of a claim with alternatives, of which the first that a node can meet is taken."""

    name: str
    alternatives: Sequence[ExactRequest]

    def manifest(self) -> dict[str, Any]:
        """The request as JSON."""
        return {
            "name": self.name,
            "firstAvailable": [{"name": each.name, **each.fields()} for each in self.alternatives],
        }


def cel_expressions(predicate: Predicate) -> list[str]:
    """The CEL expressions of a predicate: one for each part of a conjunction, which is easier to read."""
    if predicate == TRUE:
        return []
    parts = predicate.parts if isinstance(predicate, AllOf) else (predicate,)
    return [part.cel() for part in parts] if len(parts) <= _MOST_SELECTORS else [predicate.cel()]


def claim_template(
    namespace: str, requests: Sequence[ExactRequest | PrioritizedRequest], constraints: Sequence[dict[str, Any]] = ()
) -> Template:
    """The template with these requests and constraints, named by its content."""
    devices: dict[str, Any] = {"requests": [request.manifest() for request in requests]}
    if constraints:
        devices["constraints"] = [*constraints]
    spec = {"metadata": {"labels": {MANAGED: "true"}}, "spec": {"devices": devices}}
    return Template(namespace, content_name(spec), spec)


def content_name(spec: Any) -> str:
    """The name of a template with this `spec`."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return f"gpu-{hashlib.sha256(canonical).hexdigest()[:16]}"


def without_nulls(value: Any) -> Any:
    """A value without null fields, which clients in Go write for fields that are not set."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def is_our_name(name: object) -> bool:
    """True if a name has the form of our templates' names."""
    return isinstance(name, str) and _OUR_NAME.fullmatch(name) is not None


Key = tuple[str, str]
"""Namespace and name of a template."""

Step = Literal["mark", "unmark", "delete"]

_POD_UNITS, _TEMPLATE_UNITS = 3, 15
"""Units of work to see what a pod refers to, and to make the digest of a template."""
_FORM = "%Y-%m-%dT%H:%M:%SZ"


def is_ours(template: Object) -> bool:
    """True if gpu-admission made a template: it has our label, and its name is the hash of its content.

    The label alone proves nothing, because any user can set it; another template cannot have this name by chance.
    """
    name = name_of(template)
    return (
        lookup(template, ("metadata", "labels", MANAGED)) == "true"
        and is_our_name(name)
        and content_name(without_nulls(template.get("spec"))) == name
    )


def references(pod: Any) -> frozenset[str]:
    """The names of the templates that a pod, a pod template or a PodGroup refers to."""
    names = (lookup(claim, ("resourceClaimTemplateName",)) for claim in items_at(pod, ("spec", "resourceClaims")))
    return frozenset(name for name in names if isinstance(name, str))


def used_by_pods(pods: Iterable[Object]) -> frozenset[Key]:
    """The templates that are in use: those of PodGroups, and of pods that have not ended.

    A lost claim is recreated from its template.
    """
    used: set[Key] = set()
    for pod in pods:
        count_work(_POD_UNITS)
        if not has_ended(pod):
            used.update((namespace_of(pod), name) for name in references(pod))
    return frozenset(used)


def next_steps(
    templates: Iterable[Object], used: Collection[Key], now: datetime, grace: timedelta
) -> list[tuple[Object, Step]]:
    """The templates that need a step, and the step; see `next_step`."""
    found = []
    for template in templates:
        count_work(_TEMPLATE_UNITS)
        is_used = (namespace_of(template), name_of(template)) in used
        if step := next_step(template, used=is_used, now=now, grace=grace):
            found.append((template, step))
    return found


def next_step(template: Object, *, used: bool, now: datetime, grace: timedelta) -> Step | None:
    """The next step for a template; None if it is not ours or is being deleted.

    Args:
        template: The template as it is stored.
        used: Whether a pod or a workload uses it.
        now: The time of day, with a zone.
        grace: For how long an unused template is kept.
    """
    if not is_ours(template) or lookup(template, ("metadata", "deletionTimestamp")) is not None:
        return None
    marked = lookup(template, ("metadata", "annotations", UNUSED_SINCE))
    if used:
        return None if marked is None else "unmark"
    since = _moment(marked)
    # A mark in the future, from a wrong clock or a user, would keep the template for ever.
    if since is None or since > now + grace:
        return "mark"
    return "delete" if now - since >= grace else None


def is_marked(template: Object) -> bool:
    """True if a template is marked as unused."""
    return lookup(template, ("metadata", "annotations", UNUSED_SINCE)) is not None


def mark(now: datetime) -> dict[str, str | None]:
    """The annotations, as a merge patch, that mark a template as unused since `now`."""
    return {UNUSED_SINCE: f"{now.astimezone(UTC):{_FORM}}"}


def unmark() -> dict[str, str | None]:
    """The annotations, as a merge patch, that remove the mark."""
    return {UNUSED_SINCE: None}


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.strptime(text, _FORM).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None
