"""Checks of placement settings: default wishes, and taints to tolerate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import is_label_key, is_label_value
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import quote
from policies.kubernetes.taints import NodeTaint, node_taint
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.wishes import Wish, WishError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.settings.choices import WishDefault

__all__ = ["joint_problems", "taint_problems", "wish_problems"]


def wish_problems(default: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong with the `wish` of one default; wrong types are reported elsewhere."""
    wish = lookup(default, ("wish",))
    if wish == {}:
        yield ("wish",), "is empty; write what is wished, such as product: H100*, or take the entry away"
    texts = {str(word): text for word, text in wish.items() if isinstance(text, str)} if isinstance(wish, dict) else {}
    if not texts:
        return
    readable = {}
    for word, text in texts.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            yield ("wish", word), f"{error}; {error.remedy}"
        else:
            readable[word] = text
    for words, contradiction in Wish.of(readable).contradictions():
        yield ("wish",), f"can never be met: {contradiction}; change or take away {' or '.join(words)}"


def joint_problems(defaults: Sequence[WishDefault]) -> Iterator[tuple[int, str]]:
    """The defaults that contradict others wherever they hold, so that no pod there gets a GPU.

    Patterns are compared as they are written: one default holds wherever another does if it has the same patterns, or
    `*`. Where others meet is known with the namespace, and pods there are refused with the reason.
    """
    if not defaults:
        return
    told: set[tuple[str, frozenset[int]]] = set()
    for index, default in enumerate(defaults):
        sources = {
            word: number
            for number, other in enumerate(defaults)
            if "*" in other.namespaces or set(default.namespaces) <= set(other.namespaces)
            for word in other.wish
        }
        together = Wish.of({word: defaults[number].wish[word] for word, number in sources.items()})
        for words, contradiction in together.contradictions():
            involved = frozenset(sources[word] for word in words)
            if (contradiction, involved) not in told:
                told.add((contradiction, involved))
                others = " and ".join(f"wishes[{number}]" for number in sorted(involved - {index}))
                yield index, f"can never be met together with {others}: {contradiction}; change one of them"


_NO_SCHEDULE = "NoSchedule"
_KUBECTL = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^=:]*))?(?::(?P<effect>[A-Za-z]+))?")
"""`key=value:effect`, as `kubectl taint` takes it."""

_VALUE = (
    "the value of a taint is at most 63 letters, digits, dashes, dots and underscores, with a letter or digit at both "
    "ends"
)
_EVERYBODYS = (
    "which every GPU pod tolerates, whatever its value and in every namespace; to reserve nodes, taint them with "
    "another key"
)
_NOT_RUNNING = "pods that tolerate it would be sent where they cannot run"
_NOT_TOLERATED = {
    NodeTaint.CONDITION: (
        "which Kubernetes sets on nodes that are not ready, cordoned, or short of memory, disk or processes; "
        f"{_NOT_RUNNING}, so leave it out and have the nodes repaired"
    ),
    NodeTaint.CLOUD: (
        "which is on nodes that their cloud has not set up yet or has shut down; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
    NodeTaint.ROLE: (
        "which sets nodes apart for a role, such as the control plane, and not for GPUs; "
        f"taint GPU nodes with {GPU_RESOURCE} or a key of your own, and leave this one out"
    ),
    NodeTaint.AUTOSCALED: (
        f"with which an autoscaler marks nodes that it is about to start or to remove; {_NOT_RUNNING}, so leave it out"
    ),
    NodeTaint.STARTING: (
        "which is on nodes that are not set up yet, and tells the cluster autoscaler so; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
    NodeTaint.PAUSED: (
        "which is on nodes that take no pods for a while, and tells the cluster autoscaler so; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
    NodeTaint.NETWORK: (
        "which is on nodes where Cilium has not set up the network yet; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
}


def taint_problems(taint: Any) -> Iterator[tuple[tuple[str], str]]:
    """What is wrong with one taint, by field; wrong types and effects are reported elsewhere."""
    key, value = lookup(taint, ("key",)), lookup(taint, ("value",))
    if isinstance(key, str) and (said := _key_problem(key)):
        yield ("key",), said
    if isinstance(value, str) and not is_label_value(value):
        yield ("value",), f"is {quote(value)}; {_VALUE}"
    if key == GPU_RESOURCE and taint.get("effect", _NO_SCHEDULE) == _NO_SCHEDULE and _narrows(taint):
        yield ("key",), f"is {quote(GPU_RESOURCE)}, {_EVERYBODYS}"


def _key_problem(key: str) -> str:
    if not key:
        return "is empty, which would stand for every taint; write the key of one"
    if is_label_key(key):
        kind = node_taint(key)
        return "" if kind is None else f"is {quote(key)}, {_NOT_TOLERATED[kind]}"
    parts = _KUBECTL.fullmatch(key)
    if parts and is_label_key(parts["key"]):
        written = ", ".join(f"{name}: {text}" for name, text in parts.groupdict().items() if text)
        return f"is {quote(key)}, as kubectl spells a taint; write {written}"
    return f"is {quote(key)}; the key of a taint is a name such as {GPU_RESOURCE} or dedicated"


def _narrows(taint: dict[str, Any]) -> bool:
    return bool(taint.get("value")) or taint.get("namespaces", ["*"]) != ["*"]
