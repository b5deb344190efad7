"""Reads manifests: the objects of files and folders, with their places, and the problems of input."""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import yaml

from policies.kubernetes.names import did_you_mean, printable, shown
from policies.kubernetes.objects import FieldPath, fill_nulls, lookup
from policies.kubernetes.yaml import Document, Limits, Position, YAMLError, scan_documents
from policies.kubernetes.yaml_events import value as settled_value
from policies.kubernetes.yaml_nodes import Node
from webhook.cli.folders import SUFFIXES, OtherFiles, files_of, is_version
from webhook.cli.progress import current_progress
from webhook.cli.user_files import MOST_BYTES, read_file, read_stream, reason_of
from webhook.cluster.garbage_collection import CollectionPause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cli.folders import Exclusion, NamedFiles


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a file."""

    file: str
    message: str
    position: Position | None = None

    def __str__(self) -> str:
        where = f":{self.position.line}:{self.position.column}" if self.position else ""
        return printable(f"{self.file}{where}: {self.message}")


class UnreadableInputError(click.ClickException):
    """The input has problems; all of them are shown, and `outcome` says what was not done."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem], outcome: str = "nothing was done") -> None:
        self.problems = problems
        self.outcome = outcome
        super().__init__("\n".join(map(str, problems)))

    def show(self, file: Any = None) -> None:
        """Print the problems."""
        show_problems(self.problems, self.outcome, file)


def show_problems(problems: Sequence[Problem], outcome: str, file: Any = None) -> None:
    """Print problems, one per line, for people and for editors that jump to `file:line:column`."""
    from webhook.pages.text_report import fit_to_terminal

    summary = f"{len(problems)} problem{'s' * (len(problems) != 1)}; {outcome}"
    for line in fit_to_terminal((*map(str, problems), summary), file or sys.stderr):
        click.echo(line, file=file, err=True)


STDIN = "STDIN"
"""The name of standard input in messages of kubectl."""

