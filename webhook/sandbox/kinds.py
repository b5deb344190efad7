"""The kinds that the sandbox serves: built-in ones, and those of CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import orjson

from policies.devices.device_taint_rules import KIND as TAINT_RULE
from policies.devices.device_taint_rules import TAINT_RULE_VERSIONS
from policies.devices.pod_groups import POD_GROUP, POD_GROUP_VERSIONS
from policies.kubernetes.versions import Feature, Stage
from webhook.cluster.resources import NEW_EVENT, RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import User


StatusWrites = Literal["", "status", "metadata"]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as the server treats it."""

    resource: Resource
    status: StatusWrites = ""
    """The part that a write to `/status` may change: empty without `/status`, only the status, or labels and
    annotations too."""
    generation: bool = False
    """True if `metadata.generation` counts changes of the spec."""
    unconditional: bool = True
    """True if a PUT may omit `resourceVersion`."""
    put_creates: bool = False
    """True if a PUT creates a missing object."""
    shown_when_deleted: bool = False
    """True if a DELETE returns the object instead of a Status."""
    review: bool = False
    """True for reviews, which are answered and not stored."""
    custom: bool = False
    """True if a CustomResourceDefinition defines it."""
    fields: tuple[str, ...] = ()
    """Fields for field selectors, beside `metadata.name` and `metadata.namespace`."""
    schema: Object | None = None
    """The OpenAPI schema of a custom resource."""

    @property
    def key(self) -> Key:
        """Group and plural, the same in all versions."""
        return self.resource.group, self.resource.plural

    @property
    def head(self) -> bytes:
        """The beginning of the JSON of an object."""
        names = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return orjson.dumps(names)[:-1] + b","


GROUPS = frozenset([Feature.GenericWorkload.name])
"""Feature gates: PodGroups are served, and pods name theirs."""
CLAIMS_OF_GROUPS = GROUPS | {Feature.DRAWorkloadResourceClaims.name}
"""Feature gates: the pods of a PodGroup share claims."""

_BUILT_IN: dict[str, dict[str, Any]] = {
    "Namespace": {"status": "metadata", "fields": "status.phase"},
    "Node": {"status": "metadata", "fields": "spec.unschedulable"},
    "Pod": {
        "status": "metadata",
        "generation": True,
        "shown_when_deleted": True,
        "fields": "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.nominatedNodeName status.phase status.podIP",
    },
    "ConfigMap": {},
    "Secret": {"fields": "type"},
    "Event": {
        "put_creates": True,
        "fields": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid reason type",
    },
    "Service": {"status": "metadata", "shown_when_deleted": True},
    "ServiceAccount": {"shown_when_deleted": True},
    "LimitRange": {"put_creates": True},
    "PodTemplate": {"shown_when_deleted": True},
    "ReplicationController": {"status": "metadata", "generation": True},
    "ResourceQuota": {"status": "metadata", "shown_when_deleted": True},
    "Lease": {"unconditional": False, "put_creates": True},
    "Deployment": {"status": "status", "generation": True},
    "ReplicaSet": {"status": "metadata", "generation": True},
    "StatefulSet": {"status": "metadata", "generation": True},
    "DaemonSet": {"status": "metadata", "generation": True},
    "Job": {"status": "metadata", "generation": True},
    "CronJob": {"status": "metadata", "generation": True},
    "NetworkPolicy": {"generation": True},
    "PodDisruptionBudget": {"status": "metadata", "generation": True},
    "RuntimeClass": {},
    "PriorityClass": {},
    "DeviceClass": {"generation": True, "shown_when_deleted": True},
    "ResourceClaim": {"status": "status", "shown_when_deleted": True},
    "ResourceClaimTemplate": {"shown_when_deleted": True},
    "ResourceSlice": {"generation": True, "shown_when_deleted": True, "fields": "spec.nodeName spec.driver"},
    "MutatingWebhookConfiguration": {"generation": True, "unconditional": False},
    "ValidatingWebhookConfiguration": {"generation": True, "unconditional": False},
    "ValidatingAdmissionPolicy": {"status": "status", "generation": True, "unconditional": False},
    "ValidatingAdmissionPolicyBinding": {"generation": True, "unconditional": False},
    "CustomResourceDefinition": {"status": "status", "generation": True, "unconditional": False},
    "FlowSchema": {"status": "status", "generation": True},
    "PriorityLevelConfiguration": {"status": "status", "generation": True},
    "ClusterRole": {"put_creates": True},
    "ClusterRoleBinding": {"put_creates": True},
    "Role": {"put_creates": True},
    "RoleBinding": {"put_creates": True},
    "TokenReview": {"review": True},
    "SubjectAccessReview": {"review": True},
    "SelfSubjectAccessReview": {"review": True},
}
"""By kind. Source: the strategies in kubernetes/pkg/registry of 1.36, what `kubectl api-resources` prints, and for PUT and
DELETE what Kubernetes 1.36.2 answered.
"""


