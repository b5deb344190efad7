"""Creating objects: decoded, defaulted, mutated, named, validated, stored - in this order, as the API server does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox import strategies
from webhook.sandbox.attempt import Attempt
from webhook.sandbox.cluster import Adopt
from webhook.sandbox.decoding import decoded, decoded_quietly
from webhook.sandbox.defaults import with_defaults
from webhook.sandbox.kinds import CLAIMS_OF_GROUPS, GROUPS
from webhook.sandbox.metadata import check_shape, identified, placed, wiped
from webhook.sandbox.statuses import already_exists, failure, forbidden, not_found
from webhook.sandbox.store import Place

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call, Cluster
    from webhook.sandbox.kinds import Kind

__all__ = ["create", "seed"]

_NAMES_TRIED = 8
_OWN = ("uid", "creationTimestamp", "deletionTimestamp")
_GATED_FIELDS = {"Pod": (GROUPS, "schedulingGroup"), "PodGroup": (CLAIMS_OF_GROUPS, "resourceClaims")}
"""By kind, which gates must be on for which field of the spec."""


async def create(cluster: Cluster, call: Call, kind: Kind, namespace: str, document: Any) -> Object:
    """Create an object; returns it as stored.

    Args:
        cluster: Where.
        call: In whose name.
        kind: What.
        namespace: Of the path; empty for what is in none.
        document: As it was sent.

    Raises:
        Refused: it is not created.
    """
    asked = wiped(placed(kind, decoded(kind, check_shape(kind, document), call), namespace))
    if asked["metadata"].pop("resourceVersion", "") not in ("", "0"):
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    if kind.resource.namespaced:
        _check_namespace(cluster, kind, namespace, asked["metadata"].get("name", ""))
    attempt = _attempt(call, kind, namespace, with_defaults(kind.resource, asked))
    mutated = await cluster.admission.mutate(attempt, call.warn)
    decided = decoded_quietly(kind, check_shape(kind, mutated))
    enabled = _without_disabled(kind, wiped(placed(kind, decided, namespace)), cluster.feature_gates)
    ready = strategies.created(kind, enabled)
    written = await _store(cluster, call, kind, ready)
    if written["metadata"].get("ownerReferences") and not call.dry_run:
        cluster.chores.append(Adopt(Place(kind.key, (namespace, written["metadata"]["name"]))))
    return written


async def _store(cluster: Cluster, call: Call, kind: Kind, ready: Object) -> Object:
    """Store an object under its name, or under the first generated one that is free."""
    generated = not ready["metadata"].get("name")
    for _ in range(_NAMES_TRIED):
        # Defaults once more, as some follow from the name.
        named = with_defaults(kind.resource, identified(ready, cluster.now(), cluster.random))
        strategies.check(kind, named)
        namespace, name = named["metadata"].get("namespace", ""), named["metadata"]["name"]
        await cluster.admission.validate(_attempt(call, kind, namespace, named), call.warn)
        found = cluster.store.get(kind, namespace, name)
        if found is None:
            return named if call.dry_run else cluster.commit(kind, named)
        if not generated:
            break
    ending = found is not None and "deletionTimestamp" in found.decode(kind)["metadata"]
    raise already_exists(kind.resource, name, ending=ending)


def _attempt(call: Call, kind: Kind, namespace: str, document: Object) -> Attempt:
    name = document["metadata"].get("name", "")
    namespace = name if kind.resource.kind == "Namespace" else namespace
    return Attempt("CREATE", kind.resource, "", namespace, name, document, None, call.user, call.dry_run, call.options)


def _check_namespace(cluster: Cluster, kind: Kind, namespace: str, name: str) -> None:
    """A namespace has to exist, and to be there to stay. Source: the NamespaceLifecycle admission plug-in."""
    namespaces = cluster.kinds.at("", "v1", "namespaces")
    found = cluster.get("Namespace", namespace)
    if found is None and namespaces is not None:
        raise not_found(namespaces.resource, namespace)
    if found is not None and "deletionTimestamp" in found["metadata"]:
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(kind.resource, name, why, [cause])


def seed(cluster: Cluster, kind: Kind, document: Object) -> Object:
    """Store an object as it is, past admission, with its status, and with its uid if it has one.

    Raises:
        Refused: it has no shape of an object, is not valid, or there is one of its name.
    """
    given = with_defaults(kind.resource, check_shape(kind, document))
    namespace = given["metadata"].get("namespace") or "default" if kind.resource.namespaced else ""
    made = strategies.created(kind, identified(placed(kind, given, namespace), cluster.now(), cluster.random))
    own = {key: given["metadata"][key] for key in _OWN if given["metadata"].get(key)}
    status = {"status": given["status"]} if "status" in given else {}
    seeded = {**made, "metadata": {**made["metadata"], **own}, **status}
    strategies.check(kind, seeded)
    name = seeded["metadata"]["name"]
    if cluster.store.get(kind, namespace, name) is not None:
        raise already_exists(kind.resource, name)
    return cluster.commit(kind, seeded)


def _without_disabled(kind: Kind, document: Object, feature_gates: frozenset[str]) -> Object:
    """A new object without the fields of gates that are off, as dropDisabledFields of the API server's strategies does."""
    needs, field = _GATED_FIELDS.get(kind.resource.kind, (frozenset(), ""))
    spec = document.get("spec")
    if needs <= feature_gates or not isinstance(spec, dict) or field not in spec:
        return document
    return {**document, "spec": {name: value for name, value in spec.items() if name != field}}
