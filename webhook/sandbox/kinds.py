"""The kinds that the sandbox serves: built-in ones, and those of CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from webhook.cluster.resources import NEW_EVENT, RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["CLAIMS_OF_GROUPS", "CREATED", "GROUPS", "Kind", "Kinds"]

StatusWrites = Literal["", "status", "metadata"]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as the server treats it."""

    resource: Resource
    status: StatusWrites = ""
    """What a write to `/status` may change: empty without `/status`, only the status, or labels and annotations too."""
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
        """How the JSON of an object begins."""
        names = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        return orjson.dumps(names)[:-1] + b","


GROUPS = frozenset(["GenericWorkload"])
"""Feature gates: PodGroups are served, and pods name theirs. Source: pkg/features/kube_features.go of Kubernetes 1.36."""
CLAIMS_OF_GROUPS = GROUPS | {"DRAWorkloadResourceClaims"}
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


_GATED: dict[str, tuple[frozenset[str], dict[str, Any]]] = {
    "PodGroup": (GROUPS, {"status": "status", "shown_when_deleted": True}),
}
"""Likewise, kinds that are served only where feature gates are on, and which."""


CREATED = {
    "binding": Kind(Resource("", "v1", "pods", "Binding", namespaced=True)),
    "eviction": Kind(Resource("policy", "v1", "pods", "Eviction", namespaced=True)),
}
"""The kinds of the subresources of pods that are created."""


class Kinds:
    """Every kind that is served at the moment, in each of its versions."""

    def __init__(self, feature_gates: frozenset[str] = frozenset()) -> None:
        """Serves built-in kinds, and those of the enabled feature gates."""
        self._served: dict[tuple[str, str, str], Kind] = {}
        gated = {name: facts for name, (needs, facts) in _GATED.items() if needs <= feature_gates}
        for name, facts in {**_BUILT_IN, **gated}.items():
            fields = tuple(facts.get("fields", "").split())
            self._add(Kind(RESOURCES[name], **{**facts, "fields": fields}))
        # Stored apart from the core form: nothing reads events that another program wrote in the other form.
        self._add(Kind(NEW_EVENT, put_creates=True))

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
