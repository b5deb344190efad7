"""CEL of webhooks, admission policies and schemas of custom resources, over variables of any type.

The engine, which evaluates selectors, has one variable. The variables of an expression are its fields, and the expression is
wrapped into a `cel.bind` per variable; positions in messages stay those of the text.

Source: k8s.io/apiserver pkg/admission/plugin/cel (compile.go, condition.go, activation.go, composition.go).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from policies.cel.checker import check
from policies.cel.environment import DEVICE, CelFeatures, Environment, selector_environment
from policies.cel.errors import CelCompileError, CelRuntimeError, Issue
from policies.cel.interpreter.compiler import CountedProgram
from policies.cel.interpreter.planner import plan_expression
from policies.cel.parser import parse
from policies.cel.syntax import Comprehension, Identifier, ListLiteral, Literal, Select
from policies.cel.types import BOOL, DYN, STRING, Type, list_of, map_of
from policies.cel.values import Map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.syntax import Expression as Tree
    from policies.cel.values import Value


NO_AUTHORIZER = (
    "`authorizer` cannot be evaluated here, because nothing decides by RBAC; leave this condition out to try the rest, "
    "and test the condition in a real cluster"
)

_ROOT = "@variables"
"""The engine's one variable; no expression can spell it."""
_OF_CONDITIONS = ("object", "oldObject", "request", "namespaceObject")
_OF_POLICIES = (*_OF_CONDITIONS, "variables")
_OF_RULES = ("self", "oldSelf")
_BIND = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_DRA_ONLY = frozenset({"includes"})
_KEPT = 256


def _object(name: str) -> Type:
    return Type(f"kubernetes.{name}", kind="object")


