"""Reads a GPUAdmissionPolicy, and reports everything that is wrong with it in words of YAML."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import is_label_key, is_label_value, quote
from policies.kubernetes.nodes import NodeTaint, node_taint
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.wishes import Wish, WishError
from policies.rules.settings.choices import GPUAdmissionPolicy, kind_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic import TypeAdapter

    from policies.rules.settings.choices import WishDefault


_WANTED = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "model_type": "must be a mapping",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
_UNKNOWN_FIELD = ("unexpected_keyword_argument", "extra_forbidden")


def type_problem(detail: Any, unknown_field: str) -> str:
    """The problem of a value, without a full stop.

    Args:
        detail: An item of `ValidationError.errors`.
        unknown_field: The sentence for a field that the format does not have.
    """
    kind, value = detail["type"], detail["input"]
    shown = (
        quote(value)
        if isinstance(value, str | int | float | None)
        else "a list"
        if isinstance(value, list)
        else "a mapping"
    )
    if kind == "missing":
        return "is missing"
    if kind in _UNKNOWN_FIELD:
        return unknown_field
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in ("enum", "literal_error"):
        expected = detail["ctx"]["expected"].replace("'", "")
        if value is False and "off" in expected:
            return 'is false, which is how YAML reads off; write "off" in quotes'
        return f"is {shown}; write {expected}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    wanted = _WANTED.get(kind)
    if wanted == "must be text" and isinstance(value, int | float):
        wanted = "must be text, in quotes"
    message: str = detail["msg"]
    return f"is {shown}; it {wanted}" if wanted else message[:1].lower() + message[1:]


def wish_problems(default: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """The problems of the `wish` of one default; wrong types are reported elsewhere."""
    wish = lookup(default, ("wish",))
    if wish == {}:
        yield ("wish",), "is empty; write what is wished, such as product: H100*, or take the entry away"
    texts = {str(word): text for word, text in wish.items() if isinstance(text, str)} if isinstance(wish, dict) else {}
    if not texts:
        return
    readable = {}
    for word, text in texts.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            yield ("wish", word), f"{error}; {error.remedy}"
        else:
            readable[word] = text
    for words, contradiction in Wish.of(readable).contradictions():
        yield ("wish",), f"can never be met: {contradiction}; change or take away {' or '.join(words)}"


def joint_problems(defaults: Sequence[WishDefault]) -> Iterator[tuple[int, str]]:
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
                yield index, f"can never be met together with {others}: {contradiction}; change one of them"


_NO_SCHEDULE = "NoSchedule"
_KUBECTL = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^=:]*))?(?::(?P<effect>[A-Za-z]+))?")
"""`key=value:effect`, as `kubectl taint` takes it."""

_VALUE = (
    "the value of a taint is at most 63 letters, digits, dashes, dots and underscores, with a letter or digit at both "
    "ends"
)
_EVERYBODYS = (
    "which every GPU pod tolerates, whatever its value and in every namespace; to reserve nodes, taint them with "
    "another key"
)
_NOT_RUNNING = "pods that tolerate it would be sent where they cannot run"
_NOT_TOLERATED = {
    NodeTaint.CONDITION: (
        "which Kubernetes sets on nodes that are not ready, cordoned, or short of memory, disk or processes; "
        f"{_NOT_RUNNING}, so leave it out and have the nodes repaired"
    ),
    NodeTaint.CLOUD: (
        "which is on nodes that their cloud has not set up yet or has shut down; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
    NodeTaint.ROLE: (
        "which sets nodes apart for a role, such as the control plane, and not for GPUs; "
        f"taint GPU nodes with {GPU_RESOURCE} or a key of your own, and leave this one out"
    ),
    NodeTaint.AUTOSCALED: (
        f"with which an autoscaler marks nodes that it is about to start or to remove; {_NOT_RUNNING}, so leave it out"
    ),
    NodeTaint.STARTING: (
        "which is on nodes that are not set up yet, and tells the cluster autoscaler so; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
    NodeTaint.PAUSED: (
        "which is on nodes that take no pods for a while, and tells the cluster autoscaler so; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
    NodeTaint.NETWORK: (
        "which is on nodes where Cilium has not set up the network yet; "
        f"{_NOT_RUNNING}, so leave it out and wait for the nodes"
    ),
}


def taint_problems(taint: Any) -> Iterator[tuple[tuple[str], str]]:
    """The problems of one taint, by field; wrong types and effects are reported elsewhere."""
    key, value = lookup(taint, ("key",)), lookup(taint, ("value",))
    if isinstance(key, str) and (said := _key_problem(key)):
        yield ("key",), said
    if isinstance(value, str) and not is_label_value(value):
        yield ("value",), f"is {quote(value)}; {_VALUE}"
    narrows = isinstance(taint, dict) and (bool(taint.get("value")) or taint.get("namespaces", ["*"]) != ["*"])
    if key == GPU_RESOURCE and taint.get("effect", _NO_SCHEDULE) == _NO_SCHEDULE and narrows:
        yield ("key",), f"is {quote(GPU_RESOURCE)}, {_EVERYBODYS}"


def _key_problem(key: str) -> str:
    if not key:
        return "is empty, which would stand for every taint; write the key of one"
    if is_label_key(key):
        kind = node_taint(key)
        return "" if kind is None else f"is {quote(key)}, {_NOT_TOLERATED[kind]}"
    parts = _KUBECTL.fullmatch(key)
    if parts and is_label_key(parts["key"]):
        written = ", ".join(f"{name}: {text}" for name, text in parts.groupdict().items() if text)
        return f"is {quote(key)}, as kubectl spells a taint; write {written}"
    return f"is {quote(key)}; the key of a taint is a name such as {GPU_RESOURCE} or dedicated"


_RULE_ID = re.compile(r"GA[0-9]{3}")
_ACCOUNT = re.compile(r"[-a-z0-9*?\[\]!]+/[-a-z0-9.*?\[\]!]+")
_USER = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
"""The user name of a service account."""

_ACCOUNTS = ("access", "exemptServiceAccounts")
_EXEMPT_FROM = re.compile(r"conversion|access|GA(?:[0-9]{3}|[0-9]{0,2}\*)")
_WEIGHT = re.compile(r"[0-9]{1,4}/[1-9][0-9]{0,3}|[01](?:\.[0-9]{1,6})?")
_TRUSTED = ("quota", "trustedCreators")
_SUBJECTS = ("users", "groups", "serviceAccounts")
_EMPTY = {
    ("conversion", "schedulers"): "is empty, so nothing would be converted; leave it out to mean default-scheduler",
    ("configuration", "operatorNamespaces"): (
        "is empty, so nothing of the GPU Operator would be found; leave it out to mean gpu-operator and "
        "nvidia-gpu-operator"
    ),
    _TRUSTED: (
        "is empty, so the claims of pods would be charged a second time; leave it out to mean Kubernetes' own controllers"
    ),
}
"""The problems of lists that must not be empty."""


def spec_problems(spec: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Where in a spec of any shape something is wrong beside types, and what."""
    for path, check in _ITEMS.items():
        for index, item in enumerate(items_at(spec, path)):
            if lookup(item, ("namespaces",)) == []:
                yield (*path, index, "namespaces"), "is empty; leave it out to mean every namespace"
            for steps, said in check(item):
                yield (*path, index, *steps), said
    for path, said in _EMPTY.items():
        if lookup(spec, path) == []:
            yield path, said
    for index, user in enumerate(items_at(spec, _TRUSTED)):
        if user == "":
            yield (*_TRUSTED, index), "is empty; write the name of a user, such as system:kube-scheduler"
    for index, account in enumerate(items_at(spec, _ACCOUNTS)):
        if isinstance(account, str) and not _ACCOUNT.fullmatch(account):
            yield (*_ACCOUNTS, index), _account_problem(account)


