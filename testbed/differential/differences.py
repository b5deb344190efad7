"""Comparison of two answers, and the report of what differs."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from testbed import libyaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


_RANDOM_TEXTS = (
    (re.compile(r"\b(localhost|127\.0\.0\.1):\d+"), "ADDRESS"),
    (re.compile(r" \((\d+|\d+/\d+) reserved\)"), ""),
    (re.compile(r"\bfor (\d+|an?) (second|minute|hour|day)s?\b"), "for AGE"),
)
"""What differs between two runs of one program: what is still reserved for a pod is used as soon as the pod is seen."""
_RANDOM_FIELDS = frozenset({"seconds"})
_MOST_LINES = 60


@dataclass(frozen=True)
class Expected:
    """A difference that is wanted."""

    pattern: re.Pattern[str]
    """Found in a line that differs."""
    reason: str


@dataclass(frozen=True)
class Answers:
    """The answers of both checkouts to one question."""

    kind: str
    """By which they are counted, such as `review`."""
    name: str
    before: Any
    after: Any
    replay: Mapping[str, str]
    """Texts that repeat the question, by the name of the file for each."""


class Report:
    """Counts comparisons, and writes each difference into a folder of its own; thread-safe."""

    def __init__(self, folder: Path, checkouts: tuple[Path, Path], expected: tuple[Expected, ...]) -> None:
        self._folder = folder
        self._checkouts = checkouts
        self._expected = expected
        self._lock = Lock()
        self.compared: Counter[str] = Counter()
        """Questions by kind."""
        self.different: Counter[str] = Counter()
        """Differences by kind, without expected ones."""
        self.outcomes: dict[str, Counter[str]] = {}
        """Answers before by kind and what they are, such as `refused`; they show whether the questions are worth asking."""
        self.explained: Counter[str] = Counter()
        """Expected differences by reason."""

    def compare(self, answers: Answers, count: int = 1) -> None:
        """Compare the answers to questions that were asked together."""
        with self._lock:
            self.compared[answers.kind] += count
            self.outcomes.setdefault(answers.kind, Counter())[_outcome(answers.before)] += 1
        lines = self.lines(answers.before, answers.after)
        if not lines:
            return
        reasons = [self._reason(line) for line in lines if _is_different(line)]
        text = "\n".join(lines[:_MOST_LINES])
        with self._lock:
            if reasons and all(reasons):
                self.explained.update(set(reasons))
                return
            self.different[answers.kind] += 1
            folder = self._folder / f"{self.different.total():04d}-{answers.kind.replace(' ', '-')}"
        folder.mkdir(parents=True)
        (folder / "difference.txt").write_text(f"{answers.kind}: {answers.name}\n{text}\n")
        for name, given in {"before": answers.before, "after": answers.after}.items():
            (folder / f"{name}.json").write_text(json.dumps(given, indent=1, ensure_ascii=False))
        for name, given_text in answers.replay.items():
            (folder / name).write_text(given_text)

    def lines(self, before: Any, after: Any) -> list[str]:
        """The lines that say what differs, apart from what is random; empty if nothing does."""
        first, second = (self._comparable_part(each) for each in (before, after))
        return [] if first == second else list(_differences(first, second, ""))

    def summary(self) -> str:
        """A table of what was compared."""
        rows = [f"{'KIND':<30} {'CASES':>7} {'DIFFERENT':>10}  ANSWERS BEFORE"]
        for kind, count in sorted(self.compared.items()):
            outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in self.outcomes[kind].most_common())
            rows.append(f"{kind:<30} {count:>7,} {self.different[kind]:>10,}  {outcomes}")
        rows.append(f"{'together':<30} {self.compared.total():>7,} {self.different.total():>10,}")
        rows += [f"expected: {count:,} times {reason}" for reason, count in self.explained.items()]
        if self.different:
            rows.append(f"The differences are in {self._folder}.")
        return "\n".join(rows)

    def _reason(self, line: str) -> str:
        """The reason why a line is expected to differ; empty if it is not."""
        return next((each.reason for each in self._expected if each.pattern.search(line)), "")

    def _comparable_part(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: "SECONDS"
                if key in _RANDOM_FIELDS and isinstance(part, int | float)
                else self._comparable_part(part)
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            is_text = bool(value) and all(isinstance(part, str) for part in value)
            return [self._comparable_part(part) for part in (_join_wrapped_lines(value) if is_text else value)]
        if isinstance(value, str):
            for checkout in self._checkouts:
                value = value.replace(str(checkout), "CHECKOUT")
            for pattern, replacement in _RANDOM_TEXTS:
                value = pattern.sub(replacement, value)
        return value


def read_expected(file: Path) -> tuple[Expected, ...]:
    """The expected differences of a file: a YAML list of mappings with `pattern` and `reason`."""
    listed = libyaml.load(file.read_text()) or []
    return tuple(Expected(re.compile(each["pattern"]), each["reason"]) for each in listed)


def _is_different(line: str) -> bool:
    """False for the lines around those that differ in a longer text."""
    return not line.startswith((" ", "@@", "--- ", "+++ ")) and (line[0] in "+-" or not line.endswith(":"))


def _join_wrapped_lines(lines: Sequence[str]) -> list[str]:
    """Warnings as one text if some have further lines, which begin with two blanks.

    A number more or less moves the end of every line after it. The header of a warning has its text in quotes.
    """
    texts = [line.removeprefix('299 - "').removesuffix('"') if line.startswith('299 - "') else line for line in lines]
    is_wrapped = any(text.startswith("  ") for text in texts)
    return [" ".join(" ".join(texts).split())] if is_wrapped else texts


def _outcome(answer: Any) -> str:
    """The kind of an answer."""
    if "exit code" in answer:
        return f"exit code {answer['exit code']}"
    if "status" not in answer or "body" not in answer:
        return "stored"
    if answer["status"] != 200 or "response" not in answer["body"]:
        return f"status {answer['status']}"
    response = answer["body"]["response"]
    if not response["allowed"]:
        return "refused"
    return "changed" if "patch" in response else "warned" if response.get("warnings") else "admitted"


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """The innermost parts that differ; lines of longer texts."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in before or key not in after:
                yield f"{path}.{key}: only {'before' if key in before else 'after'}: {json.dumps((before | after)[key])}"
            elif before[key] != after[key]:
                yield from _differences(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (first, second) in enumerate(zip(before, after, strict=True)):
            if first != second:
                yield from _differences(first, second, f"{path}[{number}]")
    elif isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        yield f"{path}:"
        yield from difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1)
    else:
        yield f"{path}: before {json.dumps(before)}, after {json.dumps(after)}"
