"""Reviews of what the user may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.preflight.grants import OwnRules, granting_rights
from policies.preflight.rights import Right, needed_rights
from webhook.cli.running_clusters.server_reads import in_parallel
from webhook.cluster.errors import APIError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.preflight.planned_objects import PlannedObject
    from webhook.cluster.client import APIClient

__all__ = ["read_own_rules", "read_user", "review_rights"]

_REVIEWS = RESOURCES["SelfSubjectAccessReview"]
_RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_USER = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_NOWHERE = "gpu-admission-preflight"
"""A namespace without RoleBindings, because a review of rules needs a namespace."""


async def read_user(client: APIClient) -> str:
    """The name of the user; empty if the API server does not say it."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await _post(client, _USER, review)
    name = lookup(answer, ("status", "userInfo", "username"))
    return name if isinstance(name, str) else ""


async def review_rights(client: APIClient, planned: Sequence[PlannedObject]) -> dict[Right, bool | None]:
    """Whether the user has each right that applying the objects needs; None if that is unknown."""
    rights = list(dict.fromkeys([*needed_rights(planned), *granting_rights(planned)]))

    async def review(right: Right) -> bool | None:
        attributes = {key: value for key, value in right._asdict().items() if value or key == "group"}
        body = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind, "spec": {"resourceAttributes": attributes}}
        allowed = lookup(await _post(client, _REVIEWS.path(), body), ("status", "allowed"))
        return allowed if isinstance(allowed, bool) else None

    answers = await in_parallel(review, rights)
    return dict(zip(rights, answers, strict=True))


async def read_own_rules(client: APIClient, planned: Sequence[PlannedObject]) -> dict[str, OwnRules]:
    """The rules of the user by namespace of roles and bindings; empty for the whole cluster."""
    wanted = dict.fromkeys(
        namespace_of(each.document)
        for each in planned
        if each.group == "rbac.authorization.k8s.io" and name_of(each.document)
    )
    found: dict[str, OwnRules] = {}
    for namespace in wanted:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace or _NOWHERE},
        }
        status = lookup(await _post(client, _RULES, body), ("status",))
        if status is not None:
            rules = [*mappings_at(status, ("resourceRules",)), *mappings_at(status, ("nonResourceRules",))]
            found[namespace] = OwnRules(rules, is_complete=not lookup(status, ("incomplete",)))
    return found


async def _post(client: APIClient, path: str, body: Any) -> Any:
    try:
        return await client.post(path, body)
    except APIError as error:
        if error.is_forbidden or error.is_not_found:
            return None
        raise
