"""What evaluating an expression costs: one charge for each call, and the constants for everything else.

cel-go's cost tracker watches the plan that the planner makes of a tree, not the tree, and the plan has fewer nodes.
Whoever evaluates with accounting charges as follows. An error is a value here: what fails is charged like what does
not, and evaluation goes on wherever cel-go's does.

Constants cost nothing: literals, names of types, and what is folded when the plan is made, which is a list or map
literal of constants only (the empty ones of macros and of `cel.bind` too), a type conversion (`int("1")`, `dyn(1)`,
`type(x)`; not other functions) of a constant, and `x in []`, which does not even evaluate x. `x in list` of a constant
list of bools, numbers and strings is a set look-up if its one overload is `in_list`, and costs no more than x.

An attribute is a name, or any other value, with all selects and indexes that follow; it is one node. Evaluating it
charges QUALIFIER for each select or index as it is applied, and ATTRIBUTE at the end.
* A qualifier that fails is charged, those after it are not; ATTRIBUTE is. A qualifier after or at a `?` that finds
  nothing, or fails, is not charged.
* `has(a.b)` charges its qualifiers, the tested one too, but not ATTRIBUTE.
* An index that is an attribute charges its own qualifiers but not its ATTRIBUTE; any other index what it costs. It is
  evaluated when its turn among the qualifiers comes.
* A value that is no attribute charges what it costs, and ATTRIBUTE only if something is selected from it.

A ternary charges its condition and the branch it takes, a branch that is an attribute without ATTRIBUTE; selects and
indexes of a ternary belong to the branch taken, and there is no ATTRIBUTE for them either.

`&&`, `||`, `.or()`, `.orValue()`, comprehensions and `cel.bind` charge nothing themselves, only what they evaluate.
The initial value of an accumulator, so that of `cel.bind` too, is evaluated when its name is first read, or never.
A list literal that is no constant charges LIST_COST, a map MAP_COST, a message STRUCT_COST, after their elements up to
the first that fails.

Every other call charges `call_cost` after it ran or failed, if all arguments were evaluated; `stops_early` tells which
calls leave the arguments after a failed one alone.

After each charge the sum must be within the limit; beyond it evaluation is aborted, whatever `||` is around.

Sources: cel-go v0.26.0 interpreter/{runtimecost,planner,attributes,decorators,interpretable}.go, ext/lists.go,
ext/sets.go; k8s.io/apiserver/pkg/cel/library/cost.go (`CallCost`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.cost.kubernetes_charges import KUBERNETES_CHARGES, KUBERNETES_OVERLOAD_CHARGES, nominal
from policies.dra.cel.cost.size_estimates import LIST_COST, MAP_COST, STRUCT_COST
from policies.dra.cel.cost.standard_charges import EXTENSION_CHARGES, STANDARD_CHARGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.dra.cel.cost.outcome_sizes import Charge, Outcome

__all__ = [
    "ATTRIBUTE",
    "LIST_COST",
    "MAP_COST",
    "QUALIFIER",
    "STRUCT_COST",
    "call_charge",
    "call_cost",
    "stops_early",
]

ATTRIBUTE = 1
QUALIFIER = 1


def call_cost(function: str, overload_id: str, arguments: Sequence[Outcome], result: Outcome) -> int:
    """What one call costs; adding it to a sum may wrap around at 2^64, as some of cel-go's charges are meant to.

    Args:
        function: its full name, from `call_names.function_name`.
        overload_id: the one overload it can run, from `call_names.overload_id`, or empty.
        arguments: what they came to, the target first.
        result: what the call came to.

    Raises:
        EvaluationAborted: cel-go's own computation of the cost panics.
    """
    return call_charge(function, overload_id)(arguments, result)


def call_charge(function: str, overload_id: str) -> Charge:
    """What computes the cost of every call of one function and overload, to be looked up once; see `call_cost`."""
    return (
        EXTENSION_CHARGES.get(overload_id)
        or KUBERNETES_OVERLOAD_CHARGES.get(overload_id)
        or KUBERNETES_CHARGES.get(function)
        or STANDARD_CHARGES.get(overload_id, nominal)
    )


_SINGLE_IMPLEMENTATIONS = frozenset(
    {
        *("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in"),
        "@sortByAssociatedKeys",
    }
)
"""Functions of two arguments and many overloads that one piece of code serves."""

_COMPILED_PATTERNS = frozenset({"matches", "find", "findAll"})


def stops_early(function: str, overload_id: str, argument_count: int, *, constant_pattern: bool) -> bool:
    """Whether a call leaves the arguments after one that failed alone, and is then not charged.

    Args:
        function: its full name.
        overload_id: the one overload it can run, or empty.
        argument_count: with the target.
        constant_pattern: whether the second argument is a constant string; the functions of regular expressions are
            then planned otherwise.
    """
    if argument_count != 2:
        return argument_count > 2
    if function in _COMPILED_PATTERNS and constant_pattern:
        return True
    if overload_id:
        return overload_id == "string_format"
    return function not in _SINGLE_IMPLEMENTATIONS
