"""The format of suites, `test.gpu-admission.io/v1alpha1`; docs/test.md explains each field."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from policies.admission import rule_book
from policies.kubernetes.names import quote, shown
from policies.kubernetes.objects import FieldPath
from policies.rules.messages import sentence
from policies.rules.settings.parsing import Format, type_problem
from webhook.cli.folders import SUITE_GROUP, files_of, is_suite
from webhook.cli.manifest_reader import Problem
from webhook.cli.user_files import read_file, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.yaml import Document, Position
    from webhook.cli.manifest_reader import ManifestReader


KIND = "Suite"


class FieldError(ValueError):
    """A field of a suite has an invalid value; `remedy` is an imperative."""

    def __init__(self, message: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(message)


def _checked_rule(text: str) -> str:
    if rule_book().get(text) is None:
        raise FieldError(f"is {quote(text)}", "write a rule that gpu-admission rules lists")
    return text


def _checked_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise FieldError(f"is {quote(text)}; {error}", "correct the regular expression") from error
    return text


def _checked_file_name(text: str) -> str:
    if "\0" in text:
        raise FieldError("has a NUL character, which the name of a file cannot have", "remove the character")
    return text


def _checked_amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise FieldError(f"is {shown(value)}, not an amount", 'write one such as 8, "1/2" or "80Gi"')
    return value


def _checked_old(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise FieldError(f"is {shown(value)}", "write an object, or the name of a file with it")
    return _checked_file_name(value) if isinstance(value, str) else value


Amount = Annotated[Any, AfterValidator(_checked_amount), WithJsonSchema({"type": ["integer", "string"]})]
"""An amount of a limit, as a GPUQuota spells it."""

Old = Annotated[Any, AfterValidator(_checked_old), WithJsonSchema({"type": ["string", "object"]})]
"""An object, or the name of a file with it."""

FileName = Annotated[str, AfterValidator(_checked_file_name)]
"""A file or folder, relative to the suite."""

Pattern = Annotated[str, AfterValidator(_checked_pattern)]
"""A regular expression, which may match anywhere in a text."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    @field_validator("*", mode="before")
    @classmethod
    def _check_given(cls, value: Any) -> Any:
        """A field without a value would be compared with nothing, whatever its author meant by it."""
        if value is None:
            raise FieldError("is empty", "write a value, or remove the field")
        return value


