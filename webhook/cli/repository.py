"""Reads repositories: folders that hold other YAML and JSON beside manifests, such as Helm values and CI workflows."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath
from policies.review.coverage import reviewed_kinds
from policies.settings import DEFAULTS
from webhook.cli.documents import LIMITS, Problem, Reader
from webhook.cli.folders import files_of, is_chart_template
from webhook.cli.kustomizations import patch_files
from webhook.cli.quick_json import quick_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.yaml import Document, YAMLError
    from webhook.cli.documents import Manifest
    from webhook.cli.folders import Exclusion

__all__ = ["NO_OBJECTS", "PATCHES", "TEMPLATES", "RepositoryReader"]

NO_OBJECTS = "no Kubernetes objects"
TEMPLATES = "templates; review what is made of them, such as the output of `helm template`"
PATCHES = "patches; review the output of `kubectl kustomize`"

_KEYS = re.compile(rb"\b(?:apiVersion|kind)[\"']?\s*:")
"""What every manifest has somewhere, and most other YAML and JSON of a repository has not."""
_TEMPLATE = "{{"
_PLACEHOLDERS = re.compile(r"\{\{|\{%|%\{|^[ \t]*\$\{\w+\}[ \t]*$", re.MULTILINE)
"""What templates of Helm, Jinja, Terraform and envsubst have where YAML has nothing alike."""
_NAME_PLACEHOLDERS = ("{{", "${", "$(")
"""What no name of an object can have, because dollar signs and brackets are not allowed in names."""
_KUSTOMIZE = "kustomize.config.k8s.io/"


class RepositoryReader(Reader):
    """Reads manifests for a review.

    What is no manifest is skipped in folders, and a problem where it is named. What is broken is a problem, and
    everything else is read. Duplicate keys are left to the rules, and the last one counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.empty: list[Problem] = []
        """Files without documents that were named; no problem of its own where there is nothing else."""
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._patches: frozenset[str] = frozenset()

    @property
    def skipped(self) -> list[str]:
        """How many files and documents were skipped, and why; a line for each reason."""
        return [
            f"{count} {unit}{'s' * (count != 1)} skipped: {reason}"
            for reason in (NO_OBJECTS, TEMPLATES, PATCHES)
            for unit in ("file", "document")
            if (count := self._skipped[unit, reason])
        ]

    def repository(
        self, paths: Iterable[str], exclusion: Exclusion | None = None, *, strict: bool = False
    ) -> list[Manifest]:
        """The objects of files and folders; the items of lists one by one.

        Args:
            paths: Files and folders, or `-`.
            exclusion: Which files of the folders are not read.
            strict: Whether what folders hold beside manifests is a problem.
        """
        manifests: list[Manifest] = []
        for path in paths:
            is_folder = os.path.isdir(path)
            read = self._named if strict or not is_folder else self._found
            self._patches = patch_files(files_of(path, exclusion, self._not_opened)) if is_folder else frozenset()
            for file, content in self._contents([path], exclusion):
                manifests += read(file, content)
        return manifests

    def _named(self, file: str, content: bytes) -> Iterator[Manifest]:
        """The objects of a file that should hold nothing else."""
        documents, errors = self._parsed(content)
        self.problems += [self._broken(file, error) for error in errors]
        if not documents and not errors:
            self.empty.append(Problem(file, "holds no Kubernetes objects"))
        for document in documents:
            if _is_kustomization(document.value):
                message = "is read by kustomize only; review the output of `kubectl kustomize`"
                self._problem(message, file, document, FieldPath())
            else:
                yield from self._written(file, document)

    def _found(self, file: str, content: bytes) -> Iterator[Manifest]:
        """The objects of a file that may hold something else."""
        if os.path.abspath(file) in self._patches:
            self._skipped["file", PATCHES] += 1
            return
        # Before it is parsed with places: a lock file of megabytes would take seconds.
        if not _has_keys(content) or not _may_be_manifest(quick_json(content, LIMITS)):
            self._skipped["file", NO_OBJECTS] += 1
            return
        if _TEMPLATE.encode() in content and is_chart_template(file):
            self._skipped["file", TEMPLATES] += 1
            return
        documents, errors = self._parsed(content)
        reasons = [reason for error in errors if (reason := _reason_to_skip(error))]
        problems = [self._broken(file, error) for error in errors if not _reason_to_skip(error)]
        written = []
        for document in documents:
            if not _is_manifest(document.value):
                reasons.append(NO_OBJECTS)
            elif _is_template(document.value):
                reasons.append(TEMPLATES)
            else:
                written.append(document)
        self.problems += problems
        if written or problems:
            self._skipped.update(("document", reason) for reason in reasons)
        else:
            self._skipped["file", TEMPLATES if TEMPLATES in reasons else NO_OBJECTS] += 1
        for document in written:
            yield from self._written(file, document)

    def _written(self, file: str, document: Document) -> list[Manifest]:
        """The objects of a document. Duplicate keys outside of them, such as two `items` of a list, are problems."""
        manifests = list(self._objects_of(file, document))
        for path in document.duplicates:
            if not any(path[: len(each.path)] == each.path and not _is_envelope(each) for each in manifests):
                self._add_duplicate(path, file, document)
        return manifests


