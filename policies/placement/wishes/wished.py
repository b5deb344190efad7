"""Wishes of a pod: its annotations under `gpu-admission.io/`, and the defaults of the settings for what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.printable import printable
from policies.nvidia.wishes import PREFIX, WORDS, Wish, WishError
from policies.placement.rules import MALFORMED, NO_EFFECT, NO_WISH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.rules import Rule
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["ANNOTATIONS", "DAEMON_SET", "Wished", "says_anything", "wish_problems", "wished"]

ANNOTATIONS = FieldPath(["metadata", "annotations"])
DAEMON_SET = "DaemonSet"

_LABELS = {
    "dra": ("is read as a label of namespaces and pods", "write it under metadata.labels"),
    "dra-strategy": ("is read as a label of namespaces", "label the namespace"),
    "quota": ("is read as a label of namespaces", "label the namespace"),
    "managed": ("is a label that gpu-admission writes", "remove the annotation"),
}
_DEFAULT = " (a default of the GPUAdmissionPolicy, which an annotation replaces)"
_MADE_FOR_ONE_NODE = (
    "a DaemonSet makes a pod for every node that its template selects, and one that wishes another would wait there for "
    "ever"
)
_IN_TEMPLATE = "write the condition into the node selector of the DaemonSet's pod template"
_OTHERS = frozenset({"converted"})
"""Annotations of pods that are no wishes: what conversion records."""


@dataclass(frozen=True, slots=True)
class Wished:
    """What a pod wishes, and how it says so."""

    wish: Wish = field(default_factory=Wish)
    texts: Mapping[str, str] = field(default_factory=dict)
    """The words that count, as they are written, in the order of WORDS."""
    defaults: frozenset[str] = frozenset()
    """Those of them that are defaults of the settings."""
    findings: tuple[Finding, ...] = ()
    """What of it could not be read."""

    @property
    def own(self) -> tuple[str, ...]:
        """The words that the pod says itself; that a default has no effect is nothing its author could change."""
        return tuple(word for word in self.texts if word not in self.defaults)

    def path(self, word: str) -> FieldPath:
        """Where a word is written, or would be if it were no default."""
        return ANNOTATIONS / (PREFIX + word)

    def said(self, word: str) -> str:
        """A word as it is written, and where if that is in the settings: `gpu-admission.io/product: H100*`."""
        return f"{PREFIX}{word}: {printable(self.texts[word])}{_DEFAULT if word in self.defaults else ''}"

    def finding(
        self, rule: Rule, word: str, message: str, remedy: str | None = None, *, severity: Severity | None = None
    ) -> Finding:
        """A finding about a word; it says so where that is a default."""
        told = message + _DEFAULT if word in self.defaults else message
        return rule.finding(self.path(word), told, remedy, severity=severity)

    def without_effect(self) -> Wished:
        """The same of a pod that gets nothing by wishing: what cannot be read does it no harm, and is only told."""
        return replace(self, findings=tuple(replace(found, severity=Severity.WARN) for found in self.findings))

    def no_effect(self, reason: str, remedy: str | None = None) -> Finding:
        """A finding about all words of a wish that nothing is done about."""
        words = self.own or tuple(self.texts)
        if len(words) == 1:
            return self.finding(NO_EFFECT, words[0], f"has no effect: {reason}", remedy)
        told = f"{', '.join(PREFIX + word for word in words[:-1])} and {PREFIX}{words[-1]}"
        return NO_EFFECT.finding(ANNOTATIONS, f"{told} have no effect: {reason}", remedy)


_NOTHING = Wished()


def wished(pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Wished:
    """Read the wishes of a pod.

    A default gives way to whatever the pod says itself: by an annotation, by what it asks for, by its node selector and
    affinity. What cannot be read is left out and told. Pods of a DaemonSet wish nothing: each was made for one node, and
    would wait there for another.
    """
    if not settings.placement.wishes and not says_anything(pod):
        return _NOTHING
    own = {word: pod.annotations[PREFIX + word] for word in WORDS if PREFIX + word in pod.annotations}
    defaults = {word: text for word, text in _defaults(namespace, settings).items() if word not in own}
    findings = []
    texts = {}
    for word, text in {**own, **defaults}.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            findings.append(MALFORMED.finding(ANNOTATIONS / (PREFIX + word), str(error), error.remedy))
        else:
            texts[word] = text
    findings += _unread(pod)
    texts = {word: texts[word] for word in WORDS if word in texts}
    if pod.controller_kind == DAEMON_SET:
        read = Wished(texts=texts, defaults=frozenset(defaults), findings=tuple(findings))
        told = (read.no_effect(_MADE_FOR_ONE_NODE, _IN_TEMPLATE),) if read.own else ()
        return Wished(findings=(*read.without_effect().findings, *told))
    if defaults:
        # Only here, because most namespaces have none.
        from policies.placement.wishes.overruled import without_overruled  # noqa: PLC0415

        texts = without_overruled(pod, view, texts, defaults)
    return Wished(Wish.of(texts), texts, frozenset(texts.keys() & defaults.keys()), tuple(findings))


def says_anything(pod: Pod) -> bool:
    """Whether a pod has any annotation under `gpu-admission.io/`, be it one that nobody reads."""
    return any(key.startswith(PREFIX) for key in pod.annotations)


def wish_problems(pod: Pod, namespace: str, view: ClusterView, wishes: Wished) -> Iterator[Finding]:
    """What is wrong with a wish however its GPUs are handed out: contradictions, and products that do not exist."""
    if wishes.wish:
        # Only here, because most pods wish nothing.
        from policies.placement.wishes.asked_gpus import asked_gpus  # noqa: PLC0415
        from policies.placement.wishes.conflicts import conflicts  # noqa: PLC0415
        from policies.placement.wishes.misspelt import misspelt  # noqa: PLC0415

        yield from conflicts(pod, asked_gpus(pod, view), view, wishes)
        yield from misspelt(view, wishes)


def _defaults(namespace: str, settings: GPUAdmissionPolicy) -> dict[str, str]:
    """The default of each word: the last one that holds in the namespace."""
    return {
        word: text
        for default in settings.placement.wishes
        if default.holds_in(namespace)
        for word, text in default.wish.items()
    }


def _unread(pod: Pod) -> Iterator[Finding]:
    """Annotations with our prefix that nobody reads."""
    for key in sorted(pod.annotations):
        name = key.removeprefix(PREFIX)
        if name == key or name in WORDS or name in _OTHERS:
            continue
        if name in _LABELS:
            said, remedy = _LABELS[name]
            yield NO_WISH.finding(ANNOTATIONS / key, f"{said}, and is an annotation here", remedy)
            continue
        guess = closest(name.replace("_", "-"), WORDS)
        remedy = f"write {PREFIX}{guess}" if guess else f"remove it, or write one of {', '.join(WORDS)}"
        yield NO_WISH.finding(ANNOTATIONS / key, "is no annotation that anybody reads", remedy)
