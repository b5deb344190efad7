"""Differences: what an update of a converted pod asks for, and the pod was not created with."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from policies.conversion.amounts import limit_path, read_amounts
from policies.conversion.constraints import NodeConstraints
from policies.decision import Severity
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import shown
from policies.metadata_keys import PREFIX
from policies.nvidia.wishes import WORDS, Wish, WishError
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.conversion.asked import Asked
    from policies.decision import Finding
    from policies.kubernetes.pods import Pod

__all__ = ["differences"]

_MOST = 10
"""Differences that are told of a pod."""
_ANNOTATIONS = FieldPath(["metadata", "annotations"])
_SELECTOR = SPEC / "nodeSelector"
_AFFINITY = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
_REFUSED = "and the GPUs of a pod cannot change"


def differences(pod: Pod, stored: Pod, asked: Asked) -> Iterator[Finding]:
    """What a pod asks for otherwise than its record says; at most ten findings."""
    return islice(_differences(pod, stored, asked), _MOST)


def _differences(pod: Pod, stored: Pod, asked: Asked) -> Iterator[Finding]:
    yield from _of_amounts(pod, asked)
    yield from _of_selectors(pod, stored, asked)
    yield from _of_wishes(pod, stored, asked)


IMMUTABLE = rule(
    "GA328",
    "The GPUs of a pod must not change after it was created",
    default=Severity.WARN,
    why="""
    Kubernetes lets nobody change the GPUs of a pod after its creation. Applying the manifest of a converted pod again
    asks for nothing new, and succeeds: the pod stays as it was converted. An update that asks for anything else is left
    as it is, so that the API server refuses it; restoring it too would say "configured" and change nothing.""",
    remedy="delete the pod and create it again",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidatePodUpdate",
)


def _of_amounts(pod: Pod, asked: Asked) -> Iterator[Finding]:
    amounts = read_amounts(pod)
    for found in amounts.findings:
        yield IMMUTABLE.finding(found.path, f"{found.message}, {_REFUSED}")
    if amounts.findings:
        return
    recorded = {(ask.name, ask.kind): ask.resources for ask in asked.containers}
    for container in pod.all_containers:
        before = recorded.pop((container.name, container.kind), {})
        now = amounts.of.get(container.name, {})
        for resource in sorted({*now, *before}):
            if now.get(resource, 0) != before.get(resource, 0):
                path = limit_path(container, resource) if resource in now else container.path / "resources" / "limits"
                yield IMMUTABLE.finding(path, _of_amount(resource, now, before))
    for (name, _), resources in recorded.items():
        if any(resources.values()):
            yield IMMUTABLE.finding(SPEC / "containers", f'lack container "{name}", which has GPUs, {_REFUSED}')


def _of_amount(resource: str, now: Mapping[str, int], before: Mapping[str, int]) -> str:
    is_now = f"is {now[resource]}" if resource in now else f"lacks {resource}"
    was = f"the pod was created with {before.get(resource) or 'none'}"
    return f"{is_now} and {was}, {_REFUSED}"


def _of_selectors(pod: Pod, stored: Pod, asked: Asked) -> Iterator[Finding]:
    """Conditions on GPU labels that are neither those of the record nor such as were added to the pod since."""
    now, there, before = NodeConstraints.of(pod.spec), NodeConstraints.of(stored.spec), asked.constraints
    expected = {**there.node_selector, **before.node_selector}
    for key in sorted({*now.node_selector, *expected}):
        if now.node_selector.get(key) != expected.get(key):
            is_now = f"is {shown(now.node_selector[key])}" if key in now.node_selector else "is missing"
            was = shown(expected[key]) if key in expected else "none"
            text = f"{is_now} and the pod was created with {was}, {_REFUSED}"
            yield IMMUTABLE.finding(_SELECTOR / key, text)
    if now.terms != (there.terms if before.terms is None else before.terms):
        text = f"selects GPUs otherwise than the pod did when it was created, {_REFUSED}"
        yield IMMUTABLE.finding(_AFFINITY, text)


def _of_wishes(pod: Pod, stored: Pod, asked: Asked) -> Iterator[Finding]:
    """Wishes of the pod itself that are not those of the record; a default that has changed since is none of them."""
    recorded = asked.wish.words()
    for word in WORDS:
        name = PREFIX + word
        path, now, before = _ANNOTATIONS / name, pod.annotations.get(name), stored.annotations.get(name)
        was = shown(recorded[word]) if word in recorded else "no such wish"
        if now is None:
            if before is not None and word in recorded:
                yield IMMUTABLE.finding(path, f"is missing and the pod was created with {was}, {_REFUSED}")
        elif (wished := _normal(word, now)) != recorded.get(word) and (wished is not None or now != before):
            yield IMMUTABLE.finding(path, f"is {shown(now)} and the pod was created with {was}, {_REFUSED}")


def _normal(word: str, text: str) -> str | None:
    """A wish as records write it; None where it says nothing."""
    try:
        return Wish.of({word: text}).words().get(word)
    except WishError:
        return None