_JSON_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*[{\[]")
"""The beginning of a mapping or list of JSON, with or without a byte order mark."""
_LABELS = FieldPath(("metadata", "labels"))
LIMITS = Limits(size=32 << 20, depth=100, nodes=10_000_000, aliased=100_000)
"""Wider than for the network: `kubectl get nodes -o yaml` of a large cluster has tens of megabytes, at some 3 MB a second.
Aliases are limited, because diffs and output write them out, at some 30 µs for each value."""
_JSON_LIMITS = replace(LIMITS, size=MOST_BYTES, nodes=100_000_000)
"""For JSON without positions, which is read 20 times as fast."""
_TOO_LARGE = f"is larger than {LIMITS.size >> 20} MiB: divide it; for --cluster, write it as JSON, which may have {MOST_BYTES >> 20} MiB"

_HELM_SOURCE = re.compile(r"(?:---.*\n)?(?:[ \t]*(?:#.*)?\n)*?# Source: (\S.*)")
"""The comment that `helm template` writes above each document."""
_ORIGIN = FieldPath(("metadata", "annotations", "config.kubernetes.io/origin"))
"""The annotation of kustomize with `buildMetadata: [originAnnotations]`."""
_ORIGIN_PATH = re.compile(r"^path: (\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    object: Object
    file: str
    document: Document
    path: FieldPath
    """The path of the object in the document; empty unless it is an item of a `List`."""

    def position(self, path: Iterable[str | int] = ()) -> Position:
        """The position of a field of the object, or of its nearest ancestor in the file."""
        return self.document.position((*self.path, *path))

    def line_position(self, path: Iterable[str | int]) -> Position:
        """The position where readers look for a field of the object."""
        return self.document.line_position((*self.path, *path))

    def position_within(self, path: Iterable[str | int], line: int, column: int) -> Position:
        """The position of a line and column in a text of the object, such as a file in a ConfigMap."""
        return self.document.position_within((*self.path, *path), line, column)


@dataclass(frozen=True, slots=True)
class Content:
    """A file that was read."""

    file: str
    content: bytes
    others: OtherFiles | None
    """Recognises other files than manifests; None for a file that must be a manifest."""

    @property
    def quick_json(self) -> dict[str, Any] | list[Any] | None:
        """The mapping or list of a JSON text, without positions.

        None if only the reader with positions can read or report it.
        """
        if not _JSON_BEGIN.match(self.content):
            return None
        return quick_json(self.content, _JSON_LIMITS)


class ManifestReader:
    """Reads input and collects its problems, so that all of them are reported at once.

    Other files of folders are skipped; a named file that is not a manifest is a problem.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.others = OtherFiles()
        """The files skipped in folders other than those of a cluster."""
        self._stdin_was_read = False

    def check(self) -> None:
        """Check that no problem was found.

        Raises:
            UnreadableInputError: With all problems.
        """
        if self.problems:
            raise UnreadableInputError(list(dict.fromkeys(self.problems)))

    def manifests(self, paths: Iterable[str], *, keeps_nulls: bool = False) -> list[Manifest]:
        """The objects of files and folders; the items of lists one by one.

        Args:
            paths: Files and folders, or `-`.
            keeps_nulls: True for manifests that are merged into stored objects, where a null removes a field.
        """
        documents = self.documents(paths, self.others)
        if keeps_nulls:
            return [manifest for file, document in documents for manifest in self._written_objects(file, document)]
        return [manifest for file, document in documents for manifest in self._objects_of(file, document)]

    def cluster(self, paths: Iterable[str]) -> list[Object]:
        """The objects of a cluster, with whole lists, and the output of `kubectl version`."""
        facts: list[Object] = []
        for path in paths:
            known = len(facts), len(self.problems)
            for found in self._contents([path], others=OtherFiles(is_of_cluster=True)):
                facts += self._read_facts(found)
            if (len(facts), len(self.problems)) == known:
                self.problems.append(Problem(path, "holds no Kubernetes objects"))
        return facts

    def contents(self, paths: Iterable[str]) -> tuple[list[Manifest], list[Object]]:
        """The objects of a cluster with positions, and the outputs of `kubectl version`."""
        manifests, versions = [], []
        for file, document in self.documents(paths, OtherFiles(is_of_cluster=True)):
            if is_version(document.value):
                versions.append(document.value)
                continue
            for manifest in self._objects_of(file, document):
                self._check_labels(manifest)
                manifests.append(manifest)
        return manifests, versions

    def documents(self, paths: Iterable[str], others: OtherFiles | None = None) -> Iterator[tuple[str, Document]]:
        """The documents of files and folders, each with its file, sorted by file name.

        Args:
            paths: Files and folders, or `-`.
            others: Skips and counts other files of folders; if None, they are problems.
        """
        for found in self._contents(paths, others=others):
            yield from ((found.file, document) for document in self._read_documents(found))

    def _contents(
        self,
        paths: Iterable[str],
        exclusion: Exclusion | None = None,
        others: OtherFiles | None = None,
        named: NamedFiles | None = None,
    ) -> Iterator[Content]:
        for path in paths:
            files = self._files(path, exclusion)
            if named is not None and os.path.isdir(path):
                options = {file: named.option_of(file, path) for file in files}
                for option in filter(None, options.values()):
                    self.others.skip_named(option)
                files = [file for file, option in options.items() if not option]
            sorter = others if os.path.isdir(path) else None
            if sorter is not None:
                sorter.enter(files)
            for file in current_progress().count(f"reading files of {path}", files):
                content = self._content(file)
                if content is not None and (sorter is None or not sorter.skips(file, content)):
                    yield Content(STDIN if file == "-" else file, content, sorter)

    def _read_documents(self, found: Content) -> list[Document]:
        documents, errors = self._parse(found)
        if found.others is not None:
            documents, errors = found.others.sort(found.file, documents, errors)
        self._add_broken(found.file, errors)
        for document in documents:
            for path in document.duplicates:
                self._add_duplicate(path, found.file, document)
        return [document for document in documents if not document.duplicates]

    def _parse(self, found: Content) -> tuple[list[Document], list[YAMLError]]:
        if len(found.content) > LIMITS.size:
            return [], [YAMLError(_TOO_LARGE, 1, 1)]
        # Collections would take two thirds of the time for a file of megabytes, and reading creates no cycles.
        with CollectionPause():
            return scan_documents(found.content, limits=LIMITS, keeps_duplicates=True)

    def _add_duplicate(self, path: tuple[str | int, ...], file: str, document: Document) -> None:
        message = f"duplicate key {shown(path[-1])}: first given at line {document.duplicates[path][0]}"
        self.problems.append(Problem(_with_source(file, document.text), message, document.key_position(path)))

    def _add_broken(self, file: str, errors: Iterable[YAMLError]) -> None:
        self.problems += [
            Problem(_with_source(file, error.text), error.message, Position(error.line, error.column))
            for error in errors
        ]

    def _read_facts(self, found: Content) -> list[Object]:
        known = len(self.problems)
        with CollectionPause():
            value = found.quick_json
            # JSON has no cycles, and a cluster is kept until the command ends: no collection need traverse it.
            gc.freeze()
        if found.others is not None and found.others.skips_json(value):
            return []
        may_have_nulls = b"null" in found.content
        facts = None if value is None else self._facts(found.file, [_without_places(value)], fills=may_have_nulls)
        if facts is None or len(self.problems) > known:
            del self.problems[known:]
            facts = self._facts(found.file, self._read_documents(found))
        return facts

    def _facts(self, file: str, documents: Iterable[Document], *, fills: bool = True) -> list[Object]:
        facts = []
        for document in documents:
            value = document.value
            if is_version(value):
                facts.append(value)
                continue
            known = len(self.problems)
            for manifest in self._written_objects(file, document):
                self._check_labels(manifest)
            if len(self.problems) == known:
                facts.append(fill_nulls(value) if fills else value)
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
        try:
            return read_stream(sys.stdin.buffer, STDIN) if file == "-" else read_file(file)
        except OSError as error:
            self.problems.append(
                Problem(STDIN if file == "-" else file, f"{reason_of(error)}{_similar_file(error, file)}")
            )
            return None

    def _not_opened(self, error: OSError) -> None:
        self.problems.append(Problem(str(error.filename), reason_of(error)))

    def _objects_of(self, file: str, document: Document) -> Iterator[Manifest]:
        """The objects of a document as the API server decodes them."""
        for manifest in self._written_objects(file, document):
            yield replace(manifest, object=fill_nulls(manifest.object))

    def _written_objects(self, file: str, document: Document) -> Iterator[Manifest]:
        """The objects of a document as the file has them."""
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
        if untyped := untyped_problem(value):
            field, text = untyped
            self._problem(text, file, document, path / field)
        else:
            yield Manifest(value, _with_origin(file, value), document, path)

    def _check_labels(self, manifest: Manifest) -> None:
        """Report labels that are neither text nor null: no cluster has such labels, so the file is wrong."""
        labels = lookup(manifest.object, _LABELS)
        for key, value in labels.items() if isinstance(labels, dict) else ():
            if not isinstance(value, str | None):
                message = f"{_LABELS / key}: is {shown(value)}; the value of a label must be text, in quotes"
                self._problem(message, manifest.file, manifest.document, FieldPath((*manifest.path, *_LABELS, key)))

    def _problem(self, message: str, file: str, document: Document, path: FieldPath) -> None:
        self.problems.append(Problem(file, message, document.position(path)))


def untyped_problem(value: dict[str, Any]) -> tuple[str, str] | None:
    """The missing field and a sentence, if a mapping has no apiVersion or no kind; else None."""
    missing = [key for key in ("apiVersion", "kind") if not (isinstance(value.get(key), str) and value[key])]
    if not missing:
        return None
    number = "both" if len(missing) == 2 else "one"
    return missing[0], f"has no {' and no '.join(missing)}; every object of Kubernetes names {number}"


def _similar_file(error: OSError, file: str) -> str:
    """The end of a message on a file that does not exist: the name that was probably meant in its folder."""
    folder, name = os.path.split(file)
    if error.errno != errno.ENOENT or not name:
        return ""
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    # A link that leads nowhere is in its folder.
    return "" if name in names else did_you_mean(name, names)


def _why_no_object(value: Any) -> str:
    """A sentence on a value that is not a mapping."""
    is_patch = isinstance(value, list) and bool(value) and all(isinstance(lookup(each, ("op",)), str) for each in value)
    if is_patch:
        return "looks like a JSON patch; review the output of `kubectl kustomize`"
    return "is not an object: a manifest is a mapping with apiVersion and kind"


def _with_source(file: str, text: str) -> str:
    """The file of a document, with the Helm template if it comes from standard input."""
    source = _HELM_SOURCE.match(text) if file == STDIN else None
    return f"{file} ({printable(source[1].strip())})" if source else file


def _with_origin(file: str, value: Object) -> str:
    """The file of an object, with the origin that kustomize notes if it comes from standard input."""
    origin = lookup(value, _ORIGIN) if file == STDIN else None
    path = _ORIGIN_PATH.search(origin) if isinstance(origin, str) else None
    return f"{file} ({printable(path[1])})" if path else file


def _without_places(value: Any) -> Document:
    """A document without positions."""
    return Document(Node(value, yaml.Mark("", 0, 0, 0, None, 0)), 0)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEFORE_VALUES = (b":", b",", b"[", b"{")
"""The characters before each key and value, except the outermost."""


def quick_json(content: bytes, limits: Limits) -> dict[str, Any] | list[Any] | None:
    """The mapping or list of a JSON text, read without positions, which are needed only for problems.

    None if the text is something else, broken, beyond a limit, or has duplicate keys; the reader with positions then reads
    it or reports the problem.
    """
    import orjson

    if len(content) > limits.size or sum(map(content.count, _BEFORE_VALUES)) >= limits.nodes:
        return None
    content = content.removeprefix(_BYTE_ORDER_MARK)
    try:
        value = orjson.loads(content)
        if not isinstance(value, dict | list):
            return None
        _settle_numbers(value, limits.depth)
    except ValueError:
        return None
    # orjson keeps the last of duplicate keys; each lost key has lost its colon.
    has_escaped_colon = b"\\u003a" in content or b"\\u003A" in content
    if has_escaped_colon or content.count(b":") != orjson.dumps(value).count(b":"):
        return None
    return value


def _settle_numbers(value: dict[str, Any] | list[Any], depth: int) -> None:
    """Replace numbers as the API server does, such as 1.0 by 1, in place.

    Raises:
        ValueError: The value nests deeper than `depth`, or JSON has no such number.
    """
    level: list[Any] = [value]
    for _ in range(depth):
        below: list[Any] = []
        for collection in level:
            # Only values are set, so the size does not change.
            for step, item in collection.items() if type(collection) is dict else enumerate(collection):
                kind = type(item)
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float:
                    collection[step] = settled_value(item)
        if not below:
            return
        level = below
    raise ValueError(depth)
