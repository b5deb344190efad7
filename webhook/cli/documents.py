"""Reads manifests: files, folders and standard input become objects that know where they were written."""

from __future__ import annotations

import gc
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click
import yaml

from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable, shown
from policies.kubernetes.yaml import Document, Limits, Position, scan_documents
from policies.kubernetes.yaml_nodes import Node
from webhook.cli.folders import SUFFIXES, files_of
from webhook.cli.quick_json import quick_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.yaml import YAMLError
    from webhook.cli.folders import Exclusion

__all__ = ["LIMITS", "STDIN", "Manifest", "Problem", "Reader", "UnreadableInputError", "show_problems"]

STDIN = "STDIN"
"""What kubectl calls standard input in its messages."""

_LABELS = FieldPath(("metadata", "labels"))
LIMITS = Limits(size=1 << 30, depth=100, nodes=100_000_000, aliased=100_000)
"""Wider than for what comes over the network: `kubectl get nodes -o yaml` of a large cluster has tens of megabytes. It
has no aliases; what people's aliases stand for is written out in diffs and output, at some 30 µs for each value."""

_HELM_SOURCE = re.compile(r"(?:---.*\n)?(?:[ \t]*(?:#.*)?\n)*?# Source: (\S.*)")
"""The comment that `helm template` writes above each document."""
_ORIGIN = FieldPath(("metadata", "annotations", "config.kubernetes.io/origin"))
"""The annotation of kustomize with `buildMetadata: [originAnnotations]`."""
_ORIGIN_PATH = re.compile(r"^path: (\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot be read, and where."""

    file: str
    message: str
    position: Position | None = None

    def __str__(self) -> str:
        where = f":{self.position.line}:{self.position.column}" if self.position else ""
        return f"{self.file}{where}: {self.message}"


class UnreadableInputError(click.ClickException):
    """Input with problems; all of them are shown at once, and nothing is done."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))

    def show(self, file: Any = None) -> None:
        """Print the problems."""
        show_problems(self.problems, "nothing was done", file)


def show_problems(problems: Sequence[Problem], outcome: str, file: Any = None) -> None:
    """Print problems, one per line, for people and for editors that jump to `file:line:column`."""
    for problem in problems:
        click.echo(str(problem), file=file, err=True)
    click.echo(f"{len(problems)} problem{'s' * (len(problems) != 1)}; {outcome}", file=file, err=True)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    object: Object
    file: str
    document: Document
    path: FieldPath
    """Where in the document it is: at its root, but for the items of a `List`."""

    def position(self, path: Iterable[str | int] = ()) -> Position:
        """Where the value at a path of the object begins, or its nearest ancestor that is written down."""
        return self.document.position((*self.path, *path))

    def line_position(self, path: Iterable[str | int]) -> Position:
        """Where people look for the value at a path of the object."""
        return self.document.line_position((*self.path, *path))

    def position_within(self, path: Iterable[str | int], line: int, column: int) -> Position:
        """Where a place in a text of the object is, such as a line of a file that a ConfigMap holds."""
        return self.document.position_within((*self.path, *path), line, column)


class Reader:
    """Reads input and collects its problems, so that people hear of all of them at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._stdin_was_read = False

    def fail(self) -> NoReturn:
        """Stop with what was collected.

        Raises:
            UnreadableInputError: always.
        """
        raise UnreadableInputError(list(dict.fromkeys(self.problems)))

    def manifests(self, paths: Iterable[str]) -> list[Manifest]:
        """The objects of files and folders; the items of lists one by one."""
        return [manifest for file, document in self.documents(paths) for manifest in self._objects_of(file, document)]

    def cluster(self, paths: Iterable[str]) -> list[Object]:
        """What files and folders tell of a cluster: objects, lists as they are, and the output of `kubectl version`."""
        facts = []
        for file, content in self._contents(paths):
            known = len(self.problems)
            with _uncollected():
                value = quick_json(content, LIMITS)
            found = None if value is None else self._facts(file, [_without_places(value)])
            if found is None or len(self.problems) > known:
                del self.problems[known:]
                found = self._facts(file, self._scanned(file, content))
            facts += found
        return facts

    def contents(self, paths: Iterable[str]) -> tuple[list[Manifest], list[Object]]:
        """Like `cluster`, but the objects with their places, and apart from the outputs of `kubectl version`."""
        manifests, versions = [], []
        for file, document in self.documents(paths):
            if _is_version(document.value):
                versions.append(document.value)
                continue
            for manifest in self._objects_of(file, document):
                self._check_labels(manifest)
                manifests.append(manifest)
        return manifests, versions

    def documents(self, paths: Iterable[str]) -> Iterator[tuple[str, Document]]:
        """The documents of files and folders, in the order of their names, with the file of each."""
        for file, content in self._contents(paths):
            yield from ((file, document) for document in self._scanned(file, content))

    def _contents(self, paths: Iterable[str], exclusion: Exclusion | None = None) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            for file in self._files(path, exclusion):
                content = self._content(file)
                if content is not None:
                    yield STDIN if file == "-" else file, content

    def _scanned(self, file: str, content: bytes) -> list[Document]:
        documents, errors = self._parsed(content)
        self.problems += [self._broken(file, error) for error in errors]
        for document in documents:
            for path in document.duplicates:
                self._add_duplicate(path, file, document)
        return [document for document in documents if not document.duplicates]

    def _parsed(self, content: bytes) -> tuple[list[Document], list[YAMLError]]:
        with _uncollected():
            return scan_documents(content, limits=LIMITS, keeps_duplicates=True)

    def _add_duplicate(self, path: tuple[str | int, ...], file: str, document: Document) -> None:
        message = f"duplicate key {shown(path[-1])}: first given at line {document.duplicates[path][0]}"
        self.problems.append(Problem(_with_source(file, document.text), message, document.key_position(path)))

    def _broken(self, file: str, error: YAMLError) -> Problem:
        return Problem(_with_source(file, error.text), error.message, Position(error.line, error.column))

    def _facts(self, file: str, documents: Iterable[Document]) -> list[Object]:
        facts = []
        for document in documents:
            value = document.value
            if _is_version(value):
                facts.append(value)
                continue
            known = len(self.problems)
            for manifest in self._objects_of(file, document):
                self._check_labels(manifest)
            if len(self.problems) == known:
                facts.append(value)
        return facts

    def _files(self, path: str, exclusion: Exclusion | None) -> list[str]:
        if not os.path.isdir(path):
            return [path]
        files = files_of(path, exclusion, self._not_opened)
        if not files:
            others = " that are not excluded" if exclusion else ""
            self.problems.append(Problem(path, f"the folder has no files *{', *'.join(SUFFIXES)}{others}"))
        return files

    def _content(self, file: str) -> bytes | None:
        if file == "-":
            if self._stdin_was_read:
                self.problems.append(Problem(STDIN, "can be read only once; name - once"))
                return None
            self._stdin_was_read = True
            return sys.stdin.buffer.read()
        try:
            with open(file, "rb") as opened:
                return opened.read()
        except OSError as error:
            self._not_opened(error)
            return None

    def _not_opened(self, error: OSError) -> None:
        self.problems.append(Problem(str(error.filename), (error.strerror or "cannot be read").lower()))

    def _objects_of(self, file: str, document: Document) -> Iterator[Manifest]:
        yield from self._objects(document.value, _with_source(file, document.text), document, FieldPath())

    def _objects(self, value: Any, file: str, document: Document, path: FieldPath) -> Iterator[Manifest]:
        if not isinstance(value, dict):
            self._problem(_why_no_object(value), file, document, path)
            return
        kind, items = value.get("kind"), value.get("items")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
            own = {} if kind == "List" else {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
            for index, item in enumerate(items):
                whole = {**own, **item} if isinstance(item, dict) else item
                yield from self._objects(whole, file, document, path / "items" / index)
            return
        missing = [key for key in ("apiVersion", "kind") if not (isinstance(value.get(key), str) and value[key])]
        for key in missing:
            self._problem(f"has no {key}; every object of Kubernetes names one", file, document, path / key)
        if not missing:
            yield Manifest(value, _with_origin(file, value), document, path)

    def _check_labels(self, manifest: Manifest) -> None:
        """Rules compare labels as text; of a cluster there are none of another type, so one is a slip of the file."""
        labels = lookup(manifest.object, _LABELS)
        for key, value in labels.items() if isinstance(labels, dict) else ():
            if not isinstance(value, str):
                message = f"{_LABELS / key}: is {shown(value)}; the value of a label must be text, in quotes"
                self._problem(message, manifest.file, manifest.document, FieldPath((*manifest.path, *_LABELS, key)))

    def _problem(self, message: str, file: str, document: Document, path: FieldPath) -> None:
        self.problems.append(Problem(file, message, document.position(path)))


def _why_no_object(value: Any) -> str:
    """Why a value that is no mapping is not an object; a JSON patch is a list of operations."""
    is_patch = isinstance(value, list) and bool(value) and all(isinstance(lookup(each, ("op",)), str) for each in value)
    if is_patch:
        return "looks like a JSON patch; review the output of `kubectl kustomize`"
    return "is no object: a manifest is a mapping with apiVersion and kind"


def _is_version(value: Any) -> bool:
    """Whether it is the output of `kubectl version`, the one thing without a kind that tells of a cluster."""
    return isinstance(value, dict) and "serverVersion" in value and "kind" not in value


def _with_source(file: str, text: str) -> str:
    """The file of a document; of one from standard input, with the template that Helm made it from."""
    source = _HELM_SOURCE.match(text) if file == STDIN else None
    return f"{file} ({printable(source[1].strip())})" if source else file


def _with_origin(file: str, value: Object) -> str:
    """The file of an object; of one from standard input, with the file that kustomize says it came from."""
    origin = lookup(value, _ORIGIN) if file == STDIN else None
    path = _ORIGIN_PATH.search(origin) if isinstance(origin, str) else None
    return f"{file} ({printable(path[1])})" if path else file


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles: it would walk over a growing heap again and again, and reading makes no cycles.

    It takes two thirds of the time for a file of megabytes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _without_places(value: Any) -> Document:
    """A document for which nobody asks where anything stands."""
    return Document(Node(value, yaml.Mark("", 0, 0, 0, None, 0)), 0)
