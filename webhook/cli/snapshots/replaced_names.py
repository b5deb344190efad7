"""Replaces the names that users choose, consistently in all objects of a snapshot."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import IGNORE
from policies.kubernetes.objects import lookup, mappings_at, name_of
from policies.quota.ledger.open_charges import Reservations, compact_text
from policies.quota.ledger.status import GarbageError, read_charges
from policies.rules.settings.choices import DRA_DRIVER_NAMESPACES
from policies.rules.settings.exemptions import NEVER_MATCHED
from webhook.cli.snapshots.reductions import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object


_OF_KINDS = {
    "Namespace": "namespace",
    "Node": "node",
    "Pod": "pod",
    "NodePool": "nodepool",
    "ResourceClaim": "claim",
    "ResourceClaimTemplate": "template",
    "ResourceSlice": "slice",
    "PodGroup": "group",
}
"""The words that replace the names of a kind, with a number; those of other kinds with `workload`."""
_KEPT_KINDS = frozenset(
    {
        *("ClusterPolicy", "ConfigMap", "CustomResourceDefinition", "DeviceClass", "GPUAdmissionPolicy", "GPUCluster"),
        *("GPUQuota", "MutatingWebhookConfiguration", "NVIDIADriver", "PriorityClass", "RuntimeClass"),
        *("ValidatingWebhookConfiguration",),
    }
)
"""Kinds whose names rules, patterns or other objects give a meaning."""
_REFERENCES = {
    "namespace": "namespace",
    "nodeName": "node",
    "resourceClaimName": "claim",
    "resourceClaimTemplateName": "template",
    "serviceAccountName": "account",
    "serviceAccount": "account",
    "podGroupName": "group",
    "pool": "node",
    "matchNames": "namespace",
}
"""Fields that name an object, and what its name is replaced with. The pools of NVIDIA's DRA driver are named after nodes."""
_NAMED = {
    "configMapRef": "config",
    "configMapKeyRef": "config",
    "configMap": "config",
    "secretRef": "secret",
    "secretKeyRef": "secret",
    "secret": "secret",
    "imagePullSecrets": "secret",
    "nodePublishSecretRef": "secret",
    "pool": "node",
    "runtimeRef": "workload",
    "workloadRef": "workload",
    "resourceClaimTemplate": "template",
}
"""Fields with a `name`, and what that is replaced with."""
_OF_RESOURCES = {"pods": "pod", "podgroups": "group"}
"""Resources of the consumers of a claim."""
_LABELS = ("labels", "matchLabels", "nodeSelector")
_CONDITIONS = ("matchExpressions", "matchFields", "requirements", "taints", "tolerations")
_HOSTNAME, _NAMESPACE_NAME = "kubernetes.io/hostname", "kubernetes.io/metadata.name"
_NAMES_IN_LABELS = {
    _HOSTNAME: "node",
    _NAMESPACE_NAME: "namespace",
    "metadata.name": "node",
    "karpenter.sh/nodepool": "nodepool",
}
"""Keys of labels and fields whose values are names of objects."""
_KNOWN_DOMAINS = (
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "nvidia.com",
    "gpu-admission.io",
    "karpenter.sh",
    "cloud.google.com",
    "amazonaws.com",
)
"""Domains whose keys are kept, those below them included."""
_KNOWN_VALUES = re.compile(
    r"(?:[\w.-]+\.)?nvidia\.com/|gpu-admission\.io/|(?:beta\.)?kubernetes\.io/(?:os|arch|instance-type)$"
    r"|(?:[\w.-]+\.)?node(?:-role)?\.kubernetes\.io/|topology\.kubernetes\.io/|pod-security\.kubernetes\.io/"
    r"|resource\.kubernetes\.io/|karpenter\.sh/|cloud\.google\.com/gke-(?:accelerator|gpu-partition-size|gpu-sharing-strategy)$"
)
"""Keys whose values are a vocabulary, not names."""
_PUBLIC_VALUES = re.compile(
    r"true|false|[0-9]+|(?:nvidia-|gpu-)[a-z-]*(?:operator|plugin|driver|exporter|manager|validator)[a-z-]*|"
)
"""Values that are kept under every key: those of NVIDIA's components, and those that are no names."""
_PUBLIC_NAMESPACES = ("default", "kube-node-lease", "kube-public", *NEVER_MATCHED, *DRA_DRIVER_NAMESPACES)
_OWN_TEMPLATE = re.compile(r"gpu-[0-9a-f]{16}")
"""Names of our templates, which are hashes of their specs."""
_OF_NVIDIA = re.compile(r"(?:.*/)?(nvcr\.io/nvidia/.+)|((?:(?:index\.|registry-1\.)?docker\.io/)?nvidia/.+)")
"""NVIDIA's images, in its registry, in a mirror named after it, and in Docker Hub."""
_SUBJECTS = {"users": "user", "groups": "usergroup"}
_ACCOUNTS = ("serviceAccounts", "exemptServiceAccounts")
"""Settings with patterns of users, and with patterns `namespace/name` of service accounts."""
_REASON = re.compile(r"because [^;\n]+")
"""The reason of a waiver, which is free text."""
_PATTERN = re.compile(r"[*?\[]")