def _reason_to_skip(error: YAMLError) -> str:
    """Why a document that cannot be parsed is skipped; empty if it looks like a manifest that is broken."""
    if _PLACEHOLDERS.search(error.text):
        return TEMPLATES
    return NO_OBJECTS if error.text and not _has_outer_keys(error.text) else ""


def _has_outer_keys(text: str) -> bool:
    """Whether a text that cannot be parsed may be a manifest: its outermost keys have an apiVersion or a kind."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "---"))]
    if not lines or lines[0].lstrip().startswith("{"):
        return _has_keys(text.encode(errors="replace"))
    outermost = min(len(line) - len(line.lstrip(" ")) for line in lines)
    return any(_KEYS.match(line[outermost:].lstrip("\"'").encode(errors="replace")) for line in lines)


def _has_keys(content: bytes) -> bool:
    """Whether a text may hold manifests. One in UTF-16 counts too: it is a manifest in the wrong encoding."""
    return _KEYS.search(content) is not None or (
        b"\0" in content and _KEYS.search(content.replace(b"\0", b"")) is not None
    )


def _may_be_manifest(value: dict[str, Any] | list[Any] | None) -> bool:
    """Whether the value of a text in JSON may be a manifest; True if the text is not JSON."""
    return value is None or _is_manifest(value)


def _is_manifest(value: Any) -> bool:
    """Whether a document is meant for Kubernetes: it has an apiVersion and a kind, or one of them and metadata or items.

    Without an apiVersion the kind must be one that rules look at: other tools, such as Zarf, have kinds as well.
    """
    if not isinstance(value, dict) or _is_kustomization(value):
        return False
    version, kind = (isinstance(value.get(key), str) for key in ("apiVersion", "kind"))
    has_shape = isinstance(value.get("metadata"), dict) or isinstance(value.get("items"), list)
    return (version and (kind or has_shape)) or (kind and has_shape and _is_known(value["kind"]))


def _is_known(kind: str) -> bool:
    kinds = {kind for _, kind in reviewed_kinds(DEFAULTS)}
    return kind.removesuffix("List") in {*kinds, ""}


def _is_template(value: dict[str, Any]) -> bool:
    """Whether the name of an object is still to be filled in."""
    metadata = value.get("metadata")
    names = [metadata.get(field) for field in ("name", "namespace")] if isinstance(metadata, dict) else []
    return any(mark in name for name in names if isinstance(name, str) for mark in _NAME_PLACEHOLDERS)


def _is_envelope(manifest: Manifest) -> bool:
    return bool(manifest.object["kind"] == "AdmissionReview")


def _is_kustomization(value: Any) -> bool:
    """Whether a document is one of kustomize's own, which no API server knows."""
    version = value.get("apiVersion") if isinstance(value, dict) else None
    return isinstance(version, str) and version.startswith(_KUSTOMIZE)
