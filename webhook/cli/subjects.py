"""Subjects: the objects under review, each with the question that the API server would ask about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.entries import CLAIM_KINDS
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.workloads import WORKLOADS, group_of, pod_templates
from policies.patch import Editor
from policies.pod_creation import created_pod
from policies.request import ANONYMOUS, Request
from webhook.cli.problems import Problem
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.workloads import WorkloadKind
    from policies.kubernetes.yaml import Position
    from policies.request import Operation, UserInfo
    from policies.view import ClusterView
    from webhook.cli.documents import Manifest, Reader

__all__ = ["Circumstances", "Subject", "in_namespace", "subjects_of"]

_DEFAULT_NAMESPACE = "default"
_NOTHING_KNOWN = ManifestsView()
_REVIEWED_OBJECT = FieldPath(["request", "object"])
_REVIEWED_OLD_OBJECT = FieldPath(["request", "oldObject"])


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a file does not tell about a request; an AdmissionReview tells it itself."""

    operation: Operation = "CREATE"
    namespace: str = ""
    """Of objects that name none; empty for `default`."""
    user: UserInfo = ANONYMOUS


@dataclass(frozen=True, slots=True)
class Subject:
    """An object under review."""

    request: Request
    manifest: Manifest
    root: FieldPath
    """Where in the manifest the object is: at its root, but for the object of an AdmissionReview."""

    @property
    def document(self) -> Object:
        """The object, or the one that is deleted."""
        return self.request.object or self.request.old_object or {}

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`."""
        version = self.document.get("apiVersion")
        return version if isinstance(version, str) else self.request.group

    @property
    def name(self) -> str:
        """The object's name; of one that is to be named, what its `generateName` begins it with, and a star."""
        generated = lookup(self.document, ("metadata", "generateName"))
        return self.request.name or (f"{generated}*" if isinstance(generated, str) and generated else "")

    @property
    def label(self) -> str:
        """What to call the object in a line of text."""
        namespace = f"{self.request.namespace}/" if self.request.namespace else ""
        return f"{self.request.kind} {namespace}{self.name}"

    @property
    def duplicates(self) -> dict[FieldPath, list[int]]:
        """The lines of each key that the object has more than once, by the path of its value."""
        root = (*self.manifest.path, *self.root)
        return {
            FieldPath(path[len(root) :]): lines
            for path, lines in self.manifest.document.duplicates.items()
            if path[: len(root)] == root
        }

    def position(self, path: Iterable[str | int] = ()) -> Position:
        """Where in the file a field of the object is."""
        return self.manifest.position((*self.root, *path))

    def position_of(self, finding: Finding) -> Position:
        """Where in the file a finding is, inside embedded documents too."""
        if finding.place is None:
            return self.manifest.line_position((*self.root, *finding.path))
        place = finding.place
        return self.manifest.position_within((*self.root, *place.path), place.line, place.column)


def subjects_of(
    manifests: Iterable[Manifest],
    old: Iterable[Manifest],
    circumstances: Circumstances,
    reader: Reader,
    kinds: Mapping[tuple[str, str], WorkloadKind] = WORKLOADS,
    view: ClusterView = _NOTHING_KNOWN,
) -> list[Subject]:
    """The subjects of manifests; what asks nothing that can be understood goes to the reader's problems.

    Args:
        manifests: Objects as they are to be, and whole AdmissionReviews.
        old: The objects as they are, for operation UPDATE.
        circumstances: What the manifests do not tell.
        reader: Collects the problems.
        kinds: What makes pods.
        view: The cluster, with the LimitRanges and PriorityClasses that pods get defaults from.
    """
    before = {_identity(_request(manifest.object, circumstances, kinds, view)): manifest.object for manifest in old}
    subjects: list[Subject] = []
    for manifest in manifests:
        if _is_admission_review(manifest.object):
            subjects += _asked_by_review(manifest, reader, kinds, view)
            continue
        request = _request(manifest.object, circumstances, kinds, view)
        if request.operation == "DELETE":
            request = replace(request, object=None, old_object=request.object)
        elif request.operation == "UPDATE":
            request = replace(request, old_object=before.get(_identity(request)))
            if request.old_object is None:
                subject = Subject(request, manifest, FieldPath())
                message = f"{subject.label} is updated, and the old objects do not hold it"
                reader.problems.append(Problem(manifest.file, message, manifest.position()))
                continue
        subjects.append(Subject(request, manifest, FieldPath()))
    return subjects


def in_namespace(document: Object, namespace: str) -> Object:
    """The object with its namespace filled in where it names none, as the API server does before admission."""
    metadata = document.get("metadata")
    if not namespace or not isinstance(metadata, dict | None) or namespace_of(document):
        return document
    return {**document, "metadata": {**(metadata or {}), "namespace": namespace}}


def _request(
    document: Object, circumstances: Circumstances, kinds: Mapping[tuple[str, str], WorkloadKind], view: ClusterView
) -> Request:
    group, kind = group_of(document), document["kind"]
    namespace = namespace_of(document)
    if _is_pod(group, kind):
        namespace = namespace or circumstances.namespace or _DEFAULT_NAMESPACE
        document = created_pod(in_namespace(document, namespace), namespace, view)
    elif (group, kind) in kinds:
        namespace = namespace or circumstances.namespace or _DEFAULT_NAMESPACE
        document = _with_defaulted_templates(in_namespace(document, namespace), namespace, kinds, view)
    elif (group, kind) == ("", "ConfigMap"):
        # Its namespace decides who reads it, so one that nobody names stays unknown.
        namespace = namespace or circumstances.namespace
        document = in_namespace(document, namespace)
    elif (group, kind) in CLAIM_KINDS and kind != "DeviceClass":
        namespace = namespace or circumstances.namespace or _DEFAULT_NAMESPACE
        document = in_namespace(document, namespace)
    return Request(
        object=document,
        operation=circumstances.operation,
        group=group,
        kind=kind,
        namespace=namespace,
        name=name_of(document),
        user=circumstances.user,
    )


def _asked_by_review(
    manifest: Manifest, reader: Reader, kinds: Mapping[tuple[str, str], WorkloadKind], view: ClusterView
) -> Iterator[Subject]:
    # Here because pydantic, which reads the envelope, takes longer to import than a folder of manifests to review.
    from webhook.server.admission_review import BadReview, decode  # noqa: PLC0415

    try:
        request = decode(manifest.object)
    except BadReview as error:
        reader.problems.append(Problem(manifest.file, str(error).rstrip("."), manifest.position()))
        return
    request = replace(request, name=request.name or name_of(request.object or {}))
    if request.object is not None:
        request = request.of(_with_defaulted_templates(request.object, request.namespace, kinds, view))
    yield Subject(request, manifest, _REVIEWED_OLD_OBJECT if request.object is None else _REVIEWED_OBJECT)


def _with_defaulted_templates(
    document: Object, namespace: str, kinds: Mapping[tuple[str, str], WorkloadKind], view: ClusterView
) -> Object:
    """The workload with its templates as the API server will see their pods."""
    edits = Editor(document)
    for found in pod_templates(document, kinds):
        for path, value in found.edits(created_pod(found.template, namespace, view)):
            edits.replace(path, value)
    defaulted: Object = edits.document
    return defaulted


def _is_pod(group: str, kind: str) -> bool:
    return (group, kind) == ("", "Pod")


def _is_admission_review(document: Object) -> bool:
    return group_of(document) == "admission.k8s.io" and document["kind"] == "AdmissionReview"


def _identity(request: Request) -> tuple[str, str, str, str]:
    return request.group, request.kind, request.namespace, request.name
