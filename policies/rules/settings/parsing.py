"""Reads a GPUAdmissionPolicy, and reports everything that is wrong with it in words of YAML."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import (
    is_attribute_name,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
    quote,
    write_field,
)
from policies.kubernetes.nodes import NodeTaint, node_taint
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.kubernetes.schema import wrong_type
from policies.kubernetes.workloads import path_steps
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.wishes import Wish, WishError
from policies.rules.checks import Problem
from policies.rules.settings.choices import GPUAdmissionPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic import TypeAdapter

    from policies.rules.settings.choices import WishDefault


_SPEC = FieldPath(["spec"])
_WANTED = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "text",
    "tuple_type": "a list",
}
_UNKNOWN_FIELD = ("unexpected_keyword_argument", "extra_forbidden")


@dataclass(frozen=True, slots=True)
class Format:
    """The format of documents that pydantic reads."""

    schema: Callable[[], Any]
    """Returns its JSON schema."""
    page: str
    """The page that lists its fields."""
    field: str
    """The word for a field of it, with its article."""

    def unknown_field_remedy(self, document: Any, steps: Sequence[str | int]) -> str:
        """The remedy for an unknown field of a document: the most similar field of the format, if any."""
        *above, name = steps
        schema = self.schema()
        found = schema
        for step in (*above, None):
            found = next(each for each in found.get("anyOf", [found]) if each.get("type") != "null")
            if "$ref" in found:
                found = schema["$defs"][found["$ref"].rpartition("/")[2]]
            if step is not None:
                found = found["items"] if isinstance(step, int) else found["properties"][step]
        return write_field(
            name, found["properties"], lookup(document, above), f"write {self.field} that {self.page} lists"
        )


def type_problem(path: FieldPath, detail: Any, document: Any, document_format: Format) -> Problem:
    """The problem of a value.

    Args:
        path: The path of the value.
        detail: An item of `ValidationError.errors`.
        document: The validated document.
        document_format: Its format.
    """
    kind, value = detail["type"], detail["input"]
    if kind == "missing":
        return Problem(path, "is missing", "write it")
    if kind in _UNKNOWN_FIELD:
        return Problem(path, "is unknown", document_format.unknown_field_remedy(document, detail["loc"]))
    if kind in ("enum", "literal_error"):
        expected = detail["ctx"]["expected"].replace("'", "")
        if value is False and "off" in expected:
            return Problem(path, "is false, which is how YAML reads off", 'write "off" in quotes')
        shown = "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else quote(value)
        return Problem(path, f"is {shown}", f"write {expected}")
    if kind in _WANTED:
        found = wrong_type(path, value, _WANTED[kind])
        return Problem(path, found.message, found.remedy)
    message: str = detail["msg"]
    return Problem(path, message[:1].lower() + message[1:], "")


def _wish_problems(path: FieldPath, default: Any) -> Iterator[Problem]:
    """The problems of the `wish` of one default; wrong types are reported elsewhere."""
    wish = lookup(default, ("wish",))
    path /= "wish"
    if wish == {}:
        yield Problem(path, "is empty", "write a wish such as product: H100*, or remove the entry")
    texts = {str(word): text for word, text in wish.items() if isinstance(text, str)} if isinstance(wish, dict) else {}
    if not texts:
        return
    readable = {}
    for word, text in texts.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            yield Problem(path / word, str(error), error.remedy)
        else:
            readable[word] = text
    for words, contradiction in Wish.of(readable).contradictions():
        yield Problem(path, f"cannot be met: {contradiction}", f"change or remove {' or '.join(words)}")


def _joint_problems(defaults: Sequence[WishDefault]) -> Iterator[Problem]:
    """The defaults that contradict others wherever they hold, so that no pod there gets a GPU.

    Patterns are compared as they are written: one default holds wherever another does if it has the same patterns, or
    `*`. Where others meet is known with the namespace, and pods there are refused with the reason.
    """
    if not defaults:
        return
    told: set[tuple[str, frozenset[int]]] = set()
    for index, default in enumerate(defaults):
        sources = {
            word: number
            for number, other in enumerate(defaults)
            if "*" in other.namespaces or set(default.namespaces) <= set(other.namespaces)
            for word in other.wish
        }
        together = Wish.of({word: defaults[number].wish[word] for word, number in sources.items()})
        for words, contradiction in together.contradictions():
            involved = frozenset(sources[word] for word in words)
            if (contradiction, involved) not in told:
                told.add((contradiction, involved))
                others = " and ".join(f"wishes[{number}]" for number in sorted(involved - {index}))
                path = FieldPath((*_SPEC, "placement", "wishes", index, "wish"))
                yield Problem(path, f"cannot be met together with {others}: {contradiction}", "change one of them")


_NO_SCHEDULE = "NoSchedule"
_KUBECTL = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^=:]*))?(?::(?P<effect>[A-Za-z]+))?")
"""`key=value:effect`, as `kubectl taint` takes it."""

_VALUE = "write at most 63 letters, digits, dashes, dots and underscores, with a letter or digit at both ends"
_NOT_RUNNING = "pods that tolerate it would be sent where they cannot run"
_WAIT = "remove the entry, and wait for the nodes"
_NOT_TOLERATED = {
    NodeTaint.CONDITION: (
        (
            "which Kubernetes sets on nodes that are not ready, cordoned, or short of memory, disk or processes; "
            f"{_NOT_RUNNING}"
        ),
        "remove the entry, and have the nodes repaired",
    ),
    NodeTaint.CLOUD: (
        f"which is on nodes that their cloud has not set up yet or has shut down; {_NOT_RUNNING}",
        _WAIT,
    ),
    NodeTaint.ROLE: (
        "which sets nodes apart for a role, such as the control plane, and not for GPUs",
        f"remove the entry, and taint GPU nodes with {GPU_RESOURCE} or a key of your own",
    ),
    NodeTaint.AUTOSCALED: (
        f"with which an autoscaler marks nodes that it is about to start or to remove; {_NOT_RUNNING}",
        "remove the entry",
    ),
    NodeTaint.STARTING: (
        f"which is on nodes that are not set up yet, and tells the cluster autoscaler so; {_NOT_RUNNING}",
        _WAIT,
    ),
    NodeTaint.PAUSED: (
        f"which is on nodes that take no pods for a while, and tells the cluster autoscaler so; {_NOT_RUNNING}",
        _WAIT,
    ),
    NodeTaint.NETWORK: (
        f"which is on nodes where Cilium has not set up the network yet; {_NOT_RUNNING}",
        _WAIT,
    ),
}
"""Taints that are not for GPU pods: the reason and the remedy."""


def _taint_problems(path: FieldPath, taint: Any) -> Iterator[Problem]:
    """The problems of one taint; wrong types and effects are reported elsewhere."""
    key, value = lookup(taint, ("key",)), lookup(taint, ("value",))
    if isinstance(key, str):
        yield from _key_problems(path / "key", key)
    if isinstance(value, str) and not is_label_value(value):
        yield Problem(path / "value", f"is {quote(value)}", _VALUE)
    narrows = isinstance(taint, dict) and (bool(taint.get("value")) or taint.get("namespaces", ["*"]) != ["*"])
    if key == GPU_RESOURCE and taint.get("effect", _NO_SCHEDULE) == _NO_SCHEDULE and narrows:
        text = f"is {quote(GPU_RESOURCE)}, which GPU pods of every converting namespace tolerate, whatever its value"
        yield Problem(path / "key", text, "taint nodes with another key to reserve them")


def _key_problems(path: FieldPath, key: str) -> Iterator[Problem]:
    if not key:
        yield Problem(path, "is empty, which would stand for every taint", "write the key of one taint")
    elif is_label_key(key):
        if (kind := node_taint(key)) is not None:
            reason, remedy = _NOT_TOLERATED[kind]
            yield Problem(path, f"is {quote(key)}, {reason}", remedy)
    elif (parts := _KUBECTL.fullmatch(key)) and is_label_key(parts["key"]):
        written = ", ".join(f"{name}: {text}" for name, text in parts.groupdict().items() if text)
        yield Problem(path, f"is {quote(key)}, as kubectl spells a taint", f"write {written}")
    else:
        yield Problem(path, f"is {quote(key)}", f"write a name such as {GPU_RESOURCE} or dedicated")


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WORDS = {
    "group": (re.compile(rf"{_LABEL}(\.{_LABEL})+"), "the API group of a custom resource, such as example.com"),
    "kind": (re.compile("[A-Z][A-Za-z0-9]*"), "the kind as objects spell it, such as TrainingRun"),
    "resource": (re.compile(_LABEL), "the plural as kubectl api-resources lists it, such as trainingruns"),
}
"""Fields with one word, and what to write."""
_PATH = "a path such as spec.template or spec.workers[*].template"


def _kind_problems(path: FieldPath, entry: Any) -> Iterator[Problem]:
    """The problems of one added kind; wrong types are reported elsewhere."""
    for name, (pattern, wanted) in _WORDS.items():
        value = lookup(entry, (name,))
        if isinstance(value, str) and not pattern.fullmatch(value):
            yield Problem(path / name, f"is {quote(value)}", f"write {wanted}")
    if lookup(entry, ("templates",)) == []:
        yield Problem(path / "templates", "is empty", "write where the pod templates are, such as [spec.template]")
    templates = [steps for _, _, steps in _paths(entry, "templates") if steps]
    for key in ("templates", "counts"):
        for index, text, steps in _paths(entry, key):
            if not steps:
                yield Problem(path / key / index, f"is {quote(text)}", f"write {_PATH}")
            elif key == "counts" and not any(each[: len(steps) - 1] == steps[:-1] for each in templates):
                parent = text.rpartition(".")[0]
                place = f"in {parent} or below it" if parent else "in the object"
                message = f"is {quote(text)}, and no template is {place}, so it counts nothing"
                yield Problem(path / key / index, message, "remove it")


def _paths(entry: Any, field: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """The texts of a list of paths, with their steps; no steps if a text is not a path."""
    value = lookup(entry, (field,))
    for index, text in enumerate(value if isinstance(value, list) else ()):
        if isinstance(text, str):
            try:
                yield index, text, path_steps(text)
            except ValueError:
                yield index, text, ()


_RULE_ID = re.compile(r"GA[0-9]{3}")
_ACCOUNT = re.compile(r"[-a-z0-9*?\[\]!]+/[-a-z0-9.*?\[\]!]+")
_USER = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
"""The user name of a service account."""

_ACCOUNTS = ("access", "exemptServiceAccounts")
_EXEMPT_FROM = re.compile(r"conversion|access|GA(?:[0-9]{3}|[0-9]{0,2}\*)")
_PART = re.compile(r"[0-9]{1,4}/[1-9][0-9]{0,3}|[01](?:\.[0-9]{1,6})?")
_MEMORY = re.compile(r"[1-9][0-9]{0,8}[MGT]i?")
"""Memory with a unit, so that it is no fraction."""
_UNLIMITED_SHARE = ("quota", "unlimitedShare")
_NIC = ("conversion", "nic")
_TRUSTED = ("quota", "trustedCreators")
_SUBJECTS = ("users", "groups", "serviceAccounts")
_EMPTY = {
    ("conversion", "schedulers"): ("so nothing would be converted", "default-scheduler"),
    ("configuration", "operatorNamespaces"): (
        "so nothing of the GPU Operator would be found",
        "gpu-operator and nvidia-gpu-operator",
    ),
    _TRUSTED: ("so the claims of pods would be charged a second time", "Kubernetes' own controllers"),
}
"""Lists that must not be empty: the consequence, and the default."""


def _spec_problems(spec: Any) -> Iterator[Problem]:
    """The problems of a spec of any shape, besides types."""
    for path, check in _ITEMS.items():
        for index, item in enumerate(items_at(spec, path)):
            place = FieldPath((*_SPEC, *path, index))
            if lookup(item, ("namespaces",)) == []:
                yield Problem(place / "namespaces", "is empty", "remove it to mean every namespace")
            yield from check(place, item)
    for path, (consequence, default) in _EMPTY.items():
        if lookup(spec, path) == []:
            place = FieldPath((*_SPEC, *path))
            yield Problem(place, f"is empty, {consequence}", f"remove it to mean {default}")
    yield from _nic_problems(FieldPath((*_SPEC, *_NIC)), lookup(spec, _NIC))
    for index, user in enumerate(items_at(spec, _TRUSTED)):
        if user == "":
            place = FieldPath((*_SPEC, *_TRUSTED, index))
            yield Problem(place, "is empty", "write the name of a user, such as system:kube-scheduler")
    share = lookup(spec, _UNLIMITED_SHARE)
    if share and isinstance(share, str) and not (_is_part(share) or _MEMORY.fullmatch(share)):
        remedy = 'write a part of a GPU, above 0 and at most 1, such as "1/8", or memory such as "10Gi"'
        yield Problem(FieldPath((*_SPEC, *_UNLIMITED_SHARE)), f"is {quote(share)}", remedy)
    yield from _account_problems(FieldPath((*_SPEC, *_ACCOUNTS)), items_at(spec, _ACCOUNTS))


def _nic_problems(path: FieldPath, nic: Any) -> Iterator[Problem]:
    device_class, attribute = lookup(nic, ("deviceClass",)), lookup(nic, ("matchAttribute",))
    if isinstance(device_class, str) and not is_dns_subdomain(device_class):
        remedy = "write the name of a DeviceClass, such as rdma-nic"
        yield Problem(path / "deviceClass", f"is {quote(device_class)}", remedy)
    if isinstance(attribute, str) and not is_attribute_name(attribute):
        remedy = "write an attribute with its domain, such as resource.kubernetes.io/pcieRoot"
        yield Problem(path / "matchAttribute", f"is {quote(attribute)}", remedy)


def _override_problems(path: FieldPath, override: Any) -> Iterator[Problem]:
    rule = lookup(override, ("rule",))
    if isinstance(rule, str) and not _RULE_ID.fullmatch(rule):
        yield Problem(path / "rule", f"is {quote(rule)}", "write GA and three digits, such as GA307")


def _account_problems(path: FieldPath, accounts: Iterable[Any]) -> Iterator[Problem]:
    for index, account in enumerate(accounts):
        if isinstance(account, str) and not _ACCOUNT.fullmatch(account):
            user = _USER.fullmatch(account)
            written = f'"{user[1]}/{user[2]}"' if user else "namespace/name, such as monitoring/dcgm-exporter"
            yield Problem(path / index, f"is {quote(account)}", f"write {written}")


def _exemption_problems(path: FieldPath, exemption: Any) -> Iterator[Problem]:
    if isinstance(exemption, dict) and not any(exemption.get(key) for key in _SUBJECTS):
        yield Problem(path, "exempts no user", f"name users in {', '.join(_SUBJECTS[:-1])} or {_SUBJECTS[-1]}")
    if lookup(exemption, ("from",)) == []:
        remedy = "write conversion, access, or rules, such as [GA307]"
        yield Problem(path / "from", "is empty, so it exempts from nothing", remedy)
    for index, what in enumerate(items_at(exemption, ("from",))):
        if isinstance(what, str) and not _EXEMPT_FROM.fullmatch(what):
            remedy = "write conversion, access, or rules such as GA307 or GA6*"
            yield Problem(path / "from" / index, f"is {quote(what)}", remedy)
    yield from _account_problems(path / "serviceAccounts", items_at(exemption, ("serviceAccounts",)))


def _weight_problems(path: FieldPath, weight: Any) -> Iterator[Problem]:
    if lookup(weight, ("products",)) == []:
        yield Problem(path / "products", "is empty, so it weighs nothing", 'write ["*"] to mean every product')
    for index, product in enumerate(items_at(weight, ("products",))):
        if product == "":
            yield Problem(path / "products" / index, "is empty", 'write a product such as "Tesla-T4" or "H100*"')
    gpus = lookup(weight, ("gpus",))
    if isinstance(gpus, str) and not _is_part(gpus):
        remedy = 'write how much of a GPU a replica is, above 0 and at most 1, such as "1/4"'
        yield Problem(path / "gpus", f"is {quote(gpus)}", remedy)


def _is_part(text: str) -> bool:
    """True if a text is a fraction above 0 and at most 1."""
    return _PART.fullmatch(text) is not None and 0 < Fraction(text) <= 1


_ITEMS: dict[tuple[str, ...], Callable[[FieldPath, Any], Iterator[Problem]]] = {
    ("rules",): _override_problems,
    ("exemptions",): _exemption_problems,
    ("placement", "wishes"): _wish_problems,
    ("placement", "tolerations"): _taint_problems,
    ("quota", "weights"): _weight_problems,
    ("workloads", "kinds"): _kind_problems,
}
"""Lists whose items hold in namespaces, and what else is checked of an item."""


API_VERSION = "gpu-admission.io/v1alpha1"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


class SettingsError(ValueError):
    """A document that is no valid GPUAdmissionPolicy."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(". ".join(each.text for each in problems))


