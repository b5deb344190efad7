"""The most that evaluating an expression may cost; the API server refuses selectors by this number.

It is what cel-go's `env.EstimateCost(...).Max` gives with Kubernetes' estimators and with `has()` counted as free, in
every quirk, because selectors near the limit of 1000000 are refused by exactly this number. Sources: cel-go v0.26.0
checker/cost.go, k8s.io/dynamic-resource-allocation/cel/compile.go.

Each node's cost is a generator that yields the parts whose costs it needs, so that the depth of an expression is no
depth of Python's stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from policies.cel.call_estimates import CallEstimate, EstimatedCall, Operand, estimate_call
from policies.cel.sizes import (
    LIST_COST,
    MAP_COST,
    STRUCT_COST,
    EntrySizes,
    Estimate,
    ExpressionSizes,
    FieldPath,
    LocalVariable,
    exactly,
)
from policies.cel.syntax import (
    Call,
    Comprehension,
    Expression,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    function_name,
)
from policies.cel.values import UINT64_MAX

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.cel.environment import Environment
    from policies.cel.syntax import CallReference, Checked

    Costing = Generator[Expression, Estimate, Estimate]


_FREE = exactly(0)
_NAME = exactly(1)
"""Reading a variable, or a field."""
_NOTHING_YET = Estimate(UINT64_MAX, 0)
"""The union of no ranges."""
_ACCUMULATORS = frozenset({"__result__", "@result"})
_INDEXED = {"index_list": "@items", "index_map": "@values"}
_SHORT_CIRCUITING = frozenset({"logical_and", "logical_or"})
_CONCATENATIONS = frozenset({"add_string", "add_bytes", "add_list"})


def estimate(checked: Checked, env: Environment) -> int:
    """The most that evaluating a checked expression may cost; 2^64 - 1 if there is no bound.

    Args:
        checked: the expression.
        env: what it was checked in; the sizes that Kubernetes declares are the same in all of them.
    """
    coster = _Coster(checked)
    pending: list[Costing] = []
    cost = coster.leaf(checked.root)
    if cost is None:
        pending.append(coster.composite(checked.root))
    while pending:
        try:
            part = next(pending[-1]) if cost is None else pending[-1].send(cost)
        except StopIteration as finished:
            pending.pop()
            cost = finished.value
        else:
            cost = coster.leaf(part)
            if cost is None:
                pending.append(coster.composite(part))
    return _FREE.maximum if cost is None else cost.maximum


@dataclass(frozen=True, slots=True)
class _Arguments:
    """A call's target and arguments, and the costs of the arguments without the target."""

    function: str
    operands: tuple[Operand, ...]
    costs: tuple[Estimate, ...]


