"""Replicas: the leader and its work on quotas and templates, the pods, and their readiness."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from policies.analyses.installation.cluster_checks import Check, Status, Topic
from policies.analyses.installation.installation_facts import NAMESPACE, Unread, unread_check
from policies.conversion.templates import is_our_name, is_ours, references
from policies.kubernetes.names import UNUSED_SINCE, format_count, format_list, inflect, shorten
from policies.kubernetes.objects import has_ended, lookup, mapping_at, mappings_at, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.analyses.installation.installation_facts import InstallationFacts
    from policies.kubernetes.objects import Object


_LEASE = f"Lease {NAMESPACE} in namespace {NAMESPACE}"
_UPKEEP = "docs/troubleshooting.md#upkeep"
_QUOTAS = "docs/troubleshooting.md#quotas"
_LATE = timedelta(seconds=30)
"""A Lease is valid for 15 seconds, and another replica takes it soon after that."""
_SETTLED = timedelta(minutes=2)
"""A quota is counted within a second, and a missing template is created within half a minute, of a working leader."""
_SWEPT = timedelta(hours=2)
"""An unused template is deleted after an hour, by rounds of ten minutes."""
_MOST = 3


def leader_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Check that a replica leads."""
    if isinstance(facts.lease, Unread):
        yield unread_check(Topic.LEADER, "it is unknown whether a replica leads", facts.lease)
        return
    holder = lookup(facts.lease, ("spec", "holderIdentity")) or ""
    renewed = _moment(lookup(facts.lease, ("spec", "renewTime")))
    why = ""
    if facts.lease is None:
        why = "it does not exist"
    elif not holder:
        why = "it has no holder"
    elif renewed is None or facts.now - renewed > _LATE:
        why = (
            f"its holder {holder} renewed it last at {renewed:%Y-%m-%d %H:%M:%S} UTC"
            if renewed
            else "it has no renewTime"
        )
    is_short = renewed is not None and facts.now - renewed <= _LATE
    if why:
        # A replica that stops releases the Lease, and another one takes it within seconds.
        yield Topic.LEADER.check(
            Status.WARNING if is_short else Status.FAILING,
            "no replica leads at the moment" if is_short else "no replica leads",
            where=_LEASE,
            why=f"{why}; nothing counts quotas, creates missing templates or writes the status of settings meanwhile",
            remedy=f"see replicas, readiness and rbac here; {_UPKEEP}",
        )
    elif renewed is not None:
        seconds = max(int((facts.now - renewed).total_seconds()), 0)
        yield Topic.LEADER.ok(f"{holder} leads, and renewed its Lease {format_count(seconds, 'second')} ago")