class User(_Model):
    """The user of a request."""

    name: str = Field(default="", description="The user's name, such as alice or system:serviceaccount:team-a:default.")
    groups: list[str] = Field(default_factory=list, description="The user's groups.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.groups and not self.name:
            raise FieldError("has groups and no name, and no exemption holds for a user without one", "write a name")
        return self


class ExpectedFinding(_Model):
    """A finding, or all that matters of one."""

    rule: Annotated[str, AfterValidator(_checked_rule)] = Field(description="The id of the rule, such as GA307.")
    severity: Literal["deny", "warn", "audit"] | None = Field(default=None, description="What the finding does.")
    path: str | None = Field(default=None, description="The field of the object, such as spec.nodeSelector.")
    message: Pattern | None = Field(default=None, description="A regular expression of its message and remedy.")


class ExpectedFit(_Model):
    """Where the object fits, as `gpu-admission explain` says it."""

    verdict: Literal["fits", "full", "impossible", "blocked", "unknown", "scheduled"] = Field(
        description="The verdict of gpu-admission explain."
    )
    nodes: list[str] | None = Field(default=None, description="The names of all nodes where it fits now.")


class Expectation(_Model):
    """The expected results of a case; a field that is missing is not compared."""

    verdict: Literal["admitted", "refused", "not reviewed"] | None = Field(default=None, description="The verdict.")
    change: Literal["none", "changed", "converted"] | None = Field(
        default=None, description="What admission does to the object: converted if it gets ResourceClaims."
    )
    findings: list[ExpectedFinding] | None = Field(
        default=None,
        description="All findings that refuse or warn, in any order; findings for the audit log may be listed too.",
    )
    warnings: list[Pattern] | None = Field(
        default=None, description="A regular expression for each warning that kubectl prints, in their order."
    )
    patched: dict[str, Any] | None = Field(
        default=None,
        description="Fields of the admitted object. Fields that are not listed may have any value; null: no such field.",
    )
    golden: FileName | None = Field(
        default=None, description="A file with the admitted object and its templates, as review -o yaml prints them."
    )
    templates: list[dict[str, Any]] | None = Field(
        default=None,
        description="Fields of each ResourceClaimTemplate that conversion creates, in their order, as for patched.",
    )
    charges: dict[str, Amount] | None = Field(
        default=None,
        description="What the quotas of the namespace are charged, by the names of their limits; other limits: nothing.",
    )
    fits: ExpectedFit | None = Field(default=None, description="Where the object fits.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set:
            raise FieldError("is empty, so the case cannot fail", "write a verdict, for example")
        return self


class Case(_Model):
    """An object, the circumstances of its request, and what is expected."""

    name: str = Field(min_length=1, description="What the case shows. Unique in the suite.")
    file: FileName | None = Field(
        default=None, description="The file with the object or AdmissionReview, relative to the suite."
    )
    object: str | None = Field(
        default=None, description="KIND/NAME of the object, if the file has several, such as Deployment/recommender."
    )
    manifest: dict[str, Any] | None = Field(
        default=None, description="The object or AdmissionReview itself, instead of a file."
    )
    operation: Literal["CREATE", "UPDATE", "DELETE"] = Field(
        default="CREATE", description="The operation on the object."
    )
    old: Old = Field(default=None, description="For an UPDATE: the object as it is in the cluster, or a file with it.")
    user: User = Field(default_factory=User, description="The user of the request.")
    namespace: str | None = Field(
        default=None, description="The namespace of an object without one; default: that of the suite."
    )
    cluster: list[FileName] = Field(
        default_factory=list, description="More files or folders with objects of the cluster."
    )
    expect: Expectation = Field(description="What gpu-admission is expected to do.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.file is None) == (self.manifest is None):
            has = "neither file nor manifest" if self.file is None else "both file and manifest"
            raise FieldError(f"has {has}", "write either file or manifest")
        if self.object is not None and self.file is None:
            raise FieldError("has object beside manifest, which is one object already", "remove object")
        if self.operation == "UPDATE" and self.old is None:
            raise FieldError(
                "has operation UPDATE without old, and an update is judged by what it changes", "write old"
            )
        if self.operation != "UPDATE" and self.old is not None:
            raise FieldError("has old without operation UPDATE", "write operation: UPDATE, or remove old")
        return self


class Metadata(_Model):
    """The name of a suite."""

    name: str = Field(default="", description="A name for people; the file names the suite in reports.")


class Suite(_Model):
    """Cases in one cluster."""

    api_version: Literal["test.gpu-admission.io/v1alpha1"] = Field(description="The version of the format.")
    kind: Literal["Suite"] = Field(description="The kind.")
    metadata: Metadata = Field(default_factory=Metadata, description="The name of the suite.")
    cluster: list[FileName] = Field(
        default_factory=list, description="Files or folders with objects of the cluster, relative to the suite."
    )
    settings: FileName | None = Field(
        default=None,
        description="A file with a GPUAdmissionPolicy; default: that of the cluster, else the built-in defaults.",
    )
    namespace: str = Field(default="", description="The namespace of objects without one; default: default.")
    cases: list[Case] = Field(min_length=1, description="The cases.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = Counter(case.name for case in self.cases)
        repeated = [name for name, count in names.items() if count > 1]
        if repeated:
            raise FieldError(f"two cases are named {quote(repeated[0])}", "give each its own name")
        return self


_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
"""Suites in UTF-16, which Windows writes, are not read, but are not skipped silently."""
_FORMAT = Format(cache(Suite.model_json_schema), "docs/test.md", "a field")


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
            content = read_file(file)
            if any(SUITE_GROUP.encode(encoding) in content for encoding in _ENCODINGS):
                yield file
        except OSError as error:
            reader.problems.append(Problem(file, reason_of(error)))


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
            problems.append(Problem(file, _field_problem(path, detail, document.value), places[path]))


def _field_problem(path: FieldPath, detail: Any, document: Any) -> str:
    """The problem of a field as one sentence; `detail` is an item of `ValidationError.errors`."""
    match detail["type"]:
        case "value_error":
            error: FieldError = detail["ctx"]["error"]
            return sentence(path, str(error), error.remedy)
        case "too_short":
            return sentence(path, "is empty", "write an entry")
        case "string_too_short":
            return sentence(path, "is empty", "write a text")
    return type_problem(path, detail, document, _FORMAT).text
