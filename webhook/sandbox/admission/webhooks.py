"""Built-in admission plug-ins that change pods, before each round of mutating webhooks.

LimitRanger, ServiceAccount, Priority and DefaultTolerationSeconds, without parts that need a token, a node or a quota.
Source: k8s.io/kubernetes plugin/pkg/admission/{limitranger,serviceaccount,priority,defaulttolerationseconds}.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.objects import lookup
from policies.kubernetes.pod_templates import with_limit_ranges
from webhook.sandbox import statuses
from webhook.sandbox.admission.calls import Caller, CallFailed
from webhook.sandbox.admission.matching import Variables, hooks, is_exempt
from webhook.sandbox.admission.reviewer import Note, Reviewer, failed_call
from webhook.sandbox.admission.reviews import BadPatchText
from webhook.sandbox.defaults import with_defaults
from webhook.sandbox.patches import BadPatch, PatchFailed, apply_json_patch
from webhook.sandbox.statuses import Refused, forbidden
from webhook.sandbox.validation import check_configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.admission.calls import Resolver
    from webhook.sandbox.admission.matching import Hook
    from webhook.sandbox.admission.reviews import Answer
    from webhook.sandbox.statuses import Attempt, Objects


_ANNOTATION = "kubernetes.io/limit-ranger"
_EVICTED_FROM = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS_TO_STAY = 300


def with_plugins(attempt: Attempt, objects: Objects) -> Object | None:
    """The object of a write after the plug-ins; for updates of pods, only with new tolerations.

    Raises:
        Refused: The PriorityClass of a pod does not exist.
    """
    pod = attempt.object
    is_pod = (attempt.resource.kind, attempt.subresource) == ("Pod", "") and attempt.operation in ("CREATE", "UPDATE")
    if pod is None or not is_pod or not isinstance(pod.get("spec"), dict):
        return pod
    if attempt.operation == "UPDATE":
        return {**pod, "spec": {**pod["spec"], "tolerations": _tolerations(pod["spec"].get("tolerations") or [])}}
    pod = _with_limits(pod, objects.objects("LimitRange", attempt.namespace))
    priority = _priority(attempt, pod["spec"], objects)
    spec = {
        "serviceAccountName": "default",
        "preemptionPolicy": "PreemptLowerPriority",
        **pod["spec"],
        "priority": priority,
    }
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    return {**pod, "spec": spec}


_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _priority(attempt: Attempt, spec: Object, objects: Objects) -> int:
    """The priority of a pod's class."""
    name = spec.get("priorityClassName")
    if not name:
        return 0
    found = objects.get("PriorityClass", name)
    if found is None and name not in _SYSTEM_PRIORITIES:
        raise forbidden(attempt.resource, attempt.name, f"no PriorityClass with name {name} was found")
    return int(found.get("value") or 0) if found is not None else _SYSTEM_PRIORITIES[name]


def _tolerations(given: list[Any]) -> list[Any]:
    """The tolerations of a pod, and the two defaults that keep it on an unreachable node for a while."""
    keys = {each.get("key") or "" for each in given if each.get("effect") in (None, "", "NoExecute")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS_TO_STAY}
        for key in _EVICTED_FROM
        if not keys & {"", key}
    ]
    return [*given, *added]


