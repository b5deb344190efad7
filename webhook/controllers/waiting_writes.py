"""Writes conditions and events of pods that wait for GPUs, a bounded number per second."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from policies.analyses.waiting import NOTHING_WRITTEN, ConditionStep, EventStep, WrittenEvent, WrittenToPod
from policies.kubernetes.names import SCHEDULABLE
from webhook.cluster.client import STRATEGIC_PATCH
from webhook.cluster.clockwork import Clockwork, micro_time, rfc3339
from webhook.cluster.errors import APIError
from webhook.cluster.resources import NEW_EVENT, RESOURCES
from webhook.server.template_keeper import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable
    from datetime import datetime

    from policies.analyses.waiting import WaitingResult
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.controllers.metrics import WaitingMetrics

__all__ = ["MISSING_RIGHTS", "PodId", "PodWrite", "RightsError", "WaitingWriter"]

MISSING_RIGHTS = (
    "the reasons why pods wait for GPUs cannot be written to them: the ServiceAccount may not {0}; apply the component "
    "deploy/components/explain-on-pods, or set explainOnPods.enabled of the Helm chart"
)
"""A note and a log line; {0} is the missing right, `patch pods/status`."""

_REFUSED_BY_RBAC = re.compile(r'\S+( "[^"]*")? is forbidden: User "[^"]*" cannot ')
_POD = RESOURCES["Pod"]
_WRITES_PER_SECOND = 25.0
_REASON, _ACTION, _CONTROLLER = "GPUWaiting", "Explain", "gpu-admission.io"
_REST_SECONDS = 60.0
"""After a failed write to a pod: a webhook or a policy of its namespace may refuse all of them."""
_LONGEST_POD_NAME = 230
"""Characters of a pod's name in the name of an event, which has at most 253."""


class RightsError(Exception):
    """RBAC does not allow a write; the text is `MISSING_RIGHTS`."""


