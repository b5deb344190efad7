"""Reviews of what the user may do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.analyses.installation.dry_runs import DryRun, PlannedObject, refusal_of
from policies.analyses.installation.rights import OwnRules, Right, granting_rights, needed_rights
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, mapping_at, mappings_at, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import pod_templates
from webhook.cli.kubectl import warning_texts
from webhook.cli.running_clusters.connections import in_parallel
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.kind_reads import Unreadable, read_object
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cli.running_clusters.connections import Discovery
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["plan_objects", "plan_runtime", "read_own_rules", "read_user", "review_rights", "try_objects"]


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


_QUERY = {"dryRun": "All", "fieldManager": "gpu-admission-preflight", "fieldValidation": "Strict"}
"""kubectl validates strictly too."""
_SECONDS = 40.0
"""A webhook may take 30 seconds."""
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_MOST_NAMESPACES = 20
"""Namespaces in which a claim template is tried."""
_TRIAL_NAME = "gpu-admission-preflight"


async def plan_objects(client: APIClient, discovery: Discovery, documents: Iterable[Object]) -> list[PlannedObject]:
    """The objects with what the cluster has of them."""

    async def plan(document: Object) -> PlannedObject:
        resource = await discovery.resource(document)
        if resource is None:
            return PlannedObject(document, resource="", is_namespaced=bool(namespace_of(document)))
        if resource.namespaced and not namespace_of(document):
            document = {**document, "metadata": {**document["metadata"], "namespace": DEFAULT_NAMESPACE}}
        planned = PlannedObject(document, resource=resource.plural, is_namespaced=resource.namespaced)
        stored = await read_object(client, resource, name_of(document), namespace_of(document))
        return replace(planned, stored=UNKNOWN if isinstance(stored, Unreadable) else stored)

    return await in_parallel(plan, documents)


def plan_runtime(
    planned: Sequence[PlannedObject], converting: Sequence[str], *, serves_claims: bool
) -> Iterator[PlannedObject]:
    """Objects that are created later: a pod of each workload, and claim templates."""
    accounts = {each.label for each in planned if each.exists and each.document.get("kind") == "ServiceAccount"}
    for each in planned:
        for template in pod_templates(each.document):
            yield PlannedObject(
                _pod(each.document, template.template, accounts), resource="pods", is_namespaced=True, is_runtime=True
            )
    if serves_claims:
        for namespace in converting[:_MOST_NAMESPACES]:
            yield PlannedObject(
                _template(namespace), resource="resourceclaimtemplates", is_namespaced=True, is_runtime=True
            )


def _pod(workload: Object, template: Object, accounts: set[str]) -> Object:
    """A pod of a workload. If its ServiceAccount does not exist yet, another one stands in."""
    namespace, spec = namespace_of(workload), mapping_at(template, ("spec",))
    account = str(spec.get("serviceAccountName") or "default")
    if f"ServiceAccount {namespace}/{account}" not in accounts:
        spec = {key: value for key, value in spec.items() if key not in ("serviceAccountName", "serviceAccount")}
    marks = {
        key: value for key, value in mapping_at(template, ("metadata",)).items() if key in ("labels", "annotations")
    }
    metadata = {**marks, "name": name_of(workload), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _template(namespace: str) -> Object:
    """A claim template such as conversion creates."""
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1},
    }
    return {
        "apiVersion": RESOURCES["ResourceClaimTemplate"].api_version,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": _TRIAL_NAME, "namespace": namespace, "labels": {MANAGED: "true"}},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


async def try_objects(
    client: APIClient, discovery: Discovery, planned: Sequence[PlannedObject], namespaces: Mapping[str, bool]
) -> list[PlannedObject]:
    """The objects with their dry runs.

    Args:
        client: The connection.
        discovery: The resources that are served.
        planned: The objects.
        namespaces: Those of the objects, each with whether it exists. In place of one that does not, namespace `default` is
            tried, which shows what policies of the whole cluster say.
    """

    async def attempt(each: PlannedObject) -> PlannedObject:
        resource = await discovery.resource(each.document)
        if resource is None or each.stored is UNKNOWN:
            return each
        namespace = namespace_of(each.document)
        if not namespace or namespaces.get(namespace):
            return replace(each, dry_run=await _try(client, resource, each.document, is_change=each.exists))
        if each.document.get("kind") in _BINDINGS:
            # Its role is missing in the other namespace; what the user may grant is checked without a dry run.
            return each
        moved = {**each.document, "metadata": {**each.document["metadata"], "namespace": DEFAULT_NAMESPACE}}
        if lookup(moved, ("metadata", "name")):
            moved["metadata"]["name"] = _TRIAL_NAME
        return replace(each, dry_run=await _try(client, resource, moved, is_change=False))

    return await in_parallel(attempt, planned)


async def _try(client: APIClient, resource: Resource, document: Object, *, is_change: bool) -> DryRun:
    namespace = namespace_of(document)
    try:
        if is_change:
            path = resource.path(namespace, name_of(document))
            answer = await client.answer("PATCH", path, _QUERY, document, content_type=MERGE_PATCH, timeout=_SECONDS)
        else:
            answer = await client.answer("POST", resource.path(namespace), _QUERY, document, timeout=_SECONDS)
    except APIError as error:
        return DryRun(namespace, refusal_of(error.code, error.message))
    except Unreachable as error:
        return DryRun(namespace, refusal_of(0, str(error)))
    return DryRun(namespace, None, warning_texts(answer.headers.getall("Warning", [])))
