"""Plain English, as far as a program can check it: `python -m lints.plain_sentences [FILE|FOLDER...]`.

It checks the first lines of docstrings, the words of docstrings, comments, messages and pages, and names of functions.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[1]
CHECKED = ("policies", "webhook", "certs", "testbed", "lints", "deploy", "benchmarks", "docs", "README.md")
LONGEST_FIRST_LINE = 100
EXEMPT = (
    "policies/devices/allocation/checks.py",  # quotes an error of Kubernetes
    "policies/kubernetes/names.py",  # `shown` is called in 150 modules
    "webhook/sandbox/admission/calls.py",  # quotes an error of client-go
)

# Lines of "pattern | what to write instead", for prose only; names of functions have a check of their own.
_WORDS = [line.split(" | ") for line in (ROOT / "lints/unwanted_words.txt").read_text(encoding="utf-8").splitlines()]
UNWANTED = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in _WORDS}
QUESTION = re.compile(r"(?:How|What|Whether|Which|Who|Whose|Why)\b")
IRREGULAR = {"held", "kept", "known", "made", "meant", "sent", "seen", "shown", "spoken", "taken", "told", "written"}
ADVERBS = {"alone", "apart", "aside", "away", "before", "elsewhere", "once", "there", "together"}
NOT_PARTICIPLES = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"}
NOUNS_IN_ING = {
    "binding",
    "encoding",
    "finding",
    "mapping",
    "meaning",
    "padding",
    "setting",
    "spelling",
    "string",
    "timing",
    "warning",
}
# What other libraries call: the names are theirs.
GIVEN_NAMES = frozenset({"connection_made", "connection_lost", "data_received", "eof_received", "__missing__"})


class Breach(NamedTuple):
    """A place in a file, and what to change there."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        """As compilers print it, so that editors find the place."""
        return f"{self.path}:{self.line}: {self.text}"


def breaches(path: Path) -> Iterator[Breach]:
    """All breaches in a Python file or a page, in no particular order."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _words(path, 1, source)
        return
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _first_line(path, node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_bare(node):
            yield Breach(path, node.lineno, f"name {node.name}() with a verb, or with a noun for what it returns")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _words(path, node.lineno, node.value)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield from _words(path, token.start[0], token.string)


def _first_line(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Breach]:
    docstring = ast.get_docstring(node)
    if docstring is None:
        return
    first = docstring.split("\n", 1)[0]
    line = node.body[0].lineno
    if len(first) > LONGEST_FIRST_LINE:
        yield Breach(
            path, line, f"the docstring's first line has {len(first)} characters, not at most {LONGEST_FIRST_LINE}"
        )
    if first.startswith("Args:"):
        yield Breach(path, line, "a docstring begins with what the function does, not with its arguments")
    if found := QUESTION.match(first):
        yield Breach(
            path, line, f'begin the docstring with "The ...", "True if ..." or "Return ...", not with {found.group()}'
        )


def _words(path: Path, line: int, text: str) -> Iterator[Breach]:
    for pattern, instead in UNWANTED.items():
        for found in pattern.finditer(text):
            place = line + text.count("\n", 0, found.start())
            yield Breach(path, place, f'instead of "{found.group()}" write: {instead}')


def _is_bare(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True for a function, other than a property, that is named by participles and adverbs alone."""
    decorators = {ast.unparse(decorator).rsplit(".", 1)[-1] for decorator in function.decorator_list}
    if decorators & {"property", "cached_property", "setter"} or function.name in GIVEN_NAMES:
        return False
    words = function.name.strip("_").split("_")
    return bool(words[0]) and all(map(_is_participle_or_adverb, words))


def _is_participle_or_adverb(word: str) -> bool:
    if word in IRREGULAR or word in ADVERBS:
        return True
    if word.endswith("ing"):
        return word not in NOUNS_IN_ING
    return word.endswith("ed") and word not in NOT_PARTICIPLES


def main(names: list[str]) -> int:
    """Print the breaches in the files and folders given, else in all that are checked; 1 if there are any."""
    left = tuple(ROOT / name for name in (() if names else EXEMPT))
    files = [path for name in names or CHECKED for path in sorted(_files(ROOT / name))]
    found = [breach for path in files if not any(map(path.is_relative_to, left)) for breach in breaches(path)]
    for breach in found:
        print(breach._replace(path=breach.path.relative_to(ROOT)))
    return min(len(found), 1)


def _files(place: Path) -> Iterator[Path]:
    yield from [place] if place.is_file() else (path for path in place.rglob("*") if path.suffix in {".py", ".md"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
