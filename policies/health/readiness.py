"""What replicas say of themselves in `/readyz`: whether they are ready, and notes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.cluster_checks import Check, Status
from policies.health.facts import NAMESPACE, Unread, unread_check
from policies.health.replicas import is_ready_pod
from policies.kubernetes.objects import name_of
from policies.phrases import format_count, format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.health.facts import InstallationFacts

__all__ = ["readiness_checks"]

_PAGE = "docs/troubleshooting.md"
_LONGEST = 240
_NOT_SERVED = "not served: "
"""How notes begin about kinds that are not installed in the cluster, which is no problem of gpu-admission."""
_LEADS, _NO_LEADER = " leads", "no replica leads"
"""How a note ends that has nothing but the leader, which another check shows; and one that is a problem."""
_SECONDS = re.compile(r"\bfor \d+ s\b")
"""What differs between the same notes of two replicas."""
_REMEDIES = {
    "not listed yet": "wait; the text has the reason if it persists",
    "the caBundle of webhook": f"{_PAGE}#certificates",
    "the webhook configurations could not be read": f"{_PAGE}#not-ready",
    "forbidden": "bind the role of docs/install.md; the checks of rbac name what is missing",
    "out of date for": f"{_PAGE}#out-of-date",
    "no replica leads": f"{_PAGE}#upkeep",
    "the reasons why pods wait": "apply deploy/components/explain-on-pods, or set explainOnPods.enabled of the Helm chart",
    "no DRA API": "docs/versions.md",
    "no client CA is configured": "docs/client-certificates.md",
}
"""What to do about a reason or note that begins so; others are explained in the page."""
_RESTART = "has ended because of a defect"


def readiness_checks(facts: InstallationFacts, is_known: Callable[[str], bool]) -> Iterator[Check]:
    """Whether the replicas are ready, and their notes.

    Args:
        facts: What was read.
        is_known: True for a note that another check reports.
    """
    answers = {name: each.readiness for name, each in facts.replicas.items()}
    yield from _unread(facts)
    read = {name: answer for name, answer in answers.items() if not isinstance(answer, Unread)}
    for name, answer in read.items():
        if not answer.is_ready:
            yield Check(
                name="readiness",
                status=Status.FAILING,
                what=f"replica {name} is not ready",
                where="its /readyz",
                why=format_list(answer.reasons),
                remedy=_remedy(answer.reasons[0] if answer.reasons else ""),
            )
    if read and all(answer.is_ready for answer in read.values()):
        yield Check(name="readiness", status=Status.OK, what=f"ready: {format_list(sorted(read))}")
    notes: dict[str, list[tuple[str, str]]] = {}
    for name, answer in read.items():
        for note in answer.notes:
            if not is_known(note) and (note == _NO_LEADER or not note.endswith(_LEADS)):
                notes.setdefault(_SECONDS.sub("", note), []).append((name, note))
    absent = [note.removeprefix(_NOT_SERVED).partition("; ")[0] for note in notes if note.startswith(_NOT_SERVED)]
    if absent:
        what = f"not installed in this cluster, which is no error: {', '.join(absent)}"
        yield Check(name="readiness", status=Status.OK, what=what)
    for note, noted in notes.items():
        if not note.startswith(_NOT_SERVED):
            yield _note_check(noted[0][1], [name for name, _ in noted])


def _unread(facts: InstallationFacts) -> Iterator[Check]:
    """Replicas that could not be asked, together if a right is missing."""
    ready = set() if isinstance(facts.pods, Unread) else {name_of(pod) for pod in facts.pods if is_ready_pod(pod)}
    denied: dict[Unread, list[str]] = {}
    for name, each in facts.replicas.items():
        if not isinstance(each.readiness, Unread):
            continue
        if each.readiness.right:
            denied.setdefault(each.readiness, []).append(name)
            continue
        yield Check(
            name="readiness",
            status=Status.WARNING if name in ready else Status.FAILING,
            what=f"replica {name} does not answer",
            where="its /readyz, through the API server",
            why=shorten(each.readiness.error, _LONGEST)
            + ("; its kubelet reaches it, so something is between the API server and the pod" if name in ready else ""),
            remedy=f"{_PAGE}#calls-do-not-arrive" if name in ready else f"kubectl -n {NAMESPACE} logs {name} --tail=50",
        )
    for unread, names in denied.items():
        what = f"readiness of {format_count(len(names), 'replica')} is unknown: {format_list(names)}"
        yield unread_check("readiness", what, unread)


def _note_check(note: str, names: list[str]) -> Check:
    return Check(
        name="readiness",
        status=Status.WARNING,
        what=shorten(note, _LONGEST),
        where=f"/readyz of {format_list(names)}",
        remedy=f"kubectl -n {NAMESPACE} delete pod {names[0]}" if _RESTART in note else _remedy(note),
    )


def _remedy(text: str) -> str:
    return next((remedy for start, remedy in _REMEDIES.items() if text.startswith(start)), f"{_PAGE}#not-ready")