class ReplacedNames:
    """Gives every name its replacement, such as `namespace-1`; equal names of one sort have the same."""

    def __init__(self, operator_namespaces: Iterable[str] = ()) -> None:
        """The operator's namespaces keep their names, which the settings have too."""
        self._public = frozenset((*_PUBLIC_NAMESPACES, *operator_namespaces))
        self._names: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def name(self, sort: str, name: str) -> str:
        """The replacement of a name of a sort, such as `node`."""
        if not name or (sort == "namespace" and name in self._public) or _OWN_TEMPLATE.fullmatch(name):
            return name
        names = self._names[sort]
        return names.setdefault(name, f"{sort}-{len(names) + 1}")

    def rename(self, document: Object) -> Object:
        """An object of a snapshot with other names."""
        kind = str(document.get("kind"))
        metadata = self._value("", document["metadata"])
        metadata.pop("generateName", None)
        metadata["name"] = self._name_of(kind, name_of(document))
        return {**document, **self._content(kind, document), "metadata": metadata}

    def _content(self, kind: str, document: Object) -> Object:
        """The fields of an object that change, beside its metadata."""
        if kind == "GPUQuota":
            return {"status": self._charges(document.get("status"))}
        if kind == "GPUAdmissionPolicy":
            return {"spec": self._settings("", document.get("spec")), "status": {}}
        if kind in _KEPT_KINDS:
            status = document.get("status")
            if not isinstance(status, dict) or not isinstance(namespace := status.get("namespace"), str):
                return {}
            return {"status": {**status, "namespace": self.name("namespace", namespace)}}
        return {field: self._value(field, value) for field, value in document.items() if field != "metadata"}

    def _name_of(self, kind: str, name: str) -> str:
        return name if kind in _KEPT_KINDS else self.name(_OF_KINDS.get(kind, "workload"), name)

    def _value(self, field: str, value: Any) -> Any:
        if field in _LABELS and isinstance(value, dict) and "nodeSelectorTerms" not in value:
            return {self._key(key): self._label(key, text) for key, text in value.items()}
        if field in _CONDITIONS and isinstance(value, list):
            return [self._condition(item) for item in value]
        if field == "ownerReferences" and isinstance(value, list):
            return [{**each, "name": self._name_of(str(each.get("kind")), str(each.get("name")))} for each in value]
        if field == "reservedFor" and isinstance(value, list):
            return [self._consumer(each) for each in value]
        if field == "annotations" and isinstance(value, dict):
            return {
                key: _REASON.sub(f"because {REDACTED}", text) if key == IGNORE else text for key, text in value.items()
            }
        if field == "env" and isinstance(value, list):
            return [self._variable(each) for each in value]
        if field == "image" and isinstance(value, str):
            return self._image(value)
        if isinstance(value, list):
            return [self._value(field, item) for item in value]
        if isinstance(value, dict):
            renamed = {name: self._value(name, part) for name, part in value.items()}
            if field == "metadata" and isinstance(name := value.get("name"), str):
                renamed["name"] = self.name("workload", name)
            if field in _NAMED and isinstance(name := value.get("name"), str):
                renamed["name"] = self.name(_NAMED[field], name)
            return renamed
        return self.name(_REFERENCES[field], value) if field in _REFERENCES and isinstance(value, str) else value

    def _key(self, key: str) -> str:
        """The key of a label or taint. Keys without a domain, and those of well-known domains, are kept."""
        domain, slash, _ = key.rpartition("/")
        is_known = not slash or any(domain == each or domain.endswith(f".{each}") for each in _KNOWN_DOMAINS)
        return key if is_known else self.name("label", key)

    def _label(self, key: Any, value: Any) -> Any:
        if not isinstance(value, str) or not isinstance(key, str):
            return value
        if key in _NAMES_IN_LABELS:
            return self.name(_NAMES_IN_LABELS[key], value)
        return value if _KNOWN_VALUES.match(key) or _PUBLIC_VALUES.fullmatch(value) else self.name("value", value)

    def _condition(self, condition: Any) -> Any:
        """A condition on labels or fields, a taint or a toleration."""
        if not isinstance(condition, dict):
            return condition
        key = condition.get("key")
        renamed = dict(condition)
        if isinstance(key, str):
            renamed["key"] = self._key(key)
        if "value" in condition:
            renamed["value"] = self._label(key, condition["value"])
        if isinstance(values := condition.get("values"), list):
            renamed["values"] = [self._label(key, each) for each in values]
        return renamed

    def _consumer(self, consumer: Any) -> Any:
        sort = _OF_RESOURCES.get(str(lookup(consumer, ("resource",))), "workload")
        return {**consumer, "name": self.name(sort, str(consumer.get("name")))} if isinstance(consumer, dict) else None

    def _variable(self, variable: Any) -> Any:
        if isinstance(variable, dict) and variable.get("value") == REDACTED:
            return {"name": "VARIABLE", "value": REDACTED}
        return self._value("", variable)

    def _image(self, image: str) -> str:
        """An image; of NVIDIA's, only the registry that has it is replaced."""
        found = _OF_NVIDIA.fullmatch(image)
        return (found[1] or found[2]) if found else self.name("image", image)

    def _charges(self, status: Any) -> Any:
        """The status of a quota, with other names in its charges and without the messages of its conditions."""
        if not isinstance(status, dict):
            return status
        try:
            reservations = read_charges(status)
        except GarbageError:
            reservations = Reservations()
        charges = compact_text(replace(each, name=self._name_of(each.kind, each.name)) for each in reservations)
        conditions = [
            {field: text for field, text in each.items() if field != "message"}
            for each in mappings_at(status, ("conditions",))
        ]
        return {**status, "openCharges": charges, "conditions": conditions}

    def _settings(self, field: str, value: Any) -> Any:
        """Settings, with other names of namespaces, users and service accounts; patterns are kept."""
        if isinstance(value, list):
            return [self._settings(field, item) for item in value]
        if isinstance(value, dict):
            return {name: self._settings(name, item) for name, item in value.items()}
        if not isinstance(value, str) or _PATTERN.search(value):
            return value
        if field in _SUBJECTS:
            return value if value.startswith("system:") else self.name(_SUBJECTS[field], value)
        if field in _ACCOUNTS:
            namespace, slash, account = value.partition("/")
            return f"{self.name('namespace', namespace)}{slash}{self.name('account', account)}"
        return self._names["namespace"].get(value, value)