def parse_settings(document: Any) -> GPUAdmissionPolicy:
    """Read a GPUAdmissionPolicy object.

    Raises:
        SettingsError: with every problem of the document.
    """
    from pydantic import ValidationError

    if not isinstance(document, dict):
        text = "a GPUAdmissionPolicy is a mapping with apiVersion, kind, metadata and spec"
        raise SettingsError([Problem(FieldPath(), text, "")])
    problems = list(_envelope_problems(document))
    spec = {} if document.get("spec") is None else document["spec"]
    try:
        # As JSON and strictly, because that is how the API server reads it: "no" is text, and 1 is not true.
        policy = _adapter().validate_json(json.dumps(spec, default=str), strict=True)
    except ValidationError as error:
        problems += [_type_problem(detail, spec) for detail in error.errors(include_url=False)]
    except RecursionError as error:
        text = "is nested more deeply than any setting"
        raise SettingsError([Problem(_SPEC, text, "write only settings that docs/settings.md lists")]) from error
    problems += _spec_problems(spec)
    if not problems:
        problems += _joint_problems(policy.placement.wishes)
    if problems:
        raise SettingsError(problems)
    return policy


@cache
def _adapter() -> TypeAdapter[GPUAdmissionPolicy]:
    from pydantic import TypeAdapter

    return TypeAdapter(GPUAdmissionPolicy)