def quota_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that quotas are counted, and that nothing passed without a charge."""
    if isinstance(facts.quotas, Unread):
        yield unread_check(Topic.QUOTAS, "it is unknown whether GPUQuotas are counted", facts.quotas)
    else:
        late: dict[str, list[str]] = {}
        for quota in facts.quotas:
            if reason := _ledger_problem(quota, facts.now):
                late.setdefault(reason, []).append(f"{namespace_of(quota)}/{name_of(quota)}")
        for reason, names in late.items():
            yield Topic.QUOTAS.failure(f"GPUQuota {format_list(names, _MOST)}: {reason}", remedy=_QUOTAS)
        if not late:
            counted = f"all {format_count(len(facts.quotas), 'GPUQuota')} are counted" if len(facts.quotas) > 1 else ""
            what = counted or ("the GPUQuota is counted" if facts.quotas else "no GPUQuota exists")
            yield Topic.QUOTAS.ok(what)
    for name, replica in facts.replicas.items():
        if not isinstance(replica.metrics, Unread) and replica.metrics.drift:
            yield Topic.QUOTAS.warning(
                f"{replica.metrics.drift:,} pods or claims passed without a charge, and count now",
                where=f"gpu_admission_quota_drift_total of {name}, since it started",
                why="they were created while no replica could charge them, or before the GPUQuota",
                remedy=_QUOTAS,
            )


def _ledger_problem(quota: Object, now: datetime) -> str:
    """The reason why a quota does not work, as its conditions say; empty if it does, or is new."""
    conditions = {each.get("type"): each for each in mappings_at(quota, ("status", "conditions"))}
    ready, enforced = conditions.get("Ready"), conditions.get("Enforced")
    if ready is None:
        return "" if _is_new(lookup(quota, ("metadata", "creationTimestamp")), now) else "no leader has counted it"
    if ready.get("status") == "False":
        return shorten(f"not counted: {ready.get('message')}".rstrip("."))
    if enforced is not None and enforced.get("status") == "Unknown":
        late = not _is_new(enforced.get("lastTransitionTime"), now)
        return shorten(f"not enforced yet: {enforced.get('message')}".rstrip(".")) if late else ""
    return ""


def template_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that no pod waits for a missing template, and that unused templates are deleted."""
    if isinstance(facts.templates, Unread):
        yield unread_check(Topic.TEMPLATES, "it is unknown whether templates are missing or left over", facts.templates)
        return
    stored = {(namespace_of(each), name_of(each)) for each in facts.templates}
    good = True
    if isinstance(facts.waiting_pods, Unread):
        good = False
        yield unread_check(Topic.TEMPLATES, "it is unknown whether pods wait for templates", facts.waiting_pods)
    else:
        waiting = [pod for pod in facts.waiting_pods if _waits(pod, stored, facts.now)]
        if waiting:
            good = False
            yield Topic.TEMPLATES.failure(
                f"{format_count(len(waiting), 'pod')} {inflect('waits', len(waiting))} for a ResourceClaimTemplate that does "
                f"not exist: {format_list([f'{namespace_of(pod)}/{name_of(pod)}' for pod in waiting], _MOST)}",
                why="the leader creates it within half a minute, unless no replica leads or the API server refuses it",
                remedy=f"kubectl -n {NAMESPACE} logs -l app.kubernetes.io/name={NAMESPACE} --tail=200 has the reason; {_UPKEEP}",
            )
    unused = [each for each in facts.templates if is_ours(each) and _marked_since(each) is not None]
    left = [each for each in unused if (since := _marked_since(each)) and facts.now - since > _SWEPT]
    if left:
        yield Topic.TEMPLATES.warning(
            f"{format_count(len(left), 'template')} that no pod needs {inflect('is', len(left))} not deleted: "
            f"{format_list([f'{namespace_of(each)}/{name_of(each)}' for each in left], _MOST)}",
            why="the leader deletes them after an hour",
            remedy=_UPKEEP,
        )
    elif good:
        what = f"{format_count(len(facts.templates), 'template')}, of which no pod needs {len(unused):,}"
        yield Topic.TEMPLATES.ok(what if facts.templates else "no templates")


def _waits(pod: Object, stored: set[tuple[str, str]], now: datetime) -> bool:
    names = {name for name in references(pod) if is_our_name(name)}
    return (
        not has_ended(pod)
        and not lookup(pod, ("spec", "nodeName"))
        and lookup(pod, ("metadata", "deletionTimestamp")) is None
        and not _is_new(lookup(pod, ("metadata", "creationTimestamp")), now)
        and any((namespace_of(pod), name) not in stored for name in names)
    )


def _marked_since(template: Object) -> datetime | None:
    return _moment(lookup(template, ("metadata", "annotations", UNUSED_SINCE)))


def _is_new(text: Any, now: datetime) -> bool:
    moment = _moment(text)
    return moment is not None and now - moment < _SETTLED


