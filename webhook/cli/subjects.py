"""Subjects: the objects under review, each with the request that the API server would send about it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from policies.admission import CLAIM_KINDS, ObjectReview, review_object
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    FieldPath,
    generate_name_of,
    in_namespace,
    name_of,
    namespace_of,
)
from policies.kubernetes.pod_templates import created_pod
from policies.kubernetes.view import ChangedView
from policies.kubernetes.workloads import WORKLOADS, group_of, pod_templates
from policies.quota.limits.cluster_quota import quotas_shown
from policies.quota.limits.quota import GROUP, QUOTA_NAME
from policies.rules.patch import Editor
from policies.rules.request import ANONYMOUS, Request
from webhook.cli.manifest_reader import Problem
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.kubernetes.workloads import WorkloadKind
    from policies.kubernetes.yaml import Position
    from policies.quota.balance import QuotaBalance
    from policies.quota.limits.quota import QuotaNames
    from policies.rules.charges import ChargeRequest
    from policies.rules.decision import Finding
    from policies.rules.request import Operation, UserInfo
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.manifest_reader import Manifest


_REVIEWED_OBJECT = FieldPath(["request", "object"])
_REVIEWED_OLD_OBJECT = FieldPath(["request", "oldObject"])


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The parts of a request that a manifest lacks; an AdmissionReview has its own."""

    operation: Operation = "CREATE"
    namespace: str = ""
    """The namespace of objects without one; empty for `default`."""
    user: UserInfo = ANONYMOUS


