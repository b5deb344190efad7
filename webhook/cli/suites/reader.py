"""Reads suites from files and folders; problems have a line and a column."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from policies.kubernetes.paths import FieldPath
from policies.typed_input import type_problem
from webhook.cli.folders import files_of
from webhook.cli.other_files import SUITE_GROUP, is_suite
from webhook.cli.problems import Problem
from webhook.cli.suites.format import KIND, Case, Suite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.yaml import Document, Position
    from webhook.cli.manifest_reader import ManifestReader

__all__ = ["SuiteCase", "SuiteFile", "read_suites"]

_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
"""Suites in UTF-16, which Windows writes, are not read, but are not skipped silently."""
_UNKNOWN_FIELD = "is an unknown field of a suite; docs/test.md lists all fields"


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A suite with its places in a file."""

    file: str
    document: Document
    suite: Suite

    @property
    def cases(self) -> list[SuiteCase]:
        """The cases, in their order."""
        return [SuiteCase(self, index, case) for index, case in enumerate(self.suite.cases)]

    def path_of(self, name: str) -> str:
        """The path of a file that the suite names: relative to the folder of the suite."""
        path = os.path.normpath(Path(self.file).parent / name)
        return path if path != "-" else "./-"  # "-" would be standard input


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A case with its place in its suite."""

    suite_file: SuiteFile
    index: int
    case: Case

    @property
    def path(self) -> FieldPath:
        """The path of the case in the suite."""
        return FieldPath(["cases", self.index])

    def position(self, *steps: str | int) -> Position:
        """The position of a field of the case, or of its nearest ancestor in the file."""
        return self.suite_file.document.line_position((*self.path, *steps))

    def problem(self, message: str, *steps: str | int) -> Problem:
        """A problem at a field of the case."""
        path = FieldPath([*self.path, *steps])
        return Problem(self.suite_file.file, f"{path}: {message}", self.position(*steps))


def read_suites(paths: Iterable[str], reader: ManifestReader) -> list[SuiteFile]:
    """The suites of files and folders; problems go to the reader.

    All files of a folder and its subfolders are searched for suites, and files without one are skipped.
    """
    suites: list[SuiteFile] = []
    for path in paths:
        known = len(suites), len(reader.problems)
        is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises an error for long names
        for file in _files_with_suites(path, reader) if is_folder else [path]:
            for name, document in reader.documents([file]):
                if is_suite(document.value) or not is_folder:
                    suites += _suite(name, document, reader.problems)
        if (len(suites), len(reader.problems)) == known:
            reader.problems.append(
                Problem(path, f"has no suite: no document of apiVersion {SUITE_GROUP}... and kind {KIND}")
            )
    return suites


def _files_with_suites(folder: str, reader: ManifestReader) -> Iterator[str]:
    for file in files_of(folder, None, lambda error: reader.problems.append(Problem(folder, str(error)))):
        # Other files of a folder may be anything, such as broken manifests that a case is about.
        try:
            content = Path(file).read_bytes()
            if any(SUITE_GROUP.encode(encoding) in content for encoding in _ENCODINGS):
                yield file
        except OSError as error:
            reader.problems.append(Problem(file, (error.strerror or "cannot be read").lower()))


def _suite(file: str, document: Document, problems: list[Problem]) -> Iterator[SuiteFile]:
    """The suite of a document, unless it has problems."""
    if not isinstance(document.value, dict):
        problems.append(Problem(file, "is not a suite: a suite is a mapping with apiVersion, kind and cases"))
        return
    try:
        yield SuiteFile(file, document, Suite.model_validate(document.value))
    except ValidationError as error:
        found = [(FieldPath(detail["loc"]), detail) for detail in error.errors(include_url=False)]
        places = {path: document.line_position(path) for path, _ in found}
        for path, detail in sorted(found, key=lambda each: (places[each[0]].line, places[each[0]].column)):
            sentence = type_problem(detail, _UNKNOWN_FIELD)
            problems.append(Problem(file, f"{path}: {sentence}" if path else sentence, places[path]))
