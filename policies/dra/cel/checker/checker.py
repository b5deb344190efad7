"""Type checks an expression as the API server does before it stores a selector.

The steps are those of k8s.io/dynamic-resource-allocation/cel/compile.go: types, then the validators of Kubernetes'
environment, then the type of the result, then what turns out when a program is made of the expression. Values that can
be computed while compiling, such as `int("x")`, are the compiler's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import types
from policies.dra.cel.checker.inference import infer
from policies.dra.cel.checker.unification import TypesTooLargeError
from policies.dra.cel.checker.validators import validate
from policies.dra.cel.errors import IssueList
from policies.dra.cel.syntax import Checked, NameReference
from policies.dra.cel.types import result_name, runtime_name

if TYPE_CHECKING:
    from policies.dra.cel.checker.inference import Inference
    from policies.dra.cel.environment import Environment
    from policies.dra.cel.syntax import Expression
    from policies.dra.cel.types import Type

__all__ = ["check"]


def check(root: Expression, text: str, env: Environment) -> Checked:
    """Find the type of every part of an expression.

    Args:
        root: the expression.
        text: what it was parsed from; places in issues refer to it.
        env: what it can name.

    Raises:
        CelCompileError: Kubernetes refuses the expression; the error has all issues.
    """
    issues = IssueList(text)
    try:
        inferred = infer(root, env, issues)
        issues.raise_if_any()
        validate(root, inferred, env, issues)
        issues.raise_if_any()
    except TypesTooLargeError:
        too_large = "the types of lists, maps or optionals within each other grow too large to be checked"
        raise issues.refuse(root.offset, too_large) from None
    _check_result(root, inferred.types[root], env, issues)
    names = {node: _reference(node, name, inferred, env, issues) for node, name in inferred.names.items()}
    return Checked(root, inferred.types, names, inferred.calls)


def _check_result(root: Expression, result: Type, env: Environment, issues: IssueList) -> None:
    """Refuse results that are neither a bool nor an attribute that may be one."""
    if result in (types.BOOL, types.ANY) or (env.features.list_type_attributes and result == types.DYN):
        return
    raise issues.refuse(root.offset, f"must evaluate to bool or the unknown type, not {result_name(result)}")


def _reference(node: Expression, name: str, inferred: Inference, env: Environment, issues: IssueList) -> NameReference:
    """What a name stands for; a name whose value is a type is the name of that type, as in cel-go."""
    if inferred.types[node].kind != "type":
        return NameReference(name)
    named = env.type_names.get(name)
    if named is None or named.kind == "object" or runtime_name(named) != name:
        raise issues.refuse(node.offset, f"program instantiation failed: reference to undefined type: {name}")
    return NameReference(name, named)
