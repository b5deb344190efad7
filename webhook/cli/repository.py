"""Reads repositories: folders that hold other YAML and JSON beside manifests, such as Helm values and CI workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import FieldPath
from webhook.cli.documents import LIMITS, Reader
from webhook.cli.other_files import is_kustomization
from webhook.cli.problems import Problem
from webhook.cli.quick_json import quick_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.yaml import Document
    from webhook.cli.documents import Content, Manifest
    from webhook.cli.folders import Exclusion
    from webhook.cli.other_files import OtherFiles

__all__ = ["RepositoryReader"]


class RepositoryReader(Reader):
    """Reads manifests for a review.

    A file in a folder is skipped if it is not a manifest; a file that is named must be one. A document that cannot be
    parsed is a problem, and the others are read. Duplicate keys are left to the rules, and the last one counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.empty: list[Problem] = []
        """Named files without documents. They are problems only if there are objects elsewhere."""

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
            others = None if strict else self.others
            for found in self._contents([path], exclusion, others):
                manifests += self._named(found) if found.others is None else self._found(found, found.others)
        return manifests

    def _named(self, found: Content) -> Iterator[Manifest]:
        """The objects of a file that should hold nothing else."""
        documents, errors = self._parsed(found.content)
        self._add_broken(found.file, errors)
        if not documents and not errors:
            self.empty.append(Problem(found.file, "holds no Kubernetes objects"))
        for document in documents:
            if is_kustomization(document.value):
                message = "is read by kustomize only; review the output of `kubectl kustomize`"
                self._problem(message, found.file, document, FieldPath())
            else:
                yield from self._written(found.file, document)

    def _found(self, found: Content, others: OtherFiles) -> Iterator[Manifest]:
        """The objects of a file that may hold something else."""
        if others.skips_json(quick_json(found.content, LIMITS)):
            return
        documents, errors = others.sort(*self._parsed(found.content))
        self._add_broken(found.file, errors)
        for document in documents:
            yield from self._written(found.file, document)

    def _written(self, file: str, document: Document) -> list[Manifest]:
        """The objects of a document. Duplicate keys outside of them, such as two `items` of a list, are problems."""
        manifests = list(self._objects_of(file, document))
        for path in document.duplicates:
            if not any(path[: len(each.path)] == each.path and not _is_envelope(each) for each in manifests):
                self._add_duplicate(path, file, document)
        return manifests


def _is_envelope(manifest: Manifest) -> bool:
    return bool(manifest.object["kind"] == "AdmissionReview")