class _Coster:
    """Computes costs part by part, in cel-go's order: later parts need sizes found in earlier ones."""

    def __init__(self, checked: Checked) -> None:
        self._calls = checked.calls
        self._sizes = ExpressionSizes(checked)

    def leaf(self, expression: Expression) -> Estimate | None:
        """The cost of a constant or a name, or None for what has parts."""
        if isinstance(expression, Literal):
            return _FREE
        name = self._sizes.variable_name(expression)
        if name is None:
            return None
        self._sizes.set_variable_path(expression, name)
        return _NAME

    def composite(self, expression: Expression) -> Costing:
        """The cost of an expression that has parts; yields the parts to get their costs."""
        match expression:
            case Select():
                return self._select(expression)
            case Call():
                return self._call(expression)
            case ListLiteral():
                return self._list(expression)
            case MapLiteral():
                return self._map(expression)
            case StructLiteral():
                return self._struct(expression)
            case Comprehension():
                return self._binding(expression) if _is_binding(expression) else self._comprehension(expression)
            case Literal() | Identifier():
                message = f"a leaf has no parts: {expression!r}"
                raise TypeError(message)

    def _select(self, select: Select) -> Costing:
        cost = yield select.operand
        if select.test_only:
            return cost
        if self._sizes.type_of(select.operand).kind in {"map", "object"}:
            cost = cost.plus(_NAME)
        self._sizes.set_path(select, self._sizes.path(select.operand).child(select.field))
        return cost

    def _list(self, literal: ListLiteral) -> Costing:
        cost = exactly(LIST_COST)
        size = _NOTHING_YET if literal.elements else _FREE
        for element in literal.elements:
            cost = cost.plus((yield element))
            size = size.union(self._sizes.size_or_unknown(element))
        self._sizes.set_entries(literal, EntrySizes("list", exactly(1), size))
        return cost

    def _map(self, literal: MapLiteral) -> Costing:
        cost = exactly(MAP_COST)
        keys = values = _NOTHING_YET if literal.entries else _FREE
        for entry in literal.entries:
            if not isinstance(entry.key, str):
                cost = cost.plus((yield entry.key))
                keys = keys.union(self._sizes.size_or_unknown(entry.key))
            cost = cost.plus((yield entry.value))
            values = values.union(self._sizes.size_or_unknown(entry.value))
        self._sizes.set_entries(literal, EntrySizes("map", keys, values))
        return cost

    def _struct(self, literal: StructLiteral) -> Costing:
        cost = exactly(STRUCT_COST)
        for entry in literal.fields:
            cost = cost.plus((yield entry.value))
        return cost

    def _call(self, call: Call) -> Costing:
        reference = self._calls.get(call)
        function = function_name(call, reference)
        if function == "dyn":
            cost = yield call.arguments[0]
            self._sizes.copy(call, call.arguments[0])
            return cost.plus(exactly(1))
        costs, operands = [], []
        for argument in call.arguments:
            costs.append((yield argument))
            operands.append(self._operand(argument))
        if reference is None:
            return _FREE
        cost = _FREE
        if call.target is not None and not reference.is_namespaced:
            cost = yield call.target
            operands.insert(0, self._operand(call.target))
        return cost.plus(self._any_overload(call, reference, _Arguments(function, tuple(operands), tuple(costs))))

    def _operand(self, expression: Expression) -> Operand:
        path = self._sizes.path(expression)
        if next(iter(path), None) in _ACCUMULATORS:
            path = FieldPath()
        return Operand(expression, self._sizes.type_of(expression), path, self._sizes.size(expression))

    def _any_overload(self, call: Call, reference: CallReference, given: _Arguments) -> Estimate:
        """The range of the costs of all overloads that the call may run."""
        cost = _NOTHING_YET
        size: Estimate | None = None
        for overload in reference.overloads:
            one = self._overload(call, overload.id, given)
            cost = cost.union(one.cost)
            if one.result_size is not None:
                size = one.result_size if size is None else size.union(one.result_size)
            if overload.id in _INDEXED:
                size = self._index(call, overload.id)
            if size is None:
                size = self._sizes.size(call)
        self._sizes.set_size(call, size)
        return cost

    def _index(self, call: Call, overload_id: str) -> Estimate | None:
        """Note where an element comes from; its size, if the list or map is written out."""
        container = call.arguments[0]
        self._sizes.set_path(call, self._sizes.path(container).child(_INDEXED[overload_id]))
        entries = self._sizes.entries(container)
        return None if entries is None else entries.value

    def _overload(self, call: Call, overload_id: str, given: _Arguments) -> CallEstimate:
        """The cost of one overload with its arguments."""
        if overload_id in _SHORT_CIRCUITING:
            left, right = given.costs
            return CallEstimate(Estimate(left.minimum, left.plus(right).maximum))
        if overload_id == "conditional":
            return self._conditional(call, given)
        if overload_id in _CONCATENATIONS:
            self._note_entries_of_either(call, call.arguments[0], call.arguments[1])
        own = estimate_call(EstimatedCall(given.function, overload_id, given.operands))
        return CallEstimate(reduce(Estimate.plus, given.costs, own.cost), own.result_size)

    def _conditional(self, call: Call, given: _Arguments) -> CallEstimate:
        condition, if_true, if_false = given.costs
        size = self._sizes.size_or_unknown(call.arguments[1]).union(self._sizes.size_or_unknown(call.arguments[2]))
        self._note_entries_of_either(call, call.arguments[1], call.arguments[2])
        return CallEstimate(condition.plus(if_true.union(if_false)), size)

    def _note_entries_of_either(self, result: Expression, one: Expression, other: Expression) -> None:
        entries, other_entries = self._sizes.entries(one), self._sizes.entries(other)
        if entries is not None and other_entries is not None:
            self._sizes.set_entries(result, entries.union(other_entries))

    def _binding(self, binding: Comprehension) -> Costing:
        """`cel.bind` and what looks like it: an initial value, then a result; never a loop."""
        range_cost = yield binding.range
        initial_cost = yield binding.initial
        self._sizes.enter(binding.accumulator, self._same_as(binding.initial))
        result_cost = yield binding.result
        self._sizes.leave(binding.accumulator)
        self._sizes.copy(binding, binding.result)
        return range_cost.plus(initial_cost).plus(result_cost)

    def _comprehension(self, loop: Comprehension) -> Costing:
        range_cost = yield loop.range
        initial_cost = yield loop.initial
        self._sizes.enter(loop.accumulator, self._same_as(loop.initial))
        variables = self._loop_variables(loop)
        for name, variable in variables:
            self._sizes.enter(name, variable)
        condition_cost = yield loop.condition
        step_cost = yield loop.step
        for name, _ in variables:
            self._sizes.leave(name)
        result_cost = yield loop.result
        self._sizes.leave(loop.accumulator)

        rounds = self._sizes.size_or_unknown(loop.range)
        match loop.initial:
            case Literal():
                self._sizes.set_size(loop, self._sizes.size(loop.initial))
            case ListLiteral() | MapLiteral():
                self._sizes.set_size(loop, rounds)
                self._sizes.set_entries(loop, self._sizes.entries(loop.step))
        once = range_cost.plus(initial_cost).plus(result_cost)
        return once.plus(rounds.times(step_cost.plus(condition_cost)))

    def _same_as(self, expression: Expression) -> LocalVariable:
        path, entries = self._sizes.path(expression), self._sizes.entries(expression)
        return LocalVariable(path, self._sizes.size(expression), entries)

    def _loop_variables(self, loop: Comprehension) -> tuple[tuple[str, LocalVariable], ...]:
        entries = self._sizes.entries(loop.range)
        container = self._sizes.type_of(loop.range).kind if entries is None else entries.container
        index, element = ("@indices", "@items") if container == "list" else ("@keys", "@values")
        path = self._sizes.path(loop.range)
        keys = None if entries is None else entries.key
        values = None if entries is None else entries.value
        if loop.second_variable:
            key = LocalVariable(path.child(index), keys)
            return (loop.variable, key), (loop.second_variable, LocalVariable(path.child(element), values))
        if container == "list":
            return ((loop.variable, LocalVariable(path.child("@items"), values)),)
        return ((loop.variable, LocalVariable(path.child("@keys"), keys)),)


def _is_binding(comprehension: Comprehension) -> bool:
    return (
        isinstance(comprehension.range, ListLiteral)
        and not comprehension.range.elements
        and isinstance(comprehension.condition, Literal)
        and comprehension.condition.value is False
        and comprehension.accumulator != "__result__"
    )
