"""Which type stands for which type parameter, found by comparing what is given with what is wanted.

The rules, and the order in which they are tried, are those of cel-go v0.26 `checker/types.go`. Nothing here recurses,
since the types of a hostile expression can be deeper than Python's stack; and work is bounded, since they can have
more parts than fit in memory when parts are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.types import DURATION, DYN, TIMESTAMP, Type, type_parameter
from policies.work import Work

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["Substitution", "TypesTooLargeError", "is_dynamic", "is_dynamic_or_error"]

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
    """What is known about type parameters so far."""

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
                self._restore(name, before)
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
        """What else has to agree for these two to agree; None if they do not."""
        if given is wanted:
            return []
        if wanted.kind == "parameter" and (further := self._bind(wanted, given)) is not None:
            return further
        if given.kind == "parameter":
            return self._bind(given, wanted)
        if is_dynamic_or_error(given) or is_dynamic_or_error(wanted):
            return []
        if given.kind == "null" or wanted.kind == "null":
            return [] if _is_nullable(wanted if given.kind == "null" else given) else None
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

    def _restore(self, name: str, before: Type | None) -> None:
        if before is None:
            del self._bound[name]
        else:
            self._bound[name] = before


def _is_nullable(type_: Type) -> bool:
    return type_.kind in _NULLABLE_KINDS or type_ in (DURATION, TIMESTAMP)


def _rebuilt(part: Type, inner: list[Type], unknown: Type | None) -> Type:
    if part.kind == "parameter":
        return inner[0] if inner else part if unknown is None else unknown
    if all(old is new for old, new in zip(part.parameters, inner, strict=True)):
        return part
    return Type(part.name, tuple(inner), part.kind)