def _moment(text: Any) -> datetime | None:
    """A time with a zone; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_WHERE = f"Deployment {NAMESPACE} in namespace {NAMESPACE}"
_RECENT = timedelta(days=1)
_PRESENT = timedelta(seconds=30)
"""A replica renews its Lease every ten seconds, and is gone after so long without a renewal."""
_LONGEST = 160
_KUBECTL = f"kubectl -n {NAMESPACE}"


def replica_checks(facts: InstallationFacts, url: str) -> Iterator[Check]:
    """Checks that enough replicas run, of one image, without restarts, on several nodes.

    Args:
        facts: What was read.
        url: Where API servers call webhooks, if not through the Service.
    """
    if isinstance(facts.deployment, Unread):
        yield unread_check(Topic.REPLICAS, "it is unknown how many replicas run", facts.deployment)
    elif url and not facts.pods:
        yield _outside(facts, url)
    elif facts.deployment is None:
        yield _NOT_INSTALLED
    else:
        yield from _rollout(facts.deployment, facts)
    if isinstance(facts.pods, Unread):
        yield unread_check(Topic.REPLICAS, "pods of replicas are unknown", facts.pods)
        return
    pods = [pod for pod in facts.pods if not has_ended(pod)]
    for pod in pods:
        for container in mappings_at(pod, ("status", "containerStatuses")):
            count, last = container.get("restartCount", 0), mapping_at(container, ("lastState", "terminated"))
            if count and _is_recent(last.get("finishedAt"), facts.now):
                reason, code = last.get("reason"), last.get("exitCode")
                yield Topic.REPLICAS.warning(
                    f"replica {name_of(pod)} was restarted {format_count(count, 'time')}, the last time less than a day ago",
                    where=f"container {container.get('name')}",
                    why=f"{reason}, exit code {code}" if reason else "the reason is unknown",
                    remedy=f"{_KUBECTL} logs {name_of(pod)} --previous",
                )
    images = sorted({str(each.get("image")) for pod in pods for each in mappings_at(pod, ("spec", "containers"))[:1]})
    if len(images) > 1:
        yield Topic.REPLICAS.warning(
            f"replicas run {len(images)} images: {format_list(images)}",
            why="a rollout is under way, or cannot finish",
            remedy=f"{_KUBECTL} rollout status deployment {NAMESPACE}",
        )
    elif images:
        yield Topic.REPLICAS.ok(f"all replicas run image {images[0]}")
    yield from _spread([pod for pod in pods if is_ready_pod(pod)], facts.nodes)


def is_ready_pod(pod: Object) -> bool:
    """True if the kubelet says that a pod is ready."""
    return any(
        (each.get("type"), each.get("status")) == ("Ready", "True")
        for each in mappings_at(pod, ("status", "conditions"))
    )


_NOT_INSTALLED = Topic.REPLICAS.failure(
    "gpu-admission is not installed, or not in its namespace",
    where=_WHERE,
    why="it does not exist",
    remedy="install gpu-admission as in docs/install.md; if webhooks are left of an installation, "
    "`gpu-admission delete-webhooks` removes them",
)


def _outside(facts: InstallationFacts, url: str) -> Check:
    """Replicas outside of the cluster, of which only their Leases are seen."""
    if isinstance(facts.replica_leases, Unread):
        return unread_check(Topic.REPLICAS, "it is unknown whether replicas run", facts.replica_leases)
    holders = sorted(holder for each in facts.replica_leases if (holder := _live_holder(each, facts.now)))
    if holders:
        return Topic.REPLICAS.ok(
            f"{format_count(len(holders), 'replica')} {inflect('runs', len(holders))} outside of the cluster: {format_list(holders)}"
        )
    return Topic.REPLICAS.failure(
        "no replica runs",
        where=f"Leases in namespace {NAMESPACE} with the label gpu-admission.io/lease=replica",
        why=f"API servers call {url}, which is outside of the cluster, and no replica has renewed its Lease for "
        f"{_PRESENT.total_seconds():.0f} seconds",
        remedy=f"gpu-admission serve --url {url}",
    )


def _live_holder(lease: Object, now: datetime) -> str:
    """The replica that renewed its Lease lately; empty without one."""
    holder, renewed = (lookup(lease, ("spec", field)) for field in ("holderIdentity", "renewTime"))
    if not (isinstance(holder, str) and isinstance(renewed, str)):
        return ""
    try:
        age = now - datetime.fromisoformat(renewed)
    except (ValueError, TypeError):
        return ""
    return holder if age <= _PRESENT else ""


def _rollout(deployment: Object, facts: InstallationFacts) -> Iterator[Check]:
    wanted, status = lookup(deployment, ("spec", "replicas")), mapping_at(deployment, ("status",))
    wanted = wanted if isinstance(wanted, int) else 1
    available, updated = (status.get(key, 0) for key in ("availableReplicas", "updatedReplicas"))
    what = f"{available} of {format_count(wanted, 'replica')} {inflect('is', wanted)} available"
    if wanted == 0:
        yield Topic.REPLICAS.failure(
            "the Deployment is scaled to 0 replicas",
            where=_WHERE,
            why="no webhook call is answered",
            remedy=f"{_KUBECTL} scale deployment {NAMESPACE} --replicas=2",
        )
        return
    if available < wanted:
        troubles = (
            [] if isinstance(facts.pods, Unread) else [_trouble(pod) for pod in facts.pods if not is_ready_pod(pod)]
        )
        remedy = f"{_KUBECTL} describe pods -l app.kubernetes.io/name={NAMESPACE}"
        yield Topic.REPLICAS.check(
            Status.WARNING if available else Status.FAILING,
            what,
            where=_WHERE,
            why=format_list(troubles) if troubles else "",
            remedy=remedy if available else f"{remedy}; if pods must start now, docs/break-glass.md",
        )
    elif updated < wanted:
        yield Topic.REPLICAS.warning(
            f"a rollout is not complete: {updated} of {format_count(wanted, 'replica')} {inflect('is', wanted)} of the "
            "newest template",
            where=_WHERE,
            remedy=f"{_KUBECTL} rollout status deployment {NAMESPACE}",
        )
    elif wanted == 1:
        yield Topic.REPLICAS.warning(
            "only 1 replica runs",
            where=_WHERE,
            why="calls fail while it is replaced or its node is drained",
            remedy=f"{_KUBECTL} scale deployment {NAMESPACE} --replicas=2",
        )
    else:
        yield Topic.REPLICAS.ok(what)


def _trouble(pod: Object) -> str:
    """The reason why a pod is not ready: the state of its container, or the condition that is not met."""
    for container in mappings_at(pod, ("status", "containerStatuses")):
        if reason := lookup(container, ("state", "waiting", "reason")):
            message = lookup(container, ("state", "waiting", "message"))
            return shorten(f"{name_of(pod)}: {reason}" + (f", {message}" if message else ""), _LONGEST)
    for condition in mappings_at(pod, ("status", "conditions")):
        if condition.get("status") == "False" and condition.get("type") in ("PodScheduled", "Ready"):
            text = condition.get("message") or condition.get("reason") or f"not {condition['type']}"
            return shorten(f"{name_of(pod)}: {text}", _LONGEST)
    return f"{name_of(pod)}: not ready"


def _is_recent(text: object, now: datetime) -> bool:
    """True if a time is less than a day ago, or unknown."""
    try:
        return not isinstance(text, str) or now - datetime.fromisoformat(text) < _RECENT
    except (ValueError, TypeError):
        return True


def _spread(pods: Sequence[Object], nodes: int | Unread) -> Iterator[Check]:
    used = sorted({str(lookup(pod, ("spec", "nodeName"))) for pod in pods})
    if len(used) > 1:
        yield Topic.REPLICAS.ok(f"replicas run on nodes {format_list(used)}")
    elif len(pods) < 2:
        return
    elif isinstance(nodes, Unread):
        yield unread_check(
            Topic.REPLICAS, f"all replicas run on node {used[0]}; it is unknown whether others exist", nodes
        )
    elif nodes > 1:
        yield Topic.REPLICAS.warning(
            f"all replicas run on node {used[0]}",
            why="calls fail if this node does",
            remedy=f"{_KUBECTL} rollout restart deployment {NAMESPACE}",
        )
    else:
        yield Topic.REPLICAS.ok(f"all replicas run on node {used[0]}; no other is ready for them")


def version_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that the replicas are of the version of this command, whose manifests doctor compares."""
    found = {each.metrics.version for each in facts.replicas.values() if not isinstance(each.metrics, Unread)} - {""}
    if len(found) > 1:
        yield Topic.VERSION.warning(
            f"replicas are of {len(found)} versions: {format_list(sorted(found))}",
            why="an upgrade is under way, or cannot finish",
            remedy=f"{_KUBECTL} rollout status deployment {NAMESPACE}",
        )
    elif found and found != {facts.version}:
        yield Topic.VERSION.warning(
            f"replicas are of version {min(found)}, and this command is of {facts.version}",
            why="doctor compares the installation with its own version",
            remedy=f"use the command of version {min(found)}, or upgrade as in docs/upgrade.md",
        )
    elif found:
        yield Topic.VERSION.ok(f"replicas and this command are of version {facts.version}")


