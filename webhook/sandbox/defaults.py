"""Decodes objects of requests: prunes and defaults custom resources by their schema.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import base64
import copy
import json
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from policies.kubernetes import pod_templates as defaults
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from webhook.sandbox.statuses import Cause, bad_request, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.store import Call


def decode(kind: Kind, document: Object, call: Call) -> Object:
    """The object by the schema of its kind; warns of unknown fields.

    Raises:
        Refused: It has unknown fields, and the request has `fieldValidation: Strict`.
    """
    if kind.schema is None:
        return document
    known, unknown = prune(kind.schema, document)
    problems = [f'unknown field "{path}"' for path in unknown]
    wanted = call.options.get("fieldValidation", "Warn")
    if problems and wanted == "Strict":
        error = f"strict decoding error: {', '.join(problems)}"
        if call.options["kind"] == "PatchOptions":
            patched = json.dumps(json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
            raise invalid("", "", "", [Cause("patch", "Invalid", f"{patched}: {error}")])
        named = kind.resource.kind
        raise bad_request(f'{named} in version "{kind.resource.version}" cannot be handled as a {named}: {error}')
    if wanted == "Warn":
        for problem in problems:
            call.warn(problem)
    decoded: Object = _fill_defaults(kind.schema, known)
    return decoded


def decode_mutated(kind: Kind, document: Object) -> Object:
    """The object after mutating webhooks, decoded without warnings."""
    if kind.schema is None:
        return document
    decoded: Object = _fill_defaults(kind.schema, prune(kind.schema, document)[0])
    return decoded


_ALWAYS = ("apiVersion", "kind", "metadata")
"""Fields of every object, which a schema need not contain."""
_KEEPS_ALL = "x-kubernetes-preserve-unknown-fields"


def prune(schema: Object, document: Object) -> tuple[Object, list[str]]:
    """The object without unknown fields, and the sorted paths of these."""
    unknown: list[str] = []
    always = {name: {_KEEPS_ALL: True} for name in _ALWAYS}
    known = _prune({**schema, "properties": {**(schema.get("properties") or {}), **always}}, document, "", unknown)
    return known, sorted(unknown)


def _prune(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {_KEEPS_ALL: schema.get(_KEEPS_ALL)}
        return [_prune(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    kept = {}
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if name in fields:
            kept[name] = _prune(fields[name], item, at, unknown)
        elif isinstance(others, dict):
            kept[name] = _prune(others, item, at, unknown)
        elif others is True or schema.get(_KEEPS_ALL):
            kept[name] = item
        else:
            unknown.append(at)
    return kept


def _fill_defaults(schema: Object, value: Any) -> Any:
    """The value with the schema's defaults, also for null if it is not nullable."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_fill_defaults(schema["items"], item) for item in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    result = dict(value)
    for name, field in fields.items():
        if "default" in field and (name not in result or (result[name] is None and not field.get("nullable"))):
            result[name] = copy.deepcopy(field["default"])
    for name, item in result.items():
        field = fields.get(name) or (others if isinstance(others, dict) else None)
        if field:
            result[name] = _fill_defaults(field, item)
    return result


def with_defaults(resource: Resource, document: Object) -> Object:
    """The object with its defaults, as a copy.

    Objects of unknown kinds, and of other kinds than the resource's, as in subresources, are returned unchanged.
    """
    fill = _FILLERS.get((resource.group, resource.kind))
    return fill(document) if fill and document.get("kind") == resource.kind else document


def _at(document: Object, path: tuple[str, ...], fill: Callable[[Object], Object]) -> Object:
    """The document with `fill` applied to every object at a path."""
    if not path:
        return fill(document)
    inner = document.get(path[0])
    if isinstance(inner, list):
        return {**document, path[0]: [_at(item, path[1:], fill) if isinstance(item, dict) else item for item in inner]}
    if isinstance(inner, dict):
        return {**document, path[0]: _at(inner, path[1:], fill)}
    return document


def _pod(pod: Object) -> Object:
    """A pod with defaults of its spec, and a request for every limit without one."""
    filled = _at(pod, ("spec",), lambda spec: {"enableServiceLinks": True, **_pod_spec(spec)})
    return defaults.with_defaults(filled)


def _template(*path: str) -> Callable[[Object], Object]:
    """The function that fills the pod template at a path; templates keep limits without requests."""
    return lambda workload: _at(workload, (*path, "spec"), _pod_spec)


def _pod_spec(spec: Object) -> Object:
    filled = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
    }
    for field in ("initContainers", "containers"):
        if isinstance(spec.get(field), list):
            filled[field] = [_container(container) for container in spec[field]]
    return filled


def _container(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    filled = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": _pull_policy(container.get("image")),
        **container,
    }
    filled = _at(filled, ("resources", "limits"), _quantities)
    filled = _at(filled, ("resources", "requests"), _quantities)
    return _at(filled, ("ports",), lambda port: {"protocol": "TCP", **port})


def _pull_policy(image: object) -> str:
    """`Always` for the tag `latest`, written or not."""
    name = str(image or "").rpartition("/")[2]
    is_latest = name.endswith(":latest") or not ({":", "@"} & set(name))
    return "Always" if is_latest else "IfNotPresent"


def _quantities(amounts: dict[str, Any]) -> dict[str, Any]:
    return {name: canonical_quantity(amount) for name, amount in amounts.items()}


_SUFFIXES = dict(zip(range(-3, 19, 3), ("m", "", "k", "M", "G", "T", "P", "E"), strict=False))
_LEAST_BINARY = 1024