_FIELDS: Mapping[str, Mapping[str, Type]] = {
    "kubernetes.Variables": {
        "object": DYN,
        "oldObject": DYN,
        "request": _object("AdmissionRequest"),
        "namespaceObject": DYN,
        "variables": _object("variables"),
        **dict.fromkeys(_OF_RULES, DYN),
    },
    "kubernetes.AdmissionRequest": {
        "kind": _object("GroupVersionKind"),
        "resource": _object("GroupVersionResource"),
        "subResource": STRING,
        "requestKind": _object("GroupVersionKind"),
        "requestResource": _object("GroupVersionResource"),
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _object("UserInfo"),
        "dryRun": BOOL,
        "options": DYN,
    },
    "kubernetes.GroupVersionKind": {"group": STRING, "version": STRING, "kind": STRING},
    "kubernetes.GroupVersionResource": {"group": STRING, "version": STRING, "resource": STRING},
    "kubernetes.UserInfo": {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
}


DeclaredVariables = tuple[tuple[str, Type], ...]
"""The variables of a policy that an expression can name, with their types."""


@lru_cache(maxsize=_KEPT)
def _environment(declared: DeclaredVariables) -> Environment:
    """Kubernetes' libraries without DRA's additions, and the variables of conditions."""
    known = selector_environment(CelFeatures(list_type_attributes=False))
    return Environment(
        known.features,
        functions={name: function for name, function in known.functions.items() if name not in _DRA_ONLY},
        variables={
            _ROOT: _object("Variables"),
            "authorizer": _object("authorization.Authorizer"),
            "authorizer.requestResource": _object("authorization.ResourceCheck"),
        },
        type_names={name: type_ for name, type_ in known.type_names.items() if not name.startswith(DEVICE)},
        fields={**known.fields, **_FIELDS, "kubernetes.variables": dict(declared)},
    )


@dataclass(eq=False)
class Condition:
    """A compiled expression over variables."""

    text: str
    type: Type
    program: CountedProgram

    def evaluate(self, variables: Map) -> tuple[Value | CelRuntimeError, int]:
        """The value or error, and the cost; `variables` as in `holds`."""
        return self.program.evaluate(SimpleNamespace(value=variables))

    def holds(self, variables: Map) -> tuple[bool | str, int]:
        """The result of a bool, or the error message; and the cost.

        Args:
            variables: `object`, `oldObject`, `request`, `namespaceObject` and, in a policy, `variables`, or for a rule
                `self` and `oldSelf`, as `value_of` makes them.
        """
        outcome, cost = self.evaluate(variables)
        if isinstance(outcome, CelRuntimeError):
            return f"expression '{self.text}' resulted in error: {outcome.message}", cost
        return outcome is True, cost


@lru_cache(maxsize=_KEPT)
def compile_condition(text: str) -> Condition:
    """Compile a condition of a webhook; cached.

    Raises:
        CelCompileError: The API server refuses it, or it needs an authorizer.
    """
    return _compile(text, _OF_CONDITIONS)


@lru_cache(maxsize=_KEPT)
def compile_validation(text: str, declared: DeclaredVariables) -> Condition:
    """Compile a condition or validation of an admission policy, which can name its `variables`; cached.

    Raises:
        CelCompileError: The API server refuses it, or it needs an authorizer.
    """
    return _compile(text, _OF_POLICIES, declared)


@lru_cache(maxsize=_KEPT)
def compile_variable(text: str, declared: DeclaredVariables) -> Condition:
    """Compile a variable or message of an admission policy, which may have any type; cached.

    Raises:
        CelCompileError: The API server refuses it, or it needs an authorizer.
    """
    return _compile(text, _OF_POLICIES, declared, any_result=True)


@lru_cache(maxsize=_KEPT)
def compile_rule(text: str) -> Condition:
    """Compile a rule of a custom resource's schema, over `self` and `oldSelf`; cached.

    Raises:
        CelCompileError: The API server refuses it.
    """
    return _compile(text, _OF_RULES)


def _compile(
    text: str, variables: tuple[str, ...], declared: DeclaredVariables = (), *, any_result: bool = False
) -> Condition:
    if bind := _BIND.search(text):
        line, column = text.count("\n", 0, bind.start()) + 1, bind.start() - text.rfind("\n", 0, bind.start())
        raise CelCompileError((Issue("undeclared reference to 'cel' (in container '')", line, column),), text)
    known = _environment(declared)
    tree = parse(text)
    for name in variables:
        tree = _bound(name, tree)
    try:
        checked = check(tree, text, known, any_result=any_result)
    except CelCompileError as error:
        # Conditions allow one type less than selectors.
        if _SELECTOR_TYPES not in error.message:
            raise
        raise _wrong_type(error.message.partition(_SELECTOR_TYPES)[2], error.text) from None
    if any(name.name.startswith("authorizer") for name in checked.names.values()):
        raise CelCompileError((Issue(NO_AUTHORIZER, 1, 1),), text, located=False)
    result = checked.types[checked.root]
    if result != BOOL and not any_result:
        raise _wrong_type("dyn", text)
    return Condition(text, result, CountedProgram(plan_expression(checked, text, known.functions)))


def _bound(name: str, tree: Tree) -> Tree:
    """`cel.bind(name, @variables.name, tree)`."""
    at = tree.offset
    return Comprehension(
        at,
        ListLiteral(at, ()),
        "#unused",
        "",
        name,
        Select(at, Identifier(at, _ROOT), name),
        Literal(at, value=False),
        Identifier(at, name),
        tree,
    )


_SELECTOR_TYPES = "must evaluate to bool or the unknown type, not "


def _wrong_type(name: str, text: str) -> CelCompileError:
    return CelCompileError((Issue(f"must evaluate to bool but got {name}", 1, 1),), text, located=False)


def value_of(json: Any) -> Value:
    """A JSON value as a CEL value."""
    if isinstance(json, dict):
        return Map({key: value_of(value) for key, value in json.items()})
    if isinstance(json, list):
        return tuple(map(value_of, json))
    value: Value = json
    return value