def _with_limits(pod: Object, limit_ranges: Iterable[Object]) -> Object:
    """The pod with the defaults of the namespace's LimitRanges, and the annotation that lists them."""
    filled, notes = with_limit_ranges(pod, limit_ranges)
    if not notes:
        return pod
    annotations = lookup(pod, ("metadata", "annotations")) or {}
    annotations = {**annotations, _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return {**filled, "metadata": {**pod.get("metadata", {}), "annotations": annotations}}


@dataclass(eq=False)
class Mutation:
    """The mutating webhooks of one write, over both rounds."""

    reviewer: Reviewer
    warn: Callable[[str], None]
    _reinvocable: set[int] = field(default_factory=set, init=False)
    """Called webhooks that must be called again if the object changes after them."""
    _due_again: set[int] = field(default_factory=set, init=False)
    _output: Object | None = field(default=None, init=False)
    changed: bool = field(default=False, init=False)
    """True if any webhook changed the object, which requires a second round."""

    async def round(self, attempt: Attempt, number: int) -> Attempt:
        """Call all matching webhooks in round 0, and in round 1 those that must be called again.

        Raises:
            Refused: A webhook refuses, or a necessary call fails.
        """
        if number and attempt.object != self._output:
            self._require_reinvocation()
        variables = Variables(attempt)
        for hook in hooks(self.reviewer.objects, "MutatingWebhookConfiguration"):
            if not self.reviewer.concerns(hook, attempt, variables, "admit"):
                continue
            if number and hook.index not in self._due_again:
                continue
            mutated = await self._ask(hook, attempt, number)
            if mutated is not attempt:
                attempt, variables = mutated, Variables(mutated)
        self._output = attempt.object
        return attempt

    def _require_reinvocation(self) -> None:
        self._due_again |= self._reinvocable
        self._reinvocable.clear()

    async def _ask(self, hook: Hook, attempt: Attempt, number: int) -> Attempt:
        place = f"round_{number}_index_{hook.index}"
        about = {"configuration": hook.configuration, "webhook": hook.name}
        changed = False
        mutated = attempt
        try:
            with self.reviewer.counts.count_call(hook, attempt, "admit"):
                answer = await self.reviewer.ask(hook, attempt, self.warn, mutating=True)
                if operations := _operations(answer):
                    mutated = _apply_patch(hook, attempt, operations)
                    changed = mutated.object != attempt.object
                    patch = orjson.dumps({**about, "patch": operations, "patchType": answer.patch_type}).decode()
                    self.reviewer.note(attempt, f"patch.webhook.admission.k8s.io/{place}", patch)
        except CallFailed as error:
            if not hook.ignores_failures:
                raise failed_call(hook, error) from None
            self.reviewer.note(attempt, f"failed-open.mutation.webhook.admission.k8s.io/{place}", hook.name)
        finally:
            mutation = orjson.dumps({**about, "mutated": changed}).decode()
            self.reviewer.note(attempt, f"mutation.webhook.admission.k8s.io/{place}", mutation)
        if changed:
            self._require_reinvocation()
            self.changed = True
        if hook.reinvocable:
            self._reinvocable.add(hook.index)
        if mutated is attempt or mutated.object is None:
            return mutated
        return replace(mutated, object=with_defaults(mutated.resource, mutated.object))


def _operations(answer: Answer) -> list[Any]:
    try:
        operations = answer.operations()
    except BadPatchText as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from None
    if operations and answer.patch_type != "JSONPatch":
        raise CallFailed(f'unsupported patch type "{answer.patch_type}"')
    return operations


def _apply_patch(hook: Hook, attempt: Attempt, operations: list[Any]) -> Attempt:
    """The write with a webhook's patch; a patch that does not apply refuses it under any failurePolicy."""
    if attempt.object is None:
        why = (
            f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this operation'
        )
        raise statuses.internal_error(why)
    try:
        patched = apply_json_patch(attempt.object, operations)
    except (BadPatch, PatchFailed) as error:
        raise statuses.internal_error(str(error)) from None
    if not isinstance(patched, dict):
        raise statuses.internal_error("couldn't get version/kind; json parse error: the patch leaves no JSON object")
    for name in ("kind", "apiVersion"):
        if not patched.get(name):
            missing = "Kind" if name == "kind" else name
            raise statuses.internal_error(f"Object '{missing}' is missing in '{orjson.dumps(patched).decode()}'")
    return replace(attempt, object=patched)


class Webhooks:
    """An `Admission` that calls the webhooks whose configurations are stored."""

    def __init__(
        self,
        objects: Objects,
        resolve: Resolver = lambda _namespace, _name, _port: None,
        note: Note = lambda _attempt, _key, _value: None,
    ) -> None:
        """Prepare.

        Args:
            objects: The webhook configurations, the namespaces, and the objects that the plug-ins read.
            resolve: Finds the address of a Service; without it, only webhooks with a URL can be called.
            note: Takes the audit annotations.
        """
        self._objects = objects
        self._caller = Caller(resolve)
        self._reviewer = Reviewer(objects, self._caller, note)

    async def mutate(self, attempt: Attempt, warn: Callable[[str], None]) -> Object | None:
        """The object after plug-ins and mutating webhooks, with defaults.

        Raises:
            Refused: The write is refused.
        """
        if is_exempt(attempt):
            return attempt.object
        mutation = Mutation(self._reviewer, warn)
        for number in range(2):
            with_changes = replace(attempt, object=with_plugins(attempt, self._objects))
            attempt = await mutation.round(with_changes, number)
            if not mutation.changed:
                break
        return attempt.object

    async def validate(self, attempt: Attempt, warn: Callable[[str], None]) -> None:
        """Call all validating webhooks at once for the object that will be stored.

        Raises:
            Refused: A webhook refuses, or a necessary call fails; the first refusal in list order.
        """
        if is_exempt(attempt):
            check_configuration(attempt)
            return
        variables, reviewer = Variables(attempt), self._reviewer
        concerned = [
            hook
            for hook in hooks(self._objects, "ValidatingWebhookConfiguration")
            if reviewer.concerns(hook, attempt, variables, "validating")
        ]
        warnings: list[list[str]] = [[] for _ in concerned]
        # The API server reports the refusal that arrives first; a fixed order suits tests.
        # Source: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go.
        calls = (_ask(reviewer, place, hook, attempt, warnings[place].append) for place, hook in enumerate(concerned))
        refusals = await asyncio.gather(*calls)
        for warning in (text for texts in warnings for text in texts):
            warn(warning)
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    @property
    def metrics(self) -> str:
        """The counts of calls, in the text format of Prometheus."""
        return self._reviewer.counts.text()

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()


async def _ask(
    reviewer: Reviewer, place: int, hook: Hook, attempt: Attempt, warn: Callable[[str], None]
) -> Refused | None:
    try:
        with reviewer.counts.count_call(hook, attempt, "validating"):
            await reviewer.ask(hook, attempt, warn, mutating=False)
    except Refused as refusal:
        return refusal
    except CallFailed as error:
        if not hook.ignores_failures:
            return failed_call(hook, error)
        key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{place}"
        reviewer.note(attempt, key, hook.name)
    return None