def _override_problems(override: Any) -> Iterator[tuple[tuple[str], str]]:
    rule = lookup(override, ("rule",))
    if isinstance(rule, str) and not _RULE_ID.fullmatch(rule):
        yield ("rule",), f'is "{rule}"; a rule is GA and three digits, such as GA307'


def _account_problem(account: str) -> str:
    user = _USER.fullmatch(account)
    written = f'"{user[1]}/{user[2]}"' if user else "namespace/name, such as monitoring/dcgm-exporter"
    return f"is {quote(account)}; write {written}"


def _exemption_problems(exemption: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(exemption, dict) and not any(exemption.get(key) for key in _SUBJECTS):
        yield (), f"exempts no user; name users in {', '.join(_SUBJECTS[:-1])} or {_SUBJECTS[-1]}"
    if lookup(exemption, ("from",)) == []:
        yield ("from",), "is empty, so it exempts from nothing; write conversion, access, or rules such as GA307"
    for index, what in enumerate(items_at(exemption, ("from",))):
        if isinstance(what, str) and not _EXEMPT_FROM.fullmatch(what):
            said = quote(what)
            yield ("from", index), f"is {said}; write conversion, access, or rules such as GA307 or GA6*"
    for index, account in enumerate(items_at(exemption, ("serviceAccounts",))):
        if isinstance(account, str) and not _ACCOUNT.fullmatch(account):
            yield ("serviceAccounts", index), _account_problem(account)


def _weight_problems(weight: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if lookup(weight, ("products",)) == []:
        yield ("products",), 'is empty, so it weighs nothing; write "*" to mean every product'
    for index, product in enumerate(items_at(weight, ("products",))):
        if product == "":
            yield ("products", index), 'is empty; write a product such as "Tesla-T4" or "H100*"'
    gpus = lookup(weight, ("gpus",))
    if isinstance(gpus, str) and not (_WEIGHT.fullmatch(gpus) and 0 < Fraction(gpus) <= 1):
        said = quote(gpus)
        yield ("gpus",), f'is {said}; write how much of a GPU a replica is, above 0 and at most 1, such as "1/4"'


_ITEMS: dict[tuple[str, ...], Callable[[Any], Iterator[tuple[tuple[str | int, ...], str]]]] = {
    ("rules",): _override_problems,
    ("exemptions",): _exemption_problems,
    ("placement", "wishes"): wish_problems,
    ("placement", "tolerations"): taint_problems,
    ("quota", "weights"): _weight_problems,
    ("workloads", "kinds"): kind_problems,
}
"""Lists whose items hold in namespaces, and what else is checked of an item."""


API_VERSION = "gpu-admission.io/v1alpha1"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC = FieldPath(["spec"])

_NO_EXECUTE = (
    "is NoExecute, which no pod is made to tolerate: it would stay on a node that everything else has to leave; write "
    "such a toleration into the pods that are meant to stay"
)


class SettingsError(ValueError):
    """A document that is no valid GPUAdmissionPolicy; `problems` holds (field path, sentence) pairs."""

    def __init__(self, problems: list[tuple[FieldPath, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {sentence}" if path else sentence for path, sentence in problems))


def parse_settings(document: Any) -> GPUAdmissionPolicy:
    """Read a GPUAdmissionPolicy object.

    Raises:
        SettingsError: with every problem of the document.
    """
    from pydantic import ValidationError

    if not isinstance(document, dict):
        said = "a GPUAdmissionPolicy is a mapping with apiVersion, kind, metadata and spec"
        raise SettingsError([(FieldPath(), said)])
    problems = list(_envelope_problems(document))
    spec = {} if document.get("spec") is None else document["spec"]
    try:
        # As JSON and strictly, because that is how the API server reads it: "no" is text, and 1 is not true.
        policy = _adapter().validate_json(json.dumps(spec, default=str), strict=True)
    except ValidationError as error:
        problems += [_type_problem(detail) for detail in error.errors(include_url=False)]
    except RecursionError as error:
        raise SettingsError([(_SPEC, "is nested more deeply than any setting is")]) from error
    problems += [(FieldPath((*_SPEC, *steps)), said) for steps, said in spec_problems(spec)]
    if not problems:
        problems = [
            (FieldPath((*_SPEC, "placement", "wishes", index, "wish")), said)
            for index, said in joint_problems(policy.placement.wishes)
        ]
    if problems:
        raise SettingsError(problems)
    return policy


@cache
def _adapter() -> TypeAdapter[GPUAdmissionPolicy]:
    from pydantic import TypeAdapter

    return TypeAdapter(GPUAdmissionPolicy)


def _envelope_problems(document: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    if document.get("apiVersion") != API_VERSION:
        yield FieldPath(["apiVersion"]), f'is {_value_text(document.get("apiVersion"))}; write "{API_VERSION}"'
    if document.get("kind") != "GPUAdmissionPolicy":
        yield FieldPath(["kind"]), f'is {_value_text(document.get("kind"))}; write "GPUAdmissionPolicy"'
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name != "default":
        said = f'is {_value_text(name)}; a cluster has one GPUAdmissionPolicy, named "default"'
        yield FieldPath(["metadata", "name"]), said
    for key in document:
        if key not in _FIELDS:
            yield FieldPath([key]), "is an unknown field of a GPUAdmissionPolicy; settings are under spec"


def _value_text(value: Any) -> str:
    return "missing" if value is None else f'"{value}"' if isinstance(value, str) else "not text"


def _type_problem(detail: Any) -> tuple[FieldPath, str]:
    """Where and what."""
    path = FieldPath((*_SPEC, *detail["loc"]))
    if detail["type"] in ("enum", "literal_error") and detail["input"] == "NoExecute":
        return path, _NO_EXECUTE
    return path, type_problem(detail, "is an unknown setting; docs/settings.md lists all settings")
