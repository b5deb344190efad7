"""An API server as users of kubectl see it: objects in, answers with warnings out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from multidict import CIMultiDict

from testbed.answers import Answer, warnings_in
from testbed.kubectl import WRITE, patch_of, with_last_applied
from webhook.cluster.resources import RESOURCES
from webhook.cluster.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from testbed.background import Background
    from webhook.cluster.credentials import Access, Credentials
    from webhook.cluster.resources import Resource


Headers: TypeAlias = "Sequence[tuple[str, str]]"
"""Names and values; a name may occur several times."""

_JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_SECONDS = 40.0
_NO_STRATEGY = ("gpu-admission.io", "nvidia.com")
"""Groups of custom resources, which support only JSON merge patches."""


class API:
    """Requests of one user; thread-safe."""

    def __init__(
        self, background: Background, credentials: Credentials, transport: Transport, headers: Headers = ()
    ) -> None:
        self._background = background
        self._credentials = credentials
        self._transport = transport
        self._headers = headers

    @classmethod
    async def connect(cls, background: Background, credentials: Credentials) -> API:
        """Connect with credentials."""
        return cls(background, credentials, Transport(credentials.access))

    def as_user(self, headers: Headers) -> API:
        """The same API server for another user, by headers."""
        return API(self._background, self._credentials, self._transport, headers)

    @property
    def access(self) -> Access:
        """The address and credentials of the server."""
        return self._transport.access

    def close(self) -> None:
        """Close every connection."""
        self._background.run(self._transport.close())

    def create(self, document: dict[str, Any], *, dry_run: bool = False) -> Answer:
        """`kubectl create`."""
        resource = RESOURCES[document["kind"]]
        if resource.other_versions:
            resource = replace(resource, version=document["apiVersion"].rpartition("/")[2])
        path = resource.path(_namespace_of(document))
        return self.request("POST", path, WRITE | ({"dryRun": "All"} if dry_run else {}), document)

    def apply(self, document: dict[str, Any]) -> Answer:
        """`kubectl apply` on the client's side: created, or patched by what differs."""
        stored = self.get(document["kind"], document["metadata"]["name"], _namespace_of(document))
        if stored.code == 404:
            return self.create(with_last_applied(document))
        group = document["apiVersion"].rpartition("/")[0]
        body = patch_of(stored.object, document)
        place = (document["kind"], document["metadata"]["name"], _namespace_of(document))
        return self.patch(*place, body=body, content_type=MERGE_PATCH if group in _NO_STRATEGY else STRATEGIC_PATCH)

    def replace(self, document: dict[str, Any], subresource: str = "") -> Answer:
        """`kubectl replace`."""
        path = self.served_resource(document["kind"]).path(
            _namespace_of(document), document["metadata"]["name"], subresource=subresource
        )
        return self.request("PUT", path, WRITE, document)

    def patch(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        body: Any,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Answer:
        """`kubectl patch`."""
        path = self.served_resource(kind).path(namespace, name, subresource)
        return self.request("PATCH", path, WRITE, body, content_type)

    def get(self, kind: str, name: str, namespace: str = "") -> Answer:
        """`kubectl get` of one object."""
        return self.request("GET", self.served_resource(kind).path(namespace, name))

    def list(self, kind: str, namespace: str = "", **query: str) -> list[Any]:
        """`kubectl get` of all objects."""
        items: list[Any] = self.request("GET", self.served_resource(kind).path(namespace), query).object["items"]
        return items

    def delete(self, kind: str, name: str, namespace: str = "", **options: Any) -> Answer:
        """`kubectl delete`, with DeleteOptions."""
        return self.request("DELETE", self.served_resource(kind).path(namespace, name), {}, options)

    def served_resource(self, kind: str) -> Resource:
        """The resource of a kind, in the first of its versions that is served; the preferred one if none is."""
        resource = RESOURCES[kind]
        for version in resource.versions if resource.other_versions else ():
            answer = self.request("GET", f"/apis/{resource.group}/{version}")
            if answer.code == 200 and any(each["name"] == resource.plural for each in answer.object["resources"]):
                return replace(resource, version=version)
        return resource

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = _JSON,
    ) -> Answer:
        """Any request."""
        return self._background.run(self.send(method, path, query or {}, body, content_type))

    async def send(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> Answer:
        """Any request, in the background's loop."""
        allowed = await self._credentials.authorization()
        headers = CIMultiDict(self._headers)
        if allowed:
            headers.setdefault("Authorization", allowed)
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        async with self._transport.answer(method, path, query, headers, data, total=_SECONDS) as response:
            text = await response.text()
            read = json.loads(text) if response.content_type == _JSON and text else text
            return Answer(response.status, read, warnings_in(response.headers.getall("Warning", [])))


def _namespace_of(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("namespace", ""))