@dataclass(frozen=True, slots=True)
class Subject:
    """An object under review."""

    request: Request
    manifest: Manifest
    root: FieldPath
    """The path of the object in the manifest; empty unless it is the object of an AdmissionReview."""

    @property
    def document(self) -> Object:
        """The object, or the object that is deleted."""
        return self.request.object or self.request.old_object or {}

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`."""
        version = self.document.get("apiVersion")
        return version if isinstance(version, str) else self.request.group

    @property
    def name(self) -> str:
        """The object's name, or its `generateName` with a star."""
        generated = generate_name_of(self.document)
        return self.request.name or (f"{generated}*" if generated else "")

    @property
    def label(self) -> str:
        """Kind, namespace and name of the object."""
        namespace = f"{self.request.namespace}/" if self.request.namespace else ""
        return f"{self.request.kind} {namespace}{self.name}"

    @property
    def duplicates(self) -> dict[FieldPath, list[int]]:
        """The line numbers of duplicate keys, by the path of the value."""
        root = (*self.manifest.path, *self.root)
        return {
            FieldPath(path[len(root) :]): lines
            for path, lines in self.manifest.document.duplicates.items()
            if path[: len(root)] == root
        }

    def position(self, path: Iterable[str | int] = ()) -> Position:
        """The position in the file of a field of the object."""
        return self.manifest.position((*self.root, *path))

    def position_of(self, finding: Finding) -> Position:
        """The position in the file of a finding, also inside embedded documents."""
        if finding.place is None:
            return self.manifest.line_position((*self.root, *finding.path))
        place = finding.place
        return self.manifest.position_within((*self.root, *place.path), place.line, place.column)


@dataclass(frozen=True, slots=True)
class SubjectReader:
    """Makes subjects of manifests."""

    circumstances: Circumstances
    problems: list[Problem]
    """Collects the manifests that make no request."""
    kinds: Mapping[tuple[str, str], WorkloadKind] = field(default_factory=lambda: WORKLOADS)
    """The kinds that create pods."""
    view: ClusterView = field(default_factory=ManifestsView)
    """The cluster, with the LimitRanges and PriorityClasses that pods get defaults from."""

    def subjects(self, manifests: Iterable[Manifest], old: Iterable[Manifest] = ()) -> list[Subject]:
        """The subjects of objects and whole AdmissionReviews; `old` has the objects before an update."""
        before = {_identity(self._request(manifest.object)): manifest.object for manifest in old}
        return [subject for manifest in manifests for subject in self._subjects_of(manifest, before)]

    def _subjects_of(self, manifest: Manifest, before: Mapping[tuple[str, ...], Object]) -> Iterator[Subject]:
        if group_of(manifest.object) == "admission.k8s.io" and manifest.object["kind"] == "AdmissionReview":
            yield from self._subjects_of_review(manifest)
            return
        request = self._request(manifest.object)
        if request.operation == "DELETE":
            request = replace(request, object=None, old_object=request.object)
        elif request.operation == "UPDATE":
            request = replace(request, old_object=before.get(_identity(request)))
            if request.old_object is None:
                subject = Subject(request, manifest, FieldPath())
                message = f"{subject.label} is updated, but the old objects do not contain it"
                self.problems.append(Problem(manifest.file, message, manifest.position()))
                return
        yield Subject(request, manifest, FieldPath())

    def _subjects_of_review(self, manifest: Manifest) -> Iterator[Subject]:
        from webhook.server.admission_review import BadReview, decode

        try:
            request = decode(manifest.object)
        except BadReview as error:
            self.problems.append(Problem(manifest.file, str(error).rstrip("."), manifest.position()))
            return
        request = replace(request, name=request.name or name_of(request.object or {}))
        if request.object is not None:
            request = request.of(self._with_defaulted_templates(request.object, request.namespace))
        yield Subject(request, manifest, _REVIEWED_OLD_OBJECT if request.object is None else _REVIEWED_OBJECT)

    def _request(self, document: Object) -> Request:
        group, kind = group_of(document), document["kind"]
        is_pod, is_workload = (group, kind) == ("", "Pod"), (group, kind) in self.kinds
        is_claim = (group, kind) in CLAIM_KINDS and RESOURCES[kind].namespaced
        resource = RESOURCES.get(kind)
        if resource is not None and resource.group == group and not resource.namespaced and namespace_of(document):
            # As the API server: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go BeforeCreate.
            named = document["metadata"]
            document = {**document, "metadata": {key: named[key] for key in named if key != "namespace"}}
        namespace = namespace_of(document)
        if is_pod or is_workload or is_claim:
            namespace = namespace or self.circumstances.namespace or DEFAULT_NAMESPACE
        elif (group, kind) == ("", "ConfigMap"):
            # The namespace decides who reads it, so it has no default.
            namespace = namespace or self.circumstances.namespace
        if is_pod or is_workload or is_claim or (group, kind) == ("", "ConfigMap"):
            document = in_namespace(document, namespace)
        if is_pod:
            document = created_pod(document, namespace, self.view)
        elif is_workload:
            document = self._with_defaulted_templates(document, namespace)
        return Request(
            object=document,
            operation=self.circumstances.operation,
            group=group,
            kind=kind,
            namespace=namespace,
            name=name_of(document),
            user=self.circumstances.user,
        )

    def _with_defaulted_templates(self, document: Object, namespace: str) -> Object:
        """The workload with the defaults that the API server will fill into its pods."""
        edits = Editor(document)
        for template in pod_templates(document, self.kinds):
            for path, value in template.edits(created_pod(template.template, namespace, self.view)):
                edits.replace(path, value)
        defaulted: Object = edits.document
        return defaulted


def _identity(request: Request) -> tuple[str, ...]:
    return request.group, request.kind, request.namespace, request.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(ObjectReview):
    """The review of a subject."""

    subject: Subject


def admit(subject: Subject, view: ClusterView, settings: GPUAdmissionPolicy) -> Result:
    """Review a subject as all webhooks would, and the pods of a workload as they would be created."""
    duplicates = subject.duplicates if subject.manifest.document.duplicates else None
    found = review_object(subject.request, view, settings, duplicates)
    return Result(**{each.name: getattr(found, each.name) for each in fields(ObjectReview)}, subject=subject)


_QUOTA = "GPUQuota"


class ChargedReviews:
    """Reviews objects one after another: what is admitted counts against the quotas of those after it.

    Pods and claims that the cluster has count from the beginning, and the same object in a file is not counted again.
    """

    def __init__(self, view: ManifestsView, settings: GPUAdmissionPolicy) -> None:
        """`view` is the cluster, with all objects under review."""
        self._view = view
        self._settings = settings
        self._balances: dict[Key, QuotaBalance | None] = {}
        """By GPUQuota or GPUQuotaGroup; None for one that cannot be read."""

    @property
    def shortages(self) -> Iterator[str]:
        """A sentence for each limit that is too small for all objects together, without a full stop."""
        for balance in self._balances.values():
            if balance is not None:
                yield from balance.shortages

    def admit(self, subject: Subject) -> Result:
        """The result for the next object."""
        request = subject.request
        key = request.kind, request.namespace, request.name
        namespace = request.namespace
        shown = {_key_of(each, namespace): (names, each) for names, each in quotas_shown(namespace, self._view)}
        # A quota is read and its pods are counted when the first object is charged.
        quotas = {each: cache(partial(self._quota_for, key, each, *found)) for each, found in shown.items()}
        result = admit(subject, ChangedView(self._view, quotas), self._settings)
        if not result.requested:
            return result
        balances = {
            each: balance for each, found in shown.items() if (balance := self._balance(each, *found)) is not None
        }
        created: Sequence[tuple[ChargeRequest, int]] = () if result.is_refused else result.requested
        for balance in balances.values():
            created = balance.part_that_fits(key, created)
        for each, balance in balances.items():
            self._balances[each] = balance.after(key, result.requested, created)
        return result

    def _quota_for(self, key: Key, quota: Key, names: QuotaNames, document: Object) -> Object:
        """The quota as an object finds it when it is created."""
        balance = self._balance(quota, names, document)
        return document if balance is None else balance.document_for(key)

    def _balance(self, quota: Key, names: QuotaNames, document: Object) -> QuotaBalance | None:
        """The balance of a quota; None if it cannot be read."""
        from policies.quota.balance import open_balance

        if quota not in self._balances:
            before = self._view.before_review("Pod", "ResourceClaim", _QUOTA, GROUP)
            kind, namespace, name = quota
            stored = before.get(kind, name, namespace)
            if isinstance(stored, dict) and "status" in stored:
                document = {"status": stored["status"], **document}
            self._balances[quota] = open_balance(names, document, before, self._settings.quota)
        return self._balances[quota]


def _key_of(quota: Object, namespace: str) -> Key:
    """The key of a quota that limits a namespace."""
    return (GROUP, "", name_of(quota)) if quota.get("kind") == GROUP else (_QUOTA, namespace, QUOTA_NAME)