def _envelope_problems(document: dict[str, Any]) -> Iterator[Problem]:
    for field, right in (("apiVersion", API_VERSION), ("kind", "GPUAdmissionPolicy")):
        if document.get(field) != right:
            yield Problem(FieldPath([field]), f"is {_value_text(document.get(field))}", f'write "{right}"')
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name != "default":
        found = f"is {_value_text(name)}, and a cluster has only one GPUAdmissionPolicy"
        yield Problem(FieldPath(["metadata", "name"]), found, 'write "default"')
    for key in document:
        if key not in _FIELDS:
            found = "is an unknown field of a GPUAdmissionPolicy"
            yield Problem(FieldPath([key]), found, "move it below spec if it is a setting, or remove it")


def _value_text(value: Any) -> str:
    return "missing" if value is None else f'"{value}"' if isinstance(value, str) else "not text"


_SETTINGS = Format(cache(lambda: _adapter().json_schema()), "docs/settings.md", "a setting")


def _type_problem(detail: Any, spec: Any) -> Problem:
    path = FieldPath((*_SPEC, *detail["loc"]))
    if detail["type"] in ("enum", "literal_error") and detail["input"] == "NoExecute":
        text = (
            "is NoExecute, which no pod is made to tolerate: it would stay on a node that everything else has to leave"
        )
        return Problem(path, text, "write the toleration into the pods that are meant to stay")
    return type_problem(path, detail, spec, _SETTINGS)
