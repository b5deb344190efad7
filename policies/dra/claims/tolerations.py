"""Tolerations: which taints of devices a request puts up with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import invalid, unsupported
from policies.dra.claims.name_errors import label_key_error, label_value_error
from policies.kubernetes.misspellings import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.kubernetes.paths import FieldPath

_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "None")


@CLAIMS.rule(
    "GA209",
    "Tolerations must be for taints that devices can have",
    default=Severity.DENY,
    remedy="write {key: gpu.nvidia.com/xid, operator: Exists, effect: NoSchedule}, or what the taint is",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceToleration",
)
def toleration_syntax(subject: Subject) -> Iterator[Problem]:
    """Tolerations of devices are those of pods, with the effects NoSchedule, NoExecute and None.

    Exists stands for every value, and Equal, which is meant where no operator is written, for the one that is written.
    """
    for subrequest in subject.subrequests:
        tolerations = subrequest.fields.get("tolerations")
        for index, item in enumerate(tolerations if isinstance(tolerations, list) else ()):
            if isinstance(item, dict):
                yield from _mistakes(item, subrequest.path / "tolerations" / index)


def _mistakes(item: dict[str, Any], path: FieldPath) -> Iterator[Problem]:
    key, operator, value, effect = (_text(item, field) for field in ("key", "operator", "value", "effect"))
    if key and (error := label_key_error(key)):
        yield problem(path / "key", invalid(key, error), "write the key as the device's taint has it")
    if operator and operator not in _OPERATORS:
        yield problem(path / "operator", unsupported(operator, _OPERATORS), _write(operator, _OPERATORS))
    if effect and effect not in _EFFECTS:
        yield problem(path / "effect", unsupported(effect, _EFFECTS), _write(effect, _EFFECTS))
    if operator == "Exists" and value:
        text = invalid(value, "must be empty for operator `Exists`")
        yield problem(path / "value", text, "remove value, or write operator: Equal")
    elif operator in ("", "Equal") and (error := label_value_error(value)):
        yield problem(path / "value", invalid(value, error), "write the value as the device's taint has it")
    elif operator in ("", "Equal") and not key and "key" not in item:
        text = "is missing, which stands for all keys, and that is meant to go with operator: Exists"
        yield problem(path / "key", text, "write a key, or operator: Exists", severity=Severity.WARN)
    if isinstance(item.get("tolerationSeconds"), int) and effect != "NoExecute":
        text = "has no effect without effect: NoExecute, since only that takes pods off their devices"
        remedy = "remove tolerationSeconds, or write effect: NoExecute"
        yield problem(path / "tolerationSeconds", text, remedy, severity=Severity.WARN)


def _text(item: dict[str, Any], field: str) -> str:
    value = item.get(field)
    return value if isinstance(value, str) else ""


def _write(text: str, known: tuple[str, ...]) -> str:
    guess = closest(text, known)
    return f'write "{guess}"' if guess else f"write one of {', '.join(known)}"
