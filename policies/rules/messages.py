"""Messages: findings and warnings as the lines that people read."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING

from policies.kubernetes.names import printable, with_capital
from policies.kubernetes.objects import FieldPath

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


_PREDICATE = re.compile(
    r"(?:is|was|has|does|cannot|must|would|allows|applies|becomes|compares|contradicts|counts|cuts|"
    r"describes|disables|ends|excludes|exempts|exists|fails|fits|gets|gives|hands|holds|lacks|leaves|"
    r"lets|links|lists|loads|looks|loses|makes|matches|mentions|names|needs|overrides|overrules|publishes|reads|removes|"
    r"replaces|requests|says|selects|serves|sets|stands|stays|steers|stops|takes|tells|upgrades|uses|wants)(?: |$)"
)
"""The beginning of a message that lacks a subject, which is the field."""
_MENDING = frozenset(("indent", "move", "put", "remove", "shorten", "write"))
"""Verbs of remedies in which `it` is the field."""


def sentence(path: FieldPath, message: str, remedy: str) -> str:
    """The remedy, the reason and the place: `Remove default: it is deprecated; spec.cdi.default`.

    The remedy comes first, because terminals cut the end.
    """
    said = advice(path, message, remedy)
    return f"{said}; {path}" if path else said


def advice(path: FieldPath, message: str, remedy: str) -> str:
    """The remedy and the reason, to be printed behind a path: `Remove default: it is deprecated`."""
    return "".join(_parts(path, message, remedy))


def advice_lines(path: FieldPath, message: str, remedy: str) -> list[str]:
    """The remedy and the reason as lines of their own; one of them if the other is empty."""
    said = with_capital(named_remedy(path, remedy))
    why = reason(path, message) if message else ""
    return [said, *([f"Reason: {why}"] if why else [])] if said else [with_capital(why)]


def _parts(path: FieldPath, message: str, remedy: str) -> tuple[str, str]:
    """The text before the reason, and the reason; without a reason only the remedy."""
    named = named_remedy(path, remedy)
    if not message:
        return with_capital(named), ""
    why = f"it {message}" if named != remedy and _lacks_subject(message) else reason(path, message)
    return f"{with_capital(named)}: " if remedy else "", why


def named_remedy(path: FieldPath, remedy: str) -> str:
    """The remedy with the name of its field instead of `it`: `remove default`."""
    verb, it, rest = remedy.partition(" it")
    is_about_field = path and it and verb in _MENDING and rest[:1] in ("", " ", ",", ";")
    return f"{verb} {_leaf(path)}{rest}" if is_about_field else remedy


def remedy_sentences(author: str = "", administrator: str = "") -> list[str]:
    """The remedies for the author and for an administrator, without full stops; an empty one is left out."""
    sentences = [f"What to do: {author}"] if author else []
    return [*sentences, f"An administrator can {administrator}"] if administrator else sentences


_LONG_WORD = re.compile(r"\S{41,}")


def short_sentence(path: FieldPath, message: str, remedy: str, longest: int, *, with_path: bool) -> str:
    """The remedy, the reason and, if wanted, the place in at most `longest` characters.

    Long names are shortened in the middle first, then the reason is cut, and the rest only if it is too long by itself.
    """
    before, why = _parts(path, message, remedy)
    place = f"; {path}" if path and with_path else ""
    if len(before + why + place) > longest:
        why = _LONG_WORD.sub(_short_word, why)
    if len(before + why + place) > longest:
        place = _LONG_WORD.sub(_short_word, place)
    return f"{_cut(f'{before}{why}', longest - len(place))}{place}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _short_word(word: re.Match[str]) -> str:
    return f"{word[0][:20]}…{word[0][-19:]}"


def reason(path: FieldPath, message: str) -> str:
    """The message with the field as its subject, if it has none."""
    return f"{_leaf(path)} {message}" if path and _lacks_subject(message) else message


def _lacks_subject(message: str) -> bool:
    return _PREDICATE.match(message) is not None


def _leaf(path: FieldPath) -> str:
    """The last key of a path, with the index behind it."""
    *_, step = path
    return str(FieldPath(path[-2:])) if isinstance(step, int) else step


LONGEST = 120
"""Characters of one warning. The API server cuts after 256 and drops a header with control characters."""
_MOST = 4096
"""Characters of all warnings together, beyond which the API server cuts."""


def warning_lines(texts: Iterable[str]) -> tuple[str, ...]:
    """Break texts into warnings that arrive whole; what would be cut off is counted in the last one.

    Source: k8s.io/api/admission/v1 AdmissionResponse.warnings; apiserver pkg/endpoints/filters/warning.go.
    """
    kept: dict[str, None] = {}
    left_out = 0
    room = _MOST - LONGEST
    for text in dict.fromkeys(map(printable, texts)):
        for line in _lines(text, kept):
            room -= len(line)
            if room < 0 or line in kept:
                left_out += 1
            else:
                kept[line] = None
    if not left_out:
        return tuple(kept)
    count = "1 more line does" if left_out == 1 else f"{left_out} more lines do"
    return (*kept, f"{count} not fit; gpu-admission review shows them all")


def _lines(text: str, taken: Collection[str]) -> list[str]:
    """The text in lines that are not taken; the API server drops repeated warnings, so they are indented."""
    for indent in range(0, LONGEST // 2, 2):
        lines = wrap(
            text,
            LONGEST,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 2),
            break_on_hyphens=False,
        )
        if not any(line in taken for line in lines):
            break
    return lines
