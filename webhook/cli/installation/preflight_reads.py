"""The reads, reviews of rights, and dry runs of a preflight."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from policies.admission import CONFIGURATIONS
from policies.analyses.installation.component_versions import component_of
from policies.analyses.installation.dry_runs import DryRun, PlannedObject, refusal_of
from policies.analyses.installation.rights import OwnRules, Right, granting_rights, needed_rights
from policies.cel import CelCompileError, compile_condition, value_of
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    generate_name_of,
    has_ended,
    items_at,
    lookup,
    mapping_at,
    mappings_at,
    name_of,
    namespace_of,
)
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.kubernetes.workloads import pod_templates
from webhook.cli.kubectl import warning_texts
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.progress import current_progress
from webhook.cli.running_clusters import in_parallel
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.kind_reads import Unreadable, read_list, read_object
from webhook.cluster.resources import RESOURCES, Resource
from webhook.cluster.watched_kinds import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from policies.analyses.installation.other_webhooks import Coverage
    from policies.kubernetes.objects import Object
    from webhook.cli.running_clusters import Discovery
    from webhook.cluster.client import APIClient


async def count_pods(client: APIClient, coverage: Coverage | None) -> Mapping[tuple[str, str], int] | Unknown:
    """Count all pods in the coverage; returns the components of NVIDIA that run, with their tags.

    Unknown if pods may not be listed in all namespaces.
    """
    images: Counter[tuple[str, str]] = Counter()

    def add(pod: Object) -> None:
        if coverage is not None:
            coverage.add(pod)
        if not has_ended(pod):
            images.update(dict.fromkeys(_components(pod), 1))

    def show(count: int) -> None:
        current_progress().show_count("reading pods", count)

    found = await read_list(client, Watched(RESOURCES["Pod"]), add, show=show)
    return UNKNOWN if isinstance(found, Unreadable) else images


def _components(pod: Object) -> set[tuple[str, str]]:
    images = (lookup(each, ("image",)) for each in items_at(pod, ("spec", "containers")))
    return {found for image in images if isinstance(image, str) and (found := component_of(image)) is not None}


def conditions_hold(webhook: Object, pod: Object) -> bool:
    """True if the matchConditions of a webhook hold for a new pod, or cannot be evaluated."""
    request: dict[str, Any] = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": namespace_of(pod),
        "userInfo": {"username": "", "groups": []},
    }
    variables: Any = value_of({"object": pod, "oldObject": None, "request": request, "namespaceObject": None})
    for condition in mappings_at(webhook, ("matchConditions",)):
        try:
            verdict, _ = compile_condition(str(condition.get("expression"))).holds(variables)
        except CelCompileError:
            continue
        if verdict is False:
            return False
    return True


_API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
_ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True)
_ADMISSION = "admissionregistration.k8s.io"
_ENGINES = ("kyverno.io", "policies.kyverno.io", "constraints.gatekeeper.sh")
_ENGINE_KINDS = ("Policy", "ClusterPolicy", "ValidatingPolicy", "MutatingPolicy", "ImageValidatingPolicy")
"""Kyverno's kinds that refuse or change objects; every kind of Gatekeeper's group is a constraint."""
_BUILT_IN = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


async def list_objects(
    client: APIClient,
    resource: Resource,
    keep: Callable[[Object], Object | None] = lambda document: document,
    namespace: str = "",
) -> Sequence[Object] | Unknown:
    """The parts that `keep` returns of the objects of a collection; unknown if they cannot be read."""
    found = await read_list(client, Watched(resource, namespace), keep)
    return UNKNOWN if isinstance(found, Unreadable) else found


async def api_services(client: APIClient) -> Sequence[Object] | Unknown:
    """All APIServices."""
    return await list_objects(client, _API_SERVICES)


async def endpoint_slices(client: APIClient) -> Sequence[Object] | Unknown:
    """The EndpointSlices of namespace `default`."""
    return await list_objects(client, _ENDPOINT_SLICES, namespace="default")


async def read_policies(client: APIClient, discovery: Discovery) -> tuple[list[Object], list[str]]:
    """The policies of all engines, with bindings; and the kinds that may not be listed."""
    resources: list[Resource] = []
    for version in (await discovery.versions(_ADMISSION))[:1]:
        kinds = await discovery.kinds(f"{_ADMISSION}/{version}")
        resources += [kinds[name] for each in _BUILT_IN for name in (each, f"{each}Binding") if name in kinds]
    for group in _ENGINES:
        for version in (await discovery.versions(group))[:1]:
            kinds = await discovery.kinds(f"{group}/{version}")
            resources += [each for kind, each in kinds.items() if group == _ENGINES[-1] or kind in _ENGINE_KINDS]
    found = await in_parallel(partial(list_objects, client), resources)
    unread = [each.name for each, listed in zip(resources, found, strict=True) if isinstance(listed, Unknown)]
    return [document for listed in found if not isinstance(listed, Unknown) for document in listed], unread


async def broken_conversions(client: APIClient) -> list[tuple[str, str]] | Unknown:
    """The CRDs of kinds that gpu-admission reads whose conversion webhook fails, with the error of a list."""
    listed = await list_objects(client, RESOURCES["CustomResourceDefinition"], _conversion_of)
    if isinstance(listed, Unknown):
        return UNKNOWN
    broken = []
    for each in listed:
        resource = RESOURCES.get(each["kind"])
        if resource is None or resource.group != each["group"]:
            continue
        try:
            await client.get(resource.path(), {"limit": "1"})
        except APIError as error:
            if not (error.is_forbidden or error.is_not_found):
                broken.append((f"{resource.plural}.{resource.group}", str(error)))
    return broken


def _conversion_of(definition: Object) -> Object | None:
    """Group and kind of a CRD that is converted by a webhook."""
    if lookup(definition, ("spec", "conversion", "strategy")) != "Webhook":
        return None
    return {"group": lookup(definition, ("spec", "group")), "kind": lookup(definition, ("spec", "names", "kind"))}


def node_fields(node: Object) -> Object:
    """The fields of a node that a preflight reads."""
    status = node.get("status")
    return {
        "metadata": {"name": lookup(node, ("metadata", "name"))},
        "spec": {"providerID": lookup(node, ("spec", "providerID"))},
        "status": {
            "nodeInfo": {"kubeletVersion": lookup(status, ("nodeInfo", "kubeletVersion"))},
            "conditions": items_at(status, ("conditions",)),
        },
    }


def slice_fields(document: Object) -> Object:
    """The fields of a ResourceSlice that a preflight reads."""
    spec = document.get("spec")
    return {"spec": {"driver": lookup(spec, ("driver",)), "nodeName": lookup(spec, ("nodeName",))}}


def name_only(document: Object) -> Object:
    """The name of an object."""
    return {"metadata": {"name": lookup(document, ("metadata", "name"))}}


def namespace_fields(document: Object) -> Object | None:
    """The name and the labels of a namespace; None if it is being deleted."""
    if lookup(document, ("metadata", "deletionTimestamp")) is not None:
        return None
    metadata = document.get("metadata")
    return {"metadata": {"name": lookup(metadata, ("name",)), "labels": lookup(metadata, ("labels",)) or {}}}


_HOOK = ("metadata", "annotations", "helm.sh/hook")
_APPLYING_HOOKS = {"pre-install", "post-install", "pre-upgrade", "post-upgrade", "crd-install"}
_WEBHOOKS = ("data", "webhooks.yaml")
"""Where the chart keeps the webhook configurations, which a Job applies after the service."""


def read_manifests(files: Sequence[str]) -> list[Object]:
    """The objects of files; `-` is standard input.

    Raises:
        UnreadableInputError: A file cannot be read, or none has a webhook configuration of gpu-admission.
    """
    reader = ManifestReader()
    objects = [each.object for each in reader.manifests(files)]
    place = ", ".join(files)
    kept = [each for each in objects if _is_applied(each)]
    try:
        kept += _hidden_webhooks(kept)
    except yaml.YAMLError as error:
        reader.problems.append(Problem(place, f"invalid YAML in webhooks.yaml of a ConfigMap: {error}"))
    if not any((each.get("kind"), name_of(each)) in CONFIGURATIONS for each in kept):
        names = " and no ".join(f"{kind} {name}" for kind, name in CONFIGURATIONS)
        reader.problems.append(Problem(place, f"no {names}; give all manifests of gpu-admission"))
    for each in kept:
        if not name_of(each):
            what = f"{each.get('kind')} {generate_name_of(each)}".strip()
            reader.problems.append(Problem(place, f"{what} has no name, so it cannot be applied"))
    reader.check()
    return kept


def _is_applied(document: Object) -> bool:
    """True unless the object is a hook of Helm that runs neither at an installation nor at an upgrade."""
    hooks = {each.strip() for each in str(lookup(document, _HOOK) or "").split(",")} - {""}
    return not hooks or not hooks.isdisjoint(_APPLYING_HOOKS)


def _hidden_webhooks(documents: Iterable[Object]) -> Iterator[Object]:
    """The webhook configurations in the ConfigMap of the chart."""
    for document in documents:
        text = lookup(document, _WEBHOOKS) if document.get("kind") == "ConfigMap" else None
        for found in yaml.safe_load_all(text) if isinstance(text, str) else ():
            if isinstance(found, dict) and (found.get("kind"), name_of(found)) in CONFIGURATIONS:
                yield found


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
    """The rights that applying the objects needs, each with True if the user has it; None if unknown."""
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
