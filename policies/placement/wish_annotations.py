"""Wishes of a pod: its annotations under `gpu-admission.io/`, and the defaults of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.names import IGNORE, PREFIX, RECORD, closest
from policies.nvidia.pod_conditions import has_our_annotations
from policies.nvidia.product_proposals import readable_patterns
from policies.nvidia.wishes import WORDS, Wish, WishError
from policies.placement.pod_wishes import ANNOTATIONS, PodWishes, effective_wishes
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


DAEMON_SET = "DaemonSet"

_LABELS = {
    "dra": ("is read as a label of namespaces and pods", "write it under metadata.labels"),
    "dra-strategy": ("is read as a label of namespaces", "label the namespace"),
    "quota": ("is read as a label of namespaces", "label the namespace"),
    "managed": ("is a label that gpu-admission writes", "remove the annotation"),
}
_MADE_FOR_ONE_NODE = (
    "a DaemonSet makes a pod for every node that its template selects, and one that wishes another would wait there for "
    "ever"
)
_IN_TEMPLATE = "write the condition into the node selector of the DaemonSet's pod template"
_OTHERS = frozenset({RECORD, IGNORE})
"""Annotations of pods that are no wishes."""


_NOTHING = PodWishes()


@PODS.rule(
    "GA401",
    "A wish must be readable",
    remedy="correct the annotation",
    source="docs/placement.md",
)
def readable_wish(word: str, text: str) -> Iterator[Problem]:
    """A wish that cannot be read cannot be kept.

    Left out, it would let the pod run on any GPU, which is what its author wanted to avoid.
    """
    try:
        Wish.check(word, text)
    except WishError as error:
        remedy = error.remedy
        if word == "product" and (patterns := readable_patterns(text)):
            sharing = f', and {PREFIX}sharing: "shared"' if "shared" in text.lower() else ""
            remedy = f'write "{patterns}"{sharing}'
        yield Problem(ANNOTATIONS / (PREFIX + word), str(error), remedy)


def read_wishes(pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> PodWishes:
    """Read the wishes of a pod.

    A default gives way to what the pod itself specifies: by an annotation, by its request, by its node selector and
    affinity. A word that cannot be read is left out and reported. Pods of a DaemonSet have no wishes for other GPUs: each
    was made for one node, and would wait there for another.
    """
    if not settings.placement.wishes and not has_our_annotations(pod.document):
        return _NOTHING
    own = {word: pod.annotations[PREFIX + word] for word in WORDS if PREFIX + word in pod.annotations}
    defaults = {  # the last one that holds in the namespace
        word: text
        for default in settings.placement.wishes
        if default.holds_in(namespace)
        for word, text in default.wish.items()
        if word not in own
    }
    findings: list[Finding] = []
    texts = {}
    for word, text in {**own, **defaults}.items():
        if found := tuple(readable_wish(word, text)):
            findings += found
        else:
            texts[word] = text
    findings += known_annotations(pod)
    texts = {word: texts[word] for word in WORDS if word in texts}
    if pod.controller_kind == DAEMON_SET:
        nic = {"nic": texts.pop("nic")} if "nic" in texts else {}
        read = PodWishes(texts=texts, defaults=frozenset(defaults), findings=tuple(findings))
        without_effect = effective_wishes(read, _MADE_FOR_ONE_NODE, _IN_TEMPLATE) if read.own else ()
        found = (*read.without_effect().findings, *without_effect)
        return PodWishes(Wish.of(nic), nic, frozenset(nic.keys() & defaults.keys()), found)
    if defaults:
        # Most namespaces have none.
        from policies.placement.wish_conflicts import without_conflicting_defaults

        texts = without_conflicting_defaults(pod, view, texts, defaults)
    return PodWishes(Wish.of(texts), texts, frozenset(texts.keys() & defaults.keys()), tuple(findings))


@PODS.rule(
    "GA406",
    "An annotation of gpu-admission.io must be one that is read",
    default=Severity.WARN,
    remedy="remove the annotation",
    source="docs/placement.md",
)
def known_annotations(pod: Pod) -> Iterator[Problem]:
    """An annotation whose name is misspelt, or that should have been a label, is ignored.

    The pod runs as if it were not there.
    """
    for key in sorted(pod.annotations):
        name = key.removeprefix(PREFIX)
        if name == key or name in WORDS or key in _OTHERS:
            continue
        if name in _LABELS:
            said, remedy = _LABELS[name]
            yield Problem(ANNOTATIONS / key, f"{said}, and is an annotation here", remedy)
            continue
        guess = closest(name.replace("_", "-"), WORDS)
        remedy = f"write {PREFIX}{guess}" if guess else f"remove it, or write one of {', '.join(WORDS)}"
        yield Problem(ANNOTATIONS / key, "is an unknown annotation", remedy)