_PAGE = "docs/troubleshooting.md"
_LONGEST_NOTE = 240
_NOT_SERVED = "not served: "
"""The beginnings of notes about kinds that are not installed in the cluster, which is no problem of gpu-admission."""
_LEADS, _NO_LEADER = " leads", "no replica leads"
"""The ends of a note about nothing but the leader, which another check shows, and of one that is a problem."""
_SECONDS = re.compile(r"\bfor \d+ s\b")
"""The parts that differ between the same notes of two replicas."""
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
"""The remedy for a reason or note that begins so; others are explained in the page."""
_RESTART = "has ended because of a defect"


def readiness_checks(facts: InstallationFacts, is_known: Callable[[str], bool]) -> Iterator[Check]:
    """Checks that the replicas are ready, and their notes.

    Args:
        facts: What was read.
        is_known: True for a note that another check reports.
    """
    answers = {name: each.readiness for name, each in facts.replicas.items()}
    yield from _unread(facts)
    read = {name: answer for name, answer in answers.items() if not isinstance(answer, Unread)}
    for name, answer in read.items():
        if not answer.is_ready:
            yield Topic.READINESS.failure(
                f"replica {name} is not ready",
                where="its /readyz",
                why=format_list(answer.reasons),
                remedy=_remedy(answer.reasons[0] if answer.reasons else ""),
            )
    if read and all(answer.is_ready for answer in read.values()):
        yield Topic.READINESS.ok(f"ready: {format_list(sorted(read))}")
    notes: dict[str, list[tuple[str, str]]] = {}
    for name, answer in read.items():
        for note in answer.notes:
            if not is_known(note) and (note == _NO_LEADER or not note.endswith(_LEADS)):
                notes.setdefault(_SECONDS.sub("", note), []).append((name, note))
    absent = [note.removeprefix(_NOT_SERVED).partition("; ")[0] for note in notes if note.startswith(_NOT_SERVED)]
    if absent:
        what = f"not installed in this cluster, which is no error: {', '.join(absent)}"
        yield Topic.READINESS.ok(what)
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
        yield Topic.READINESS.check(
            Status.WARNING if name in ready else Status.FAILING,
            f"replica {name} does not answer",
            where="its /readyz, through the API server",
            why=shorten(each.readiness.error, _LONGEST_NOTE)
            + ("; its kubelet reaches it, so something is between the API server and the pod" if name in ready else ""),
            remedy=f"{_PAGE}#calls-do-not-arrive" if name in ready else f"kubectl -n {NAMESPACE} logs {name} --tail=50",
        )
    for unread, names in denied.items():
        what = f"readiness of {format_count(len(names), 'replica')} is unknown: {format_list(names)}"
        yield unread_check(Topic.READINESS, what, unread)


def _note_check(note: str, names: list[str]) -> Check:
    return Topic.READINESS.warning(
        shorten(note, _LONGEST_NOTE),
        where=f"/readyz of {format_list(names)}",
        remedy=f"kubectl -n {NAMESPACE} delete pod {names[0]}" if _RESTART in note else _remedy(note),
    )


def _remedy(text: str) -> str:
    return next((remedy for start, remedy in _REMEDIES.items() if text.startswith(start)), f"{_PAGE}#not-ready")
