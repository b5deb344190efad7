"""The wishes of a pod for its GPU, and where they are written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.kubernetes.names import PREFIX, format_list, printable
from policies.kubernetes.objects import FieldPath
from policies.nvidia.wishes import Wish
from policies.placement.affinity import TooManyTermsError
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.rules.decision import Finding


ANNOTATIONS = FieldPath(["metadata", "annotations"])
_DEFAULT = " (a default of the GPUAdmissionPolicy, which an annotation replaces)"


@dataclass(frozen=True, slots=True)
class PodWishes:
    """The wishes of a pod, and their texts."""

    wish: Wish = field(default_factory=Wish)
    texts: Mapping[str, str] = field(default_factory=dict)
    """The words that count, as they are written, in the order of WORDS."""
    defaults: frozenset[str] = frozenset()
    """The words that are defaults of the settings."""
    findings: tuple[Finding, ...] = ()
    """Findings about words that cannot be read."""

    @property
    def own(self) -> tuple[str, ...]:
        """The words of the pod itself. Its author cannot change the defaults."""
        return tuple(word for word in self.texts if word not in self.defaults)

    def path(self, word: str) -> FieldPath:
        """The path of a word, also of a default."""
        return ANNOTATIONS / (PREFIX + word)

    def said(self, word: str) -> str:
        """A word as it is written, `gpu-admission.io/product: H100*`, with a note if it is a default."""
        return f"{PREFIX}{word}: {printable(self.texts[word])}{_DEFAULT if word in self.defaults else ''}"

    def problem(
        self, word: str, message: str, remedy: str | None = None, *, severity: Severity | None = None
    ) -> Problem:
        """A problem with a word, with a note if it is a default."""
        text = message + _DEFAULT if word in self.defaults else message
        return Problem(self.path(word), text, remedy, severity=severity)

    def without_effect(self) -> PodWishes:
        """The wishes of a pod for which they have no effect: unreadable words only warn."""
        return replace(self, findings=tuple(replace(found, severity=Severity.WARN) for found in self.findings))


@PODS.rule(
    "GA407",
    "A wish must have an effect",
    default=Severity.WARN,
    remedy="remove the annotation, or request a GPU",
    source="docs/placement.md",
)
def effective_wishes(
    wishes: PodWishes, reason: str | TooManyTermsError, remedy: str | None = None, *, is_for_wish: bool = True
) -> Iterator[Problem]:
    """Wishes choose the GPU that a pod gets for its nvidia.com/gpu.

    A pod without a request gets no GPU by a wish. In a claim that the pod brings itself its author says which
    device is meant; claims are not changed. A pod whose node affinity is too large for the wish to be added to it
    is refused: it would run on any GPU.
    """
    words = wishes.own or tuple(wishes.texts)
    if isinstance(reason, TooManyTermsError):
        remedy = "simplify the pod's own node selector and affinity"
        if is_for_wish:
            # The pod would run on any node.
            wish = format_list([wishes.said(word) for word in wishes.texts])
            yield Problem(reason.path, f"{reason}, so {wish} cannot be kept", remedy, severity=Severity.DENY)
        else:
            text = f"{reason}, so the pod is not kept off shared GPUs, although spec.placement.avoidSharedGPUs is true"
            yield Problem(reason.path, text, remedy)
    elif len(words) == 1:
        yield wishes.problem(words[0], f"has no effect: {reason}", remedy)
    else:
        annotations = format_list([PREFIX + word for word in words], len(words))
        yield Problem(ANNOTATIONS, f"{annotations} have no effect: {reason}", remedy)
