"""Reads repositories: folders with manifests and other YAML and JSON files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import FieldPath
from webhook.cli.folders import is_kustomization, is_suite
from webhook.cli.manifest_reader import ManifestReader, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.yaml import Document
    from webhook.cli.folders import Exclusion, NamedFiles, OtherFiles
    from webhook.cli.manifest_reader import Content, Manifest


class RepositoryReader(ManifestReader):
    """Reads manifests for a review.

    A file of a folder is skipped if it is not a manifest; a named file must be one. A document that cannot be parsed is a
    problem, and the others are read. Rules report duplicate keys, of which the last one counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.empty: list[Problem] = []
        """Named files without documents; they are problems only if other files have objects."""

    def repository(
        self,
        paths: Iterable[str],
        exclusion: Exclusion | None = None,
        named: NamedFiles | None = None,
        *,
        strict: bool = False,
    ) -> list[Manifest]:
        """The objects of files and folders; the items of lists one by one.

        Args:
            paths: Files and folders, or `-`.
            exclusion: The files of folders to skip.
            named: The files of folders that are read for another purpose than their review.
            strict: True if other files of folders are problems.
        """
        manifests: list[Manifest] = []
        for path in paths:
            others = None if strict else self.others
            for found in self._contents([path], exclusion, others, named):
                manifests += (
                    self._objects_of_manifest(found)
                    if found.others is None
                    else self._objects_among_others(found, found.others)
                )
        return manifests

    def _objects_of_manifest(self, found: Content) -> Iterator[Manifest]:
        """The objects of a file that must be a manifest."""
        documents, errors = self._parse(found)
        self._add_broken(found.file, errors)
        if not documents and not errors:
            self.empty.append(Problem(found.file, "holds no Kubernetes objects"))
        for document in documents:
            if is_kustomization(document.value):
                message = "is read by kustomize only; review the output of `kubectl kustomize`"
                self._problem(message, found.file, document, FieldPath())
            elif is_suite(document.value):
                message = "is a suite of policy tests; run gpu-admission test"
                self._problem(message, found.file, document, FieldPath())
            else:
                yield from self._objects_of_document(found.file, document)

    def _objects_among_others(self, found: Content, others: OtherFiles) -> Iterator[Manifest]:
        """The objects of a file that may have other documents."""
        if others.skips_json(found.quick_json):
            return
        documents, errors = others.sort(found.file, *self._parse(found))
        self._add_broken(found.file, errors)
        for document in documents:
            yield from self._objects_of_document(found.file, document)

    def _objects_of_document(self, file: str, document: Document) -> list[Manifest]:
        """The objects of a document; duplicate keys outside of them, such as two `items`, are problems."""
        manifests = list(self._objects_of(file, document))
        for path in document.duplicates:
            inside = (each for each in manifests if path[: len(each.path)] == each.path)
            if all(each.object["kind"] == "AdmissionReview" for each in inside):
                self._add_duplicate(path, file, document)
        return manifests