def canonical_quantity(amount: Any) -> Any:
    """An amount as the API server writes it: `500m` for 0.5, `1` for the number 1; unchanged if invalid.

    Source: k8s.io/apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes; SetDefaults_ResourceList of core/v1,
    which rounds up to thousandths.
    """
    try:
        value = parse_quantity(amount)
    except QuantityError:
        return amount
    value = Fraction(ceil(value * 1000) if value > 0 else floor(value * 1000), 1000)
    if value == 0:
        return "0"
    text = str(amount)
    if text.endswith("i") and abs(value) >= _LEAST_BINARY and value.denominator == 1:
        return _binary(int(value))
    return _decimal(value, has_exponent="e" in text.lower()[:-1] and not text.endswith("i"))


def _binary(value: int) -> str:
    power = 0
    while value % _LEAST_BINARY == 0 and power < len("KMGTPE"):
        value, power = value // _LEAST_BINARY, power + 1
    return f"{value}{'KMGTPE'[power - 1]}i" if power else str(value)


def _decimal(value: Fraction, *, has_exponent: bool) -> str:
    exponent = max(exponent for exponent in _SUFFIXES if (value / Fraction(10) ** exponent).denominator == 1)
    number = int(value / Fraction(10) ** exponent)
    if has_exponent:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_SUFFIXES[exponent]}"


def _namespace(namespace: Object) -> Object:
    """A namespace with the label of its name, which users cannot change or remove."""
    name = lookup(namespace, ("metadata", "name"))
    labels = {**(lookup(namespace, ("metadata", "labels")) or {}), "kubernetes.io/metadata.name": name}
    return _at(namespace, ("metadata",), lambda metadata: {**metadata, "labels": labels} if name else metadata)


def _claim(*path: str) -> Callable[[Object], Object]:
    """The function that fills the claim spec at a path."""

    def fill(document: Object) -> Object:
        for form in ("exactly", "firstAvailable"):
            document = _at(document, (*path, "devices", "requests", form), _device_request)
        return document

    return fill


def _device_request(request: Object) -> Object:
    filled = {**request, "allocationMode": request.get("allocationMode") or "ExactCount"}
    if filled["allocationMode"] == "ExactCount":
        filled["count"] = request.get("count") or 1
    return _at(filled, ("tolerations",), lambda toleration: {"operator": "Equal", **toleration})


def _secret(secret: Object) -> Object:
    """A secret with a type, and with `stringData` in `data`."""
    read = {"type": "Opaque", **{key: value for key, value in secret.items() if key != "stringData"}}
    texts = secret.get("stringData")
    if isinstance(texts, dict):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
        read["data"] = {**(read.get("data") or {}), **encoded}
    return read


def _webhook(kind_defaults: Object) -> Callable[[Object], Object]:
    def fill(webhook: Object) -> Object:
        filled = {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
            **kind_defaults,
            **webhook,
        }
        filled = _at(filled, ("clientConfig", "service"), lambda service: {"port": 443, **service})
        return _at(filled, ("rules",), lambda rule: {"scope": "*", **rule})

    return lambda configuration: _at(configuration, ("webhooks",), fill)


def _admission_policy(policy: Object) -> Object:
    filled = _at(policy, ("spec",), lambda spec: {"failurePolicy": "Fail", **spec})
    filled = _at(
        filled,
        ("spec", "matchConstraints"),
        lambda match: {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, **match},
    )
    return _at(filled, ("spec", "matchConstraints", "resourceRules"), lambda rule: {"scope": "*", **rule})


_RBAC = "rbac.authorization.k8s.io"


def _role_binding(binding: Object) -> Object:
    """A binding with the API group of its role, its users and its groups; service accounts have none."""
    filled = _at(binding, ("roleRef",), lambda role: {**role, "apiGroup": role.get("apiGroup") or _RBAC})
    return _at(filled, ("subjects",), _subject)


def _subject(subject: Object) -> Object:
    own = subject.get("kind") in ("User", "Group") and not subject.get("apiGroup")
    return {**subject, "apiGroup": _RBAC} if own else subject


_REGISTRATION = "admissionregistration.k8s.io"
_FILLERS: dict[tuple[str, str], Callable[[Object], Object]] = {
    ("", "Pod"): _pod,
    ("", "Namespace"): _namespace,
    ("", "Secret"): _secret,
    ("", "ResourceQuota"): lambda quota: _at(quota, ("spec", "hard"), _quantities),
    ("", "PodTemplate"): _template("template"),
    ("", "ReplicationController"): _template("spec", "template"),
    **{
        ("apps", kind): _template("spec", "template")
        for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    },
    ("batch", "Job"): _template("spec", "template"),
    ("batch", "CronJob"): _template("spec", "jobTemplate", "spec", "template"),
    ("resource.k8s.io", "ResourceClaim"): _claim("spec"),
    ("resource.k8s.io", "ResourceClaimTemplate"): _claim("spec", "spec"),
    (_REGISTRATION, "MutatingWebhookConfiguration"): _webhook({"reinvocationPolicy": "Never"}),
    (_REGISTRATION, "ValidatingWebhookConfiguration"): _webhook({}),
    (_REGISTRATION, "ValidatingAdmissionPolicy"): _admission_policy,
    (_RBAC, "ClusterRoleBinding"): _role_binding,
    (_RBAC, "RoleBinding"): _role_binding,
}
"""By group and kind."""
