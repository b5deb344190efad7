"""ConfigMaps and Secrets that operands read: missing objects, and missing keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.named_objects import quoted_names
from policies.kubernetes.misspellings import closest
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change
    from policies.decision import Severity
    from policies.kubernetes.paths import FieldPath

__all__ = ["check_object", "data_keys", "not_found"]


def check_object(
    change: Change,
    path: FieldPath,
    kind: str,
    consequence: str,
    keys: Sequence[str] = (),
    *,
    keys_severity: Severity | None = None,
) -> Iterator[Problem]:
    """Problems if the ConfigMap or Secret that a field names, or a key of it, does not exist.

    The keys of a Secret can be hidden, so a Secret without any key has no problem.
    """
    name = lookup(change.object, path)
    found = change.facts.operator_object(kind, name) if isinstance(name, str) and name else {}
    if found is None:
        yield not_found(change, path, kind, name, consequence, keys)
    present = data_keys(found)
    missing = [key for key in keys if key not in present] if isinstance(found, dict) and found else []
    if missing and (present or kind != "Secret"):
        absent = " and ".join(missing)
        has = f"{quoted_names(present)} and not" if present else "no key"
        text = f'{kind} "{name}" has {has} {absent}; {consequence}'
        remedy = (
            f'rename the key in {kind} "{name}" to {absent}' if len(present) == 1 else f"add the key {absent} to it"
        )
        yield problem(path, text, remedy, severity=keys_severity)


def not_found(
    change: Change, path: FieldPath, kind: str, name: str, consequence: str, keys: Sequence[str] = ()
) -> Problem:
    """The problem of an object that does not exist in the operator's namespace."""
    namespaces, known = change.facts.operator_namespaces, change.facts.known_objects(kind)
    elsewhere = sorted(namespace_of(each) or DEFAULT_NAMESPACE for each in known if name_of(each) == name)
    guess = closest(name, [name_of(each) for each in known if namespace_of(each) in namespaces])
    text = f'{kind} "{name}" not found in {" or ".join(namespaces)}'
    if elsewhere:
        text += f", only in {elsewhere[0]}, where the operator does not look"
    remedy = f'create {kind} "{name}" in {namespaces[0]} first'
    if guess and not elsewhere:
        remedy = f'write "{guess}"'
    elif keys:
        remedy += f", with the key {' and '.join(keys)}"
    return problem(path, f"{text}; {consequence}", remedy)


def data_keys(document: Any) -> list[str]:
    """The keys of a ConfigMap or Secret."""
    parts = [lookup(document, (part,)) for part in ("data", "binaryData", "stringData")]
    return [key for part in parts if isinstance(part, dict) for key in part if isinstance(key, str)]