CREATED = {
    "binding": Kind(Resource("", "v1", "pods", "Binding", namespaced=True)),
    "eviction": Kind(Resource("policy", "v1", "pods", "Eviction", namespaced=True)),
}
"""The kinds of the subresources of pods that are created."""


class Kinds:
    """Every kind that is served at the moment, in each of its versions."""

    def __init__(self, feature_gates: frozenset[str] = frozenset(), version: str = "1.36.0") -> None:
        """Serves the built-in kinds of a version of Kubernetes, and those of the enabled feature gates."""
        self._served: dict[tuple[str, str, str], Kind] = {}
        for name, facts in _BUILT_IN.items():
            fields = tuple(facts.get("fields", "").split())
            self._add(Kind(RESOURCES[name], **{**facts, "fields": fields}))
        self._feature_gates = feature_gates
        self.upgrade(version)
        # Stored apart from the core form: nothing reads events that another program wrote in the other form.
        self._add(Kind(NEW_EVENT, put_creates=True))

    def upgrade(self, version: str) -> None:
        """Serve PodGroups and DeviceTaintRules in the versions that a version of Kubernetes has.

        Their feature gates turn on what is off by default: for DeviceTaintRules, the beta and alpha versions too.
        """
        major, minor, *_ = map(int, version.split("."))
        changing = POD_GROUP, TAINT_RULE
        self._served = {where: kind for where, kind in self._served.items() if kind.resource.kind not in changing}
        for each, feature in TAINT_RULE_VERSIONS.items():
            stage = feature.stage_in((major, minor))
            is_on = stage is not None and (stage.is_on or Feature.DRADeviceTaintRules.name in self._feature_gates)
            if is_on and stage is not Stage.REMOVED:
                self._add(
                    Kind(
                        replace(RESOURCES[TAINT_RULE], version=each, other_versions=()),
                        status="status",
                        generation=True,
                    )
                )
        for each, feature in POD_GROUP_VERSIONS.items() if self._feature_gates >= GROUPS else ():
            if feature.stage_in((major, minor)) not in (None, Stage.REMOVED):
                resource = replace(RESOURCES[POD_GROUP], version=each, other_versions=())
                self._add(Kind(resource, status="status", shown_when_deleted=True))

    def _add(self, kind: Kind) -> None:
        self._served[kind.resource.group, kind.resource.version, kind.resource.plural] = kind

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._served.values())

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind that a path names."""
        return self._served.get((group, version, plural))

    def find(self, kind: str, api_version: str | None = None) -> Kind | None:
        """A kind by name; without `apiVersion`, built-in kinds come first."""
        return next(
            (
                served
                for served in self
                if served.resource.kind == kind and api_version in (None, served.resource.api_version)
            ),
            None,
        )

    def of_key(self, key: Key) -> Kind | None:
        """A kind by group and plural, in whichever version comes first."""
        return next((kind for kind in self if kind.key == key), None)

    def define(self, definition: Object) -> None:
        """Serve the versions of a CustomResourceDefinition, instead of its old ones."""
        self.forget(definition)
        spec = definition["spec"]
        names = spec["names"]
        for version in spec["versions"]:
            if not version.get("served"):
                continue
            resource = Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                spec["scope"] == "Namespaced",
                tuple(names.get("shortNames") or ()),
            )
            self._add(
                Kind(
                    resource,
                    "status" if "status" in (version.get("subresources") or {}) else "",
                    generation=True,
                    unconditional=False,
                    custom=True,
                    schema=(version.get("schema") or {}).get("openAPIV3Schema"),
                )
            )

    def forget(self, definition: Object) -> None:
        """Stop serving the kind of a CustomResourceDefinition."""
        key = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        self._served = {where: kind for where, kind in self._served.items() if not (kind.custom and kind.key == key)}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a path: an object, a subresource, or a collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    """Empty for a collection."""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """The resource of the kind."""
        return self.kind.resource


def parse_path(kinds: Kinds, path: str) -> Target | None:
    """The target of a decoded path; None if it is not served."""
    match path.strip("/").split("/"):
        case ["api", version, *steps]:
            group = ""
        case ["apis", group, version, *steps]:
            pass
        case _:
            return None
    match steps:
        case ["namespaces", namespace, plural, *rest] if (
            found := kinds.at(group, version, plural)
        ) is not None and found.resource.namespaced:
            pass
        case [plural, *rest]:
            namespace = ""
        case _:
            return None
    kind = kinds.at(group, version, plural)
    if kind is None or len(rest) > 2 or "" in (*rest, namespace or "-"):
        return None
    if rest and kind.resource.namespaced and not namespace:
        return None
    name, subresource = (*rest, "", "")[:2]
    return Target(kind, namespace, name, subresource)


_VERB_OF_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request in terms of RBAC, for tests that compare requests with roles."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


def record_of(user: User, method: str, target: Target, query: Mapping[str, str]) -> Request:
    """The record of a request, with the verb of RBAC."""
    verb = _VERB_OF_METHOD.get(method, method.lower())
    if verb == "get" and not target.name:
        verb = "watch" if query.get("watch") in ("true", "1") else "list"
    if verb == "delete" and not target.name:
        verb = "deletecollection"
    resource = target.resource
    name = target.name or (_selected_name(query) if verb in ("list", "watch") else "")
    return Request(user.name, verb, resource.group, resource.plural, target.subresource, target.namespace, name)


def _selected_name(query: Mapping[str, str]) -> str:
    """The name in a field selector, which RBAC treats as the name of the request; empty without one.

    Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
    """
    for term in query.get("fieldSelector", "").split(","):
        field, _, name = term.partition("=")
        if field == "metadata.name":
            return name.removeprefix("=")
    return ""


_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_PART_VERBS = ["get", "patch", "update"]


def version_info(version: str) -> Object:
    """The document at `/version`, for a version such as `1.36.0`."""
    major, minor, *_ = version.split(".")
    return {"major": major, "minor": minor, "gitVersion": f"v{version}+sandbox", "platform": "linux/amd64"}


def discover(kinds: Kinds, path: str) -> Object | None:
    """The document at a path of discovery; None for other paths."""
    match path.strip("/").split("/"):
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = dict.fromkeys(kind.resource.group for kind in kinds if kind.resource.group)
            shown = [_group(kinds, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}
        case ["api", version]:
            return _resources(kinds, "", version)
        case ["apis", group]:
            found = _group(kinds, group)
            return {"kind": "APIGroup", "apiVersion": "v1", **found} if found["versions"] else None
        case ["apis", group, version]:
            return _resources(kinds, group, version)
    return None


def _group(kinds: Kinds, group: str) -> Object:
    versions = dict.fromkeys(kind.resource.version for kind in kinds if kind.resource.group == group)
    shown = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": shown, **({"preferredVersion": shown[0]} if shown else {})}


def _resources(kinds: Kinds, group: str, version: str) -> Object | None:
    served = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].resource.api_version,
        "resources": [resource for kind in served for resource in _resource(kind)],
    }


def _resource(kind: Kind) -> list[Object]:
    """The resource and its subresources."""
    resource = kind.resource
    whole: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["create"] if kind.review else _VERBS,
    }
    if resource.short_names:
        whole["shortNames"] = list(resource.short_names)
    parts = [_part(kind, "status", _PART_VERBS)] if kind.status else []
    if resource.kind == "Namespace":
        parts.append(_part(kind, "finalize", ["update"]))
    if resource.kind == "Pod":
        parts.append(_part(kind, "ephemeralcontainers", _PART_VERBS))
        parts += [{**_part(kind, name, ["create"]), "kind": part.resource.kind} for name, part in CREATED.items()]
    return [whole, *parts]


def _part(kind: Kind, subresource: str, verbs: list[str]) -> Object:
    resource = kind.resource
    return {
        "name": f"{resource.plural}/{subresource}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }


_ROOT = "/openapi/v3"
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def describe(kinds: Kinds, path: str) -> Object | None:
    """The document at a path of OpenAPI; None for other paths."""
    versions: dict[str, list[Kind]] = {}
    for kind in kinds:
        group, version = kind.resource.group, kind.resource.version
        versions.setdefault(f"apis/{group}/{version}" if group else f"api/{version}", []).append(kind)
    if path == _ROOT:
        return {"paths": {name: {"serverRelativeURL": f"{_ROOT}/{name}"} for name in versions}}
    name = path.removeprefix(f"{_ROOT}/")
    if name == path or name not in versions:
        return None
    paths = {}
    for resource in (kind.resource for kind in versions[name]):
        path = resource.path("{namespace}" if resource.namespaced else "", "{name}")
        named = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        patch = {"parameters": [_FIELD_VALIDATION], "responses": {}, "x-kubernetes-group-version-kind": named}
        paths[path.replace("%7B", "{").replace("%7D", "}")] = {"patch": patch}
    info = {"title": "gpu-admission sandbox", "version": "unversioned"}
    return {"openapi": "3.0.0", "info": info, "paths": paths}
