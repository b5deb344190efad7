"""Seeded AdmissionReviews, each for one entry of the webhook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from testbed.differential.seeded_objects import SeededObjects


_USERS = (
    *({"username": "alice", "groups": ["system:authenticated"]},) * 6,
    {"username": "bob", "groups": ["gpu-admins", "system:authenticated"]},
    {"username": "system:serviceaccount:kube-system:resource-claim-controller", "groups": ["system:serviceaccounts"]},
    {"username": "system:serviceaccount:kube-system:job-controller", "groups": ["system:serviceaccounts"]},
    {"username": "system:serviceaccount:ci:deployer-1", "groups": ["system:serviceaccounts:ci"]},
    {"username": "system:kube-scheduler"},
    {"username": "system:node:gpu-h100-01", "groups": ["system:nodes"]},
)


@dataclass(frozen=True)
class Call:
    """A review and where it is posted."""

    path: str
    review: dict[str, Any]

    def with_uid(self, uid: str) -> Call:
        """The same question as another request."""
        return Call(self.path, {**self.review, "request": {**self.review["request"], "uid": uid}})


class Entries:
    """Paths of the webhook, and when its configurations call them."""

    def __init__(self, configurations: Iterable[dict[str, Any]], namespaces: Iterable[dict[str, Any]]) -> None:
        self._webhooks = [webhook for configuration in configurations for webhook in configuration["webhooks"]]
        self._labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in namespaces}
        self.paths = sorted({_path(webhook) for webhook in self._webhooks})

    def paths_for(self, group: str, resource: str, operation: str, namespace: str) -> list[str]:
        """The paths that are called for a request, apart from match conditions."""
        labels = self._labels.get(namespace, {})
        called = (
            webhook
            for webhook in self._webhooks
            if any(
                group in rule["apiGroups"] and resource in rule["resources"] and operation in rule["operations"]
                for rule in webhook["rules"]
            )
            and all(
                _is_matched(labels, condition)
                for condition in webhook.get("namespaceSelector", {}).get("matchExpressions", [])
            )
        )
        return sorted({_path(webhook) for webhook in called})


def _path(webhook: dict[str, Any]) -> str:
    return str(webhook["clientConfig"]["service"]["path"])


def _is_matched(labels: dict[str, str], condition: dict[str, Any]) -> bool:
    """True if labels satisfy a condition of a label selector."""
    value = labels.get(condition["key"])
    match condition["operator"]:
        case "In":
            return value in condition["values"]
        case "NotIn":
            return value not in condition["values"]
        case "Exists":
            return value is not None
    return value is None


class SeededReviews:
    """Makes reviews, all of them from one source of chance."""

    def __init__(self, random: Random, objects: SeededObjects, entries: Entries) -> None:
        self._random = random
        self._objects = objects
        self._entries = entries

    def uid(self) -> str:
        """A seeded uid."""
        return str(UUID(int=self._random.getrandbits(128)))

    def call(self) -> Call:
        """One more review."""
        random = self._random
        given = self._objects.any_object()
        group, _, version = str(given.get("apiVersion")).rpartition("/")
        found = given.get("metadata")
        metadata: dict[str, Any] = found if isinstance(found, dict) else {}
        if metadata and random.random() < 0.9:
            metadata["uid"] = self.uid()
        kind = given["kind"]
        plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}".replace("ys", "ies")
        named = metadata.get("namespace")
        namespace = named if isinstance(named, str) and random.random() < 0.97 else self._objects.namespace()
        operation = random.choice([*["CREATE"] * 7, "UPDATE", "UPDATE", "DELETE"])
        request: dict[str, Any] = {
            "uid": self.uid(),
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": plural},
            "name": metadata.get("name") if isinstance(metadata.get("name"), str) else "",
            "namespace": namespace,
            "operation": operation,
            "userInfo": random.choice(_USERS),
            "object": None if operation == "DELETE" else given,
            "oldObject": None if operation == "CREATE" else self._objects.former_object(given),
            "dryRun": random.random() < 0.25,
        }
        if random.random() < 0.05:
            request["subResource"] = random.choice(["status", "ephemeralcontainers", "scale"])
        usual = self._entries.paths_for(group, plural, operation, namespace)
        path = random.choice(usual if usual and random.random() < 0.9 else self._entries.paths)
        return Call(path, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