@dataclass(frozen=True, slots=True)
class PodId:
    """A pod, also one that no longer exists."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodWrite:
    """What is due for one pod."""

    pod: PodId
    condition: ConditionStep | None
    event: EventStep | None = None
    result: WaitingResult | None = None
    """With SET, CREATE and RENEW."""
    is_new: bool = False
    """True if the pod does not have the condition yet."""
    last: float = 0.0
    """Seconds of the last condition that was set; 0 before the first."""


@dataclass(slots=True)
class WaitingWriter:
    """Writes, and remembers what was written to which pod."""

    client: APIClient
    metrics: WaitingMetrics
    identity: str
    """The name of this replica, in events."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    _written: dict[str, tuple[PodId, WrittenToPod]] = field(default_factory=dict, init=False)
    _failed: dict[str, float] = field(default_factory=dict, init=False)
    """Seconds of the last failed write to a pod, by its uid."""

    def written_to(self, uid: str) -> WrittenToPod:
        """What was written to a pod."""
        return self._written[uid][1] if uid in self._written else NOTHING_WRITTEN

    def rests(self, pod: PodId) -> bool:
        """True if a write to the pod has failed a moment ago."""
        failed = self._failed.get(pod.uid)
        return failed is not None and self.clockwork.clock() - failed < _REST_SECONDS

    def note_known(self, pod: PodId) -> None:
        """Record that another leader wrote the condition and an event."""
        self._written[pod.uid] = (pod, WrittenToPod(has_condition=True, known_since=self.clockwork.clock()))

    def drop_all_except(self, uids: Iterable[str]) -> list[PodId]:
        """Forget all other pods; returns those that still had a condition."""
        kept = {*uids}
        self._failed = {uid: failed for uid, failed in self._failed.items() if uid in kept}
        gone = [uid for uid in self._written if uid not in kept]
        dropped = [self._written.pop(uid) for uid in gone]
        return [pod for pod, written in dropped if written.has_condition]

    async def write(self, due: PodWrite) -> None:
        """Write what is due for one pod; a pod that is gone is skipped, and one whose write fails rests.

        Raises:
            RightsError: RBAC does not allow it.
            ClusterError: The API server refused, or did not answer.
        """
        try:
            await self._write(due)
        except APIError:
            self._failed[due.pod.uid] = self.clockwork.clock()
            raise

    async def _write(self, due: PodWrite) -> None:
        if due.condition is ConditionStep.REMOVE:
            await self._remove(due.pod)
        elif due.result is not None:
            if due.condition is ConditionStep.SET and not await self._set(due.pod, due.result, is_new=due.is_new):
                return
            if due.event is EventStep.CREATE:
                await self._create_event(due.pod, due.result)
            elif due.event is EventStep.RENEW:
                await self._renew_event(due.pod, due.result)

    async def _set(self, pod: PodId, result: WaitingResult, *, is_new: bool) -> bool:
        condition = {"type": SCHEDULABLE, "status": "False", "reason": result.reason, "message": result.message}
        since = {"lastTransitionTime": rfc3339(self.clockwork.now())} if is_new else {}
        call = self._patch_condition(pod, {**condition, **since})
        is_set = await self._send(call, "condition_set", "patch pods/status")
        self._note(pod, set_at=self.clockwork.clock(), has_condition=is_set)
        return is_set

    async def _remove(self, pod: PodId) -> None:
        directive = {"$patch": "delete", "type": SCHEDULABLE}
        await self._send(self._patch_condition(pod, directive), "condition_removed", "patch pods/status")
        self._note(pod, has_condition=False, event=None)

    def _patch_condition(self, pod: PodId, condition: Object) -> Awaitable[Any]:
        """The uid is a precondition, so that a new pod with the same name is not changed."""
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = _POD.path(pod.namespace, pod.name, "status")
        return self.client.patch(path, body, FIELD_MANAGER, content_type=STRATEGIC_PATCH)

    async def _create_event(self, pod: PodId, result: WaitingResult) -> None:
        now = self.clockwork.now()
        event = _event(pod, result, self.identity, now)
        call = self.client.post(NEW_EVENT.path(pod.namespace), event, FIELD_MANAGER)
        await self._send(call, "event_created", "create events.events.k8s.io")
        seconds = self.clockwork.clock()
        self._note(pod, event=WrittenEvent(event["metadata"]["name"], result, seconds, seconds))

    async def _renew_event(self, pod: PodId, result: WaitingResult) -> None:
        last = self.written_to(pod.uid).event
        if last is None:
            return
        renewed = replace(last, renewed=self.clockwork.clock(), count=last.count + 1)
        series = {"count": renewed.count, "lastObservedTime": micro_time(self.clockwork.now())}
        call = self.client.patch(NEW_EVENT.path(pod.namespace, last.name), {"series": series}, FIELD_MANAGER)
        if await self._send(call, "event_renewed", "patch events.events.k8s.io"):
            self._note(pod, event=renewed)
        else:
            await self._create_event(pod, result)

    def _note(self, pod: PodId, **changes: Any) -> None:
        self._written[pod.uid] = (pod, replace(self.written_to(pod.uid), **changes))

    async def _send(self, call: Awaitable[Any], write: str, right: str) -> bool:
        """Pause and send a write; returns False if its object is gone, or admission refuses it."""
        await self.clockwork.sleep(1 / _WRITES_PER_SECOND)
        try:
            await call
        except APIError as error:
            self.metrics.count_write("failed")
            if _is_missing_right(error):
                raise RightsError(MISSING_RIGHTS.format(right)) from error
            if not (error.is_not_found or error.is_conflict or error.is_forbidden):
                raise
            return False
        self.metrics.count_write(write)
        return True


def _is_missing_right(error: APIError) -> bool:
    """True for a refusal by RBAC, and not by admission or because a namespace is being deleted.

    Webhooks and policies choose the words of their refusals, which follow other ones.
    """
    return error.is_forbidden and _REFUSED_BY_RBAC.match(error.message) is not None


def _event(pod: PodId, result: WaitingResult, identity: str, now: datetime) -> Object:
    return {
        "apiVersion": NEW_EVENT.api_version,
        "kind": NEW_EVENT.kind,
        "metadata": {
            "name": f"{pod.name[:_LONGEST_POD_NAME].rstrip('.-')}.{round(now.timestamp() * 1e6):x}",
            "namespace": pod.namespace,
        },
        "eventTime": micro_time(now),
        "reportingController": _CONTROLLER,
        "reportingInstance": identity[:128],
        "action": _ACTION,
        "reason": _REASON,
        "regarding": {
            "apiVersion": _POD.api_version,
            "kind": _POD.kind,
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "type": "Warning",
        "note": result.message,
    }
