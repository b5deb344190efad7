"""Discovery: the resources that an API server serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup, mappings_at
from webhook.cluster.errors import APIError
from webhook.cluster.resources import Resource

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["Discovery"]


class Discovery:
    """The resources that the API server serves, read once for each group and version."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._known: dict[str, dict[str, Resource]] = {}

    async def resource(self, document: Object) -> Resource | None:
        """The resource of an object; None if the API server does not serve its kind."""
        found = await self.kinds(str(document.get("apiVersion")))
        return found.get(str(document.get("kind")))

    async def kinds(self, api_version: str) -> dict[str, Resource]:
        """The resources of a group and version by kind; empty if it is not served."""
        if api_version not in self._known:
            self._known[api_version] = await self._read(api_version)
        return self._known[api_version]

    async def versions(self, group: str) -> list[str]:
        """The served versions of a group, the preferred one first."""
        answer = await self._get(f"/apis/{group}")
        preferred = lookup(answer, ("preferredVersion", "version"))
        found = [str(each.get("version")) for each in mappings_at(answer, ("versions",))]
        return sorted(found, key=lambda version: version != preferred)

    async def _read(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        answer = await self._get(f"/apis/{api_version}" if group else f"/api/{version}")
        return {
            str(each.get("kind")): Resource(
                group, version, str(each["name"]), str(each.get("kind")), bool(each.get("namespaced"))
            )
            for each in mappings_at(answer, ("resources",))
            if "/" not in str(each.get("name"))
        }

    async def _get(self, path: str) -> Any:
        try:
            return await self._client.get(path)
        except APIError as error:
            # An aggregated API that is not available answers 503; a check of its own says so.
            if error.is_not_found or error.code == 503:
                return None
            raise
