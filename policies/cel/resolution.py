"""Resolution of names, fields and calls, and of the type parameters of their overloads."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.cel import types
from policies.cel.syntax import Identifier, Select
from policies.cel.types import (
    DURATION,
    DYN,
    TIMESTAMP,
    Type,
    declared_name,
    list_of,
    map_of,
    opaque,
    runtime_name,
    type_of,
    type_parameter,
)
from policies.kubernetes.bounds import Work

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from policies.cel.declarations import Function, Overload
    from policies.cel.environment import Environment
    from policies.cel.errors import IssueList
    from policies.cel.syntax import Expression


_MOST_STEPS = 200_000
"""More than five times what a text of 10 KiB needs that does not aim at it."""

_MOST_PARTS = 1000
"""The largest type; lists can be nested 250 deep, and what is larger than that has no use."""

_NULLABLE_KINDS = frozenset({"opaque", "object", "null"})

_Comparison = tuple[Type, Type, Type | None]
"""A type that is given, one that is wanted, and the parameter to widen once they agree, if any."""


class TypesTooLargeError(Exception):
    """A type has more parts, or comparing types takes more steps, than a sensible expression can need."""


def is_dynamic(type_: Type) -> bool:
    """True if anything is known only when the expression runs: dyn and any."""
    return type_.kind in {"dyn", "any"}


def is_dynamic_or_error(type_: Type) -> bool:
    """True if it is dynamic, or stands for what was refused already and must not be refused twice."""
    return type_.kind in {"dyn", "any", "error"}


class Substitution:
    """The type parameters that are bound so far."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._bound: dict[str, Type] = {}
        self._journal: list[tuple[str, Type | None]] = []
        self._fresh = 0
        self._work = Work(_MOST_STEPS, exceeded=TypesTooLargeError)

    def fresh(self) -> Type:
        """A type parameter that nothing else uses."""
        parameter = type_parameter(f"_var{self._fresh}")
        self._fresh += 1
        return parameter

    def instantiate(self, types: Iterable[Type]) -> list[Type]:
        """The types of a signature, with fresh parameters in place of its own."""
        own: dict[str, Type] = {}
        return [self._with_fresh_parameters(type_, own) for type_ in types]

    def assign(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """True if each type can be used where another is wanted; if so, binds type parameters.

        Raises:
            TypesTooLargeError: the types are of a size that only an attack has.
        """
        if len(given) != len(wanted):
            return False
        agreed = self._agree(given, wanted)
        if not agreed:
            for name, before in reversed(self._journal):
                if before is None:
                    del self._bound[name]
                else:
                    self._bound[name] = before
        self._journal.clear()
        return agreed

    def join(self, previous: Type, current: Type) -> Type:
        """The element type of a list that holds both: the more general one, or dyn if they do not agree."""
        return self._most_general(previous, current) if self.assign((previous,), (current,)) else DYN

    def resolve(self, type_: Type, *, unknown: Type | None = None) -> Type:
        """The type with what is known about its parameters; `unknown` takes the place of the others, if given."""
        return self.resolve_all((type_,), unknown=unknown)[0]

    def resolve_all(self, types: Collection[Type], *, unknown: Type | None = None) -> list[Type]:
        """The same for many types, where what they share is resolved once.

        Raises:
            TypesTooLargeError: one of them has more than 1000 parts.
        """
        done: dict[int, Type] = {}
        sizes: dict[int, int] = {}
        for type_ in types:
            pending = [type_]
            while pending:
                part = pending[-1]
                if id(part) in done:
                    pending.pop()
                    continue
                self._work.count(1)
                inner = self._inner(part)
                missing = [p for p in inner if id(p) not in done]
                if missing:
                    pending += missing
                    continue
                done[id(part)] = _rebuilt(part, [done[id(p)] for p in inner], unknown)
                sizes[id(part)] = 1 + sum(sizes[id(p)] for p in inner)
                if sizes[id(part)] > _MOST_PARTS:
                    raise TypesTooLargeError
        return [done[id(type_)] for type_ in types]

    def same(self, left: Type, right: Type) -> bool:
        """True if two types are written alike."""
        pending = [(left, right)]
        while pending:
            a, b = pending.pop()
            if a is b:
                continue
            self._work.count(1)
            if a.name != b.name or a.kind != b.kind or len(a.parameters) != len(b.parameters):
                return False
            pending += zip(a.parameters, b.parameters, strict=True)
        return True

    def _inner(self, part: Type) -> tuple[Type, ...]:
        if part.kind != "parameter":
            return part.parameters
        bound = self._bound.get(part.name)
        return () if bound is None else (bound,)

    def _with_fresh_parameters(self, type_: Type, own: dict[str, Type]) -> Type:
        """Recursive, since signatures are ours and small."""
        if type_.kind == "parameter":
            if type_.name not in own:
                own[type_.name] = self.fresh()
            return own[type_.name]
        if not type_.parameters:
            return type_
        return Type(type_.name, tuple(self._with_fresh_parameters(p, own) for p in type_.parameters), type_.kind)

    def _agree(self, given: Iterable[Type], wanted: Iterable[Type]) -> bool:
        pending: list[_Comparison] = [(g, w, None) for g, w in zip(given, wanted, strict=True)]
        pending.reverse()
        while pending:
            self._work.count(1)
            left, right, widened = pending.pop()
            if widened is not None:
                self._widen(widened, left, right)
                continue
            further = self._compare(left, right)
            if further is None:
                return False
            pending += reversed(further)
        return True

    def _compare(self, given: Type, wanted: Type) -> list[_Comparison] | None:
        """The further pairs to unify; None if the types conflict."""
        if given is wanted:
            return []
        if wanted.kind == "parameter" and (further := self._bind(wanted, given)) is not None:
            return further
        if given.kind == "parameter":
            return self._bind(given, wanted)
        if is_dynamic_or_error(given) or is_dynamic_or_error(wanted):
            return []
        if given.kind == "null" or wanted.kind == "null":
            other = wanted if given.kind == "null" else given
            return [] if other.kind in _NULLABLE_KINDS or other in (DURATION, TIMESTAMP) else None
        if given.kind != wanted.kind:
            return None
        if given.kind == "type":
            return []
        if given.name != wanted.name or len(given.parameters) != len(wanted.parameters):
            return None
        return [(g, w, None) for g, w in zip(given.parameters, wanted.parameters, strict=True)]

    def _bind(self, parameter: Type, to: Type) -> list[_Comparison] | None:
        """Let a parameter stand for a type; None if the type has that parameter inside."""
        if to.kind == "parameter" and to.name == parameter.name:
            return []
        known = self._bound.get(parameter.name)
        if known is not None:
            return [] if self.same(to, known) else [(to, known, None), (to, known, parameter)]
        if self._occurs(parameter, to):
            return None
        self._set(parameter, to)
        return []

    def _widen(self, parameter: Type, one: Type, other: Type) -> None:
        wider = self._most_general(one, other)
        if not self._occurs(parameter, wider):
            self._set(parameter, wider)

    def _most_general(self, one: Type, other: Type) -> Type:
        return one if self._is_equal_or_less_specific(one, other) else other

    def _is_equal_or_less_specific(self, one: Type, other: Type) -> bool:
        pending = [(one, other)]
        while pending:
            self._work.count(1)
            a, b = pending.pop()
            if is_dynamic(a) or a.kind == "parameter":
                continue
            if a.kind != b.kind:
                return False
            if a.kind == "type":
                continue
            if a.name != b.name or len(a.parameters) != len(b.parameters):
                return False
            pending += reversed(list(zip(a.parameters, b.parameters, strict=True)))
        return True

    def _occurs(self, parameter: Type, within: Type) -> bool:
        seen: set[int] = set()
        pending = [within]
        while pending:
            part = pending.pop()
            if id(part) in seen:
                continue
            self._work.count(1)
            seen.add(id(part))
            if part.kind == "parameter" and part.name == parameter.name:
                return True
            pending += self._inner(part)
        return False

    def _set(self, parameter: Type, to: Type) -> None:
        self._journal.append((parameter.name, self._bound.get(parameter.name)))
        self._bound[parameter.name] = to


def _rebuilt(part: Type, inner: list[Type], unknown: Type | None) -> Type:
    if part.kind == "parameter":
        return inner[0] if inner else part if unknown is None else unknown
    if all(old is new for old, new in zip(part.parameters, inner, strict=True)):
        return part
    return Type(part.name, tuple(inner), part.kind)


_DECLARED = {
    "list": list_of(type_parameter("A")),
    "map": map_of(type_parameter("A"), type_parameter("B")),
    "optional_type": opaque("optional_type"),
    "type": Type("type", kind="type"),
}
"""The declared types of these names, while values of them have dyn inside."""


def unqualified_name(name: str) -> str:
    """A name without its leading dot, which only matters where names have containers."""
    return name.removeprefix(".")


class Scopes:
    """The names of an environment, and those of the comprehensions around an expression."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._local: defaultdict[str, list[Type]] = defaultdict(list)
        known = (*environment.type_names, *environment.variables, *environment.functions)
        self._most_dots = max(name.count(".") for name in known)

    def enter(self, variables: Iterable[tuple[str, Type]]) -> None:
        """Begin a scope with variables, which hide what has their names."""
        for name, type_ in variables:
            self._local[name].append(type_)

    def leave(self, variables: Iterable[tuple[str, Type]]) -> None:
        """End the scope that began with these variables."""
        for name, _ in variables:
            self._local[name].pop()

    def variable_or_type(self, name: str) -> Type | None:
        """The type of what a name stands for, or None.

        Since cel-go v0.27, a leading dot reaches what a variable hides, and no type's name begins with a variable.
        """
        is_global, name = name.startswith("."), unqualified_name(name)
        if self._environment.features.cel_go_029:
            first, dot, _ = name.partition(".")
            if not is_global and (hiding := self._local.get(first)):
                return None if dot else hiding[-1]
        elif local := self._local.get(name):
            return local[-1]
        if (variable := self._environment.variables.get(name)) is not None:
            return variable
        described = self._environment.type_names.get(name)
        return None if described is None else type_of(_DECLARED.get(name, described))

    def reference_name(self, name: str) -> str:
        """The name by which the value is found at run time: with a leading dot if a variable hides it."""
        bare = unqualified_name(name)
        is_hidden = name != bare and bool(self._local.get(bare.partition(".")[0]))
        return name if is_hidden and self._environment.features.cel_go_029 else bare

    def function(self, name: str) -> Function | None:
        """The function of a name, or None."""
        return self._environment.functions.get(unqualified_name(name))

    def qualified_name(self, expression: Expression) -> str | None:
        """`a.b.c` if the expression is a chain of names that is not longer than any that is declared."""
        fields: list[str] = []
        while isinstance(expression, Select) and not expression.test_only and len(fields) < self._most_dots:
            fields.append(expression.field)
            expression = expression.operand
        return ".".join((expression.name, *reversed(fields))) if isinstance(expression, Identifier) else None


_MESSAGES = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "google.protobuf.NullValue",
}
"""Types that are written like messages but are not, with the names of the types that have their fields."""


class Fields:
    """Finds the types of fields, and reports those that do not exist."""

    def __init__(self, environment: Environment, substitution: Substitution, issues: IssueList) -> None:
        self._declared = environment.fields
        self._substitution = substitution
        self._report = issues.report

    def selected_type(self, offset: int, operand: Type, field: str, *, optional: bool) -> Type:
        """The type of `operand.field` or `operand.?field`; a field of an optional is optional."""
        target = self._substitution.resolve(operand)
        is_optional = target.name == "optional_type"
        selected = self._field_of(offset, target.parameters[0] if is_optional else target, field)
        return types.optional_of(selected) if optional or is_optional else selected

    def described_type(self, offset: int, named: Type) -> Type:
        """The type that stands before the brace of a message; it is reported if messages cannot have it."""
        if named.kind == "error":
            return named
        if named.kind != "type":
            self._report(offset, f"'{runtime_name(named)}' is not a type")
            return types.ERROR
        described = named.parameters[0]
        if self.message(described) is types.ERROR:
            self._report(offset, f"'{runtime_name(described)}' is not a message type")
        return described

    def message(self, described: Type) -> Type:
        """The type of a message; an error if messages cannot have it."""
        return described if described.kind == "object" or described.name in _MESSAGES else types.ERROR

    def written_type(self, offset: int, described: Type, name: str, field: str) -> Type:
        """The type that a field of a message has to have; `name` is what stands before the brace."""
        if described.kind == "map":
            return described.parameters[1]
        name = described.name if described.kind == "object" else name
        return self._declared_field(offset, _MESSAGES.get(described.name, name), field)

    def _field_of(self, offset: int, target: Type, field: str) -> Type:
        if target.kind == "map":
            return target.parameters[1]
        if target.kind == "object":
            return self._declared_field(offset, target.name, field)
        if target.kind == "parameter":
            self._substitution.assign((types.DYN,), (target,))
        elif not is_dynamic_or_error(target):
            self._report(offset, f"type '{declared_name(target)}' does not support field selection")
        return types.DYN

    def _declared_field(self, offset: int, type_name: str, field: str) -> Type:
        fields = self._declared.get(type_name)
        if fields is None:
            self._report(offset, f"unexpected failed resolution of '{type_name}'")
        elif field not in fields:
            self._report(offset, f"undefined field '{field}'")
        else:
            return fields[field]
        return types.ERROR


def resolve_overloads(
    function: Function, given: Sequence[Type], substitution: Substitution, *, is_method: bool
) -> tuple[tuple[Overload, ...], Type | None]:
    """Every overload that could run, and the type of the result: dyn if it depends on which one does.

    Nothing and None if the arguments fit no overload. Source: cel-go v0.26 `checker/checker.go`, resolveOverload.
    """
    matching: list[Overload] = []
    result: Type | None = None
    for overload in function.overloads:
        if overload.is_member != is_method:
            continue
        returned, *wanted = substitution.instantiate((overload.result, *overload.parameters))
        if not substitution.assign(given, wanted):
            continue
        matching.append(overload)
        returned = substitution.resolve(returned)
        if result is None:
            result = returned
        elif not is_dynamic(result) and not substitution.same(returned, result):
            result = types.DYN
    return tuple(matching), result


def signature(given: Sequence[Type], substitution: Substitution, *, is_method: bool) -> str:
    """The types of a call's arguments as messages show them: `(int, string)`, or `string.(int)`."""
    spelled = [declared_name(substitution.resolve(type_, unknown=types.DYN)) for type_ in given]
    target = f"{spelled.pop(0)}." if is_method else ""
    return f"{target}({', '.join(spelled)})"
