"""The RBAC grants of our account, as single verbs on single resources, in manifests and in docs/security.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webhook.sandbox.kinds import Request

__all__ = ["SUBJECT", "USER", "Grant", "grants_of", "listed_rights"]

SUBJECT = {"kind": "ServiceAccount", "name": "gpu-admission", "namespace": "gpu-admission"}
USER = "system:serviceaccount:gpu-admission:gpu-admission"


@dataclass(frozen=True, slots=True)
class Grant:
    """One verb on one resource."""

    role: str
    namespace: str
    """Empty for everywhere."""
    verb: str
    group: str
    resource: str
    """With its subresource, as rules write it: `pods/status`; or a path such as `/metrics`."""
    names: tuple[str, ...]
    """Empty for all."""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.role}{where}: {self.verb} {self.resource}{'.' if self.group else ''}{self.group}"

    @property
    def right(self) -> Right:
        """The grant as docs/security.md lists it."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return self.verb, resource, self.namespace, self.names

    def covers(self, request: Request) -> bool:
        """Whether it allows a request."""
        resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
        return (
            self.namespace in ("", request.namespace)
            and (self.verb, self.group, self.resource) == (request.verb, request.group, resource)
            and (not self.names or request.name in self.names)
        )


Right = tuple[str, str, str, tuple[str, ...]]
"""A verb, a resource with its group, a namespace (empty for everywhere), and names (empty for all)."""

_PAGE = Path(__file__).parents[2] / "docs" / "security.md"
_HEAD = "| resources | verbs | where | reason |\n|---|---|---|---|\n"
_NAMESPACE, _NAME = re.compile(r"in `([\w-]+)`"), re.compile(r"named `([\w.-]+)`")


def listed_rights(number: int) -> dict[Right, str]:
    """The rights in a table of docs/security.md with their reasons: 0 is of the service, 1 of the hooks of the chart."""
    found = {}
    for row in _PAGE.read_text().split(_HEAD)[number + 1].partition("\n\n")[0].splitlines():
        resources, verbs, where, reason = (cell.strip() for cell in row.strip("|").split("|"))
        namespace = _NAMESPACE.search(where)
        assert (namespace is None) == where.startswith("everywhere"), row
        for resource in re.findall(r"`([^`]+)`", resources):
            for verb in re.findall(r"`(\w+)`", verbs):
                right = verb, resource, namespace[1] if namespace else "", tuple(_NAME.findall(where))
                assert right not in found, f"{right} is listed twice"
                found[right] = reason
    return found


def grants_of(documents: Iterable[dict[str, Any]], subject: dict[str, str] = SUBJECT) -> tuple[Grant, ...]:
    """The rights that bindings among some manifests give to a subject, by the roles among them."""
    documents = [each for each in documents if each["apiVersion"] == "rbac.authorization.k8s.io/v1"]
    roles = {_key(each["kind"], each["metadata"]): each["rules"] for each in documents if "rules" in each}
    return tuple(
        grant
        for binding in documents
        if subject in binding.get("subjects", ())
        for grant in _grants(binding, roles[_key(binding["roleRef"]["kind"], binding["metadata"], binding["roleRef"])])
    )


def _key(kind: str, metadata: dict[str, Any], reference: dict[str, Any] | None = None) -> tuple[str, str, str]:
    return kind, metadata.get("namespace", "") if kind == "Role" else "", (reference or metadata)["name"]


def _grants(binding: dict[str, Any], rules: list[dict[str, Any]]) -> Iterator[Grant]:
    role, namespace = binding["roleRef"]["name"], binding["metadata"].get("namespace", "")
    for rule in rules:
        names = tuple(rule.get("resourceNames", ()))
        for verb in rule["verbs"]:
            for url in rule.get("nonResourceURLs", ()):
                yield Grant(role, namespace, verb, "", url, names)
            for group in rule.get("apiGroups", ()):
                for resource in rule["resources"]:
                    yield Grant(role, namespace, verb, group, resource, names)
