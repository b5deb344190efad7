"""Conjuncts: the conditions of a selector that must all be true, each as a text of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from policies.cel.checker import check
from policies.cel.cost_estimate import estimate
from policies.cel.devices import CONDITION, WHOLE, CelDevice
from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.errors import CelCompileError, CelRuntimeError, EvaluationAborted, Issue, begin_evaluation
from policies.cel.interpreter.compiler import CountedProgram, compile_plan
from policies.cel.interpreter.plan import reads
from policies.cel.interpreter.planner import plan_expression
from policies.cel.interpreter.stack import COST_LIMIT
from policies.cel.kinds import bool_result
from policies.cel.parser import parse
from policies.cel.parser.tokens import tokens_of
from policies.cel.values import UINT64_MAX
from policies.kubernetes.bounds import BoundedCache, count_work, remember
from policies.kubernetes.resourceslices import LONGEST_SELECTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from policies.cel.devices import Visible
    from policies.cel.environment import Environment
    from policies.cel.interpreter.plan import Program
    from policies.cel.parser.tokens import Token
    from policies.cel.syntax import Checked, Expression
    from policies.cel.values import Value
    from policies.kubernetes.resourceslices import Read


_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LOOSER = frozenset({"||", "?"})
"""Operators that bind less than `&&` does."""
_MOST_BYTES = 4 << 20
"""Of all selectors that are kept, taken apart."""


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One condition of a selector, by its place in the text."""

    text: str
    start: int
    end: int


def _conjunct_weight(selector: str, found: tuple[Conjunct, ...]) -> int:
    return 2 * len(selector) + 200 * len(found)


@remember(_MOST_BYTES, _conjunct_weight)
def split_conjuncts(selector: str) -> tuple[Conjunct, ...]:
    """The conditions that `&&` joins at the top of a selector, or inside of parentheses there.

    Returns the whole selector as one conjunct if `||` or `?:` is at the top, or if it is not an expression.
    """
    count_work(len(selector))
    read = tokens_of(selector)
    tokens = read.tokens[:-1]
    closings = _closings(tokens)
    if read.unrecognized or closings is None:
        return (_conjunct(selector, 0, len(selector)),)
    spans: list[tuple[int, int]] = []
    pending = [(0, len(tokens))]
    while pending:
        first, end = pending.pop()
        inner, inner_end = first, end
        while inner < inner_end and tokens[inner].kind == "(" and closings[inner] == inner_end - 1:
            inner, inner_end = inner + 1, inner_end - 1
        parts = _conjunct_parts(tokens, closings, inner, inner_end)
        if len(parts) > 1:
            pending += reversed(parts)
        else:
            spans.append((first, end))
    if any(first == end for first, end in spans):
        return (_conjunct(selector, 0, len(selector)),)
    return tuple(
        _conjunct(selector, tokens[first].offset, tokens[end - 1].offset + len(tokens[end - 1].text))
        for first, end in spans
    )


def without_conjunct(selector: str, conjunct: Conjunct) -> str:
    """The selector without one of its conjuncts; empty where it is the only one."""
    return " && ".join(part.text for part in split_conjuncts(selector) if part != conjunct)


def _conjunct(selector: str, start: int, end: int) -> Conjunct:
    text = selector[start:end].strip()
    begins = start + selector[start:end].find(text)
    return Conjunct(text, begins, begins + len(text))


def _closings(tokens: Sequence[Token]) -> dict[int, int] | None:
    """The token that closes each bracket, by the token that opens it; None if brackets do not match."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token.kind in _CLOSING:
            opened.append(position)
        elif token.kind in _CLOSING.values():
            if not opened or _CLOSING[tokens[opened[-1]].kind] != token.kind:
                return None
            found[opened.pop()] = position
    return None if opened else found


def _conjunct_parts(tokens: Sequence[Token], closings: dict[int, int], first: int, end: int) -> list[tuple[int, int]]:
    """The spans between the `&&` of a span; itself where something binds less."""
    begins, found = first, list[tuple[int, int]]()
    position = first
    while position < end:
        kind = tokens[position].kind
        is_optional = kind == "?" and position > 0 and tokens[position - 1].kind == "."
        if kind in _LOOSER and not is_optional:
            return [(first, end)]
        if kind == "&&":
            found.append((begins, position))
            begins = position + 1
        position = closings.get(position, position) + 1  # behind the brackets that open here
    return [*found, (begins, end)]


T = TypeVar("T")


MOST_COST = COST_LIMIT
"""The most that a selector may cost for one device; CELSelectorExpressionMaxCost of resource.k8s.io."""
UNBOUNDED_COST = UINT64_MAX
"""The estimate for what has no bound."""

_UNCOUNTED_COST = 100_000
"""Up to this static cost, evaluation counts nothing; a tenth of the limit, so that it cannot be reached."""

_MOST_NODES = 24_000
"""Nodes of the syntax trees of all selectors that are kept; one node takes up to 1.4 kB, compiled in both ways."""
_MOST_SEEN = 100_000
"""Parts of devices in all verdicts that are kept; a verdict takes some 300 bytes and 60 for each part."""
_WORK_PER_CHARACTER = 15
"""Of compiling a selector; the costliest ones take three times as long."""
_FIXED = 16
"""The weight of an entry without its nodes."""


class Selector:
    """A compiled device selector; safe to share between threads."""

    def __init__(self, text: str, checked: Checked, program: Program, known: Environment) -> None:
        self.text = text
        self.checked = checked
        self._program = program
        self._environment = known
        self._has_lists = known.features.reads_lists
        self._variables = [None, *[None] * program.variables]
        self.number = next(_NUMBERS)
        """A key for caches that must not keep the selector."""
        self._derived: dict[Callable[[Selector], object], Any] = {}

    @property
    def nodes(self) -> int:
        """The size of the syntax tree."""
        return len(self.checked.types)

    @property
    def root(self) -> Expression:
        """The syntax tree, macros expanded."""
        return self.checked.root

    @cached_property
    def max_cost(self) -> int:
        """The API server's estimate of what evaluating it may cost; more than `MOST_COST` is refused."""
        return estimate(self.checked, self._environment)

    @cached_property
    def reads(self) -> frozenset[Read] | None:
        """The parts of a device that it can look at; None for any."""
        return reads(self._program)

    def derive(self, function: Callable[[Selector], T]) -> T:
        """`function(self)`, computed once for as long as the selector is cached.

        Args:
            function: A module-level function. Its result depends on the selector only, and is smaller than the syntax tree.
        """
        if function not in self._derived:
            self._derived[function] = function(self)
        found: T = self._derived[function]
        return found

    def matches(self, device: CelDevice | Mapping[str, object]) -> bool:
        """True if a device matches.

        Args:
            device: read, or in the JSON form of a ResourceSlice with `driver` added. Read it once if you ask often.

        Raises:
            CelRuntimeError: the selector fails on the device, or the device cannot be evaluated at all.
        """
        ready = self._ready(device)
        try:
            return bool_result(self._value(ready))
        except EvaluationAborted as stopped:
            raise CelRuntimeError(stopped.message) from None

    def matches_all(self, devices: Iterable[CelDevice | Mapping[str, object]]) -> list[bool | CelRuntimeError]:
        """The verdicts on many devices; those that agree in all that the selector looks at are evaluated once."""
        return [self.verdict(device if isinstance(device, CelDevice) else CelDevice.read(device)) for device in devices]

    def verdict(self, device: CelDevice) -> bool | CelRuntimeError:
        """True if a device matches, cached for all devices that agree in all that the selector looks at."""
        verdict = self.cached_verdict(device)
        return self._evaluate(device) if verdict is None else verdict

    def measure(self, device: CelDevice) -> tuple[bool | CelRuntimeError, int]:
        """True if a device matches, or the error, and what evaluating that costs; nothing is cached."""
        try:
            ready = self._ready(device)
        except CelRuntimeError as error:
            return error.with_traceback(None), 0
        outcome, cost = self.counted_program.evaluate(ready)
        if isinstance(outcome, CelRuntimeError):
            return outcome, cost
        try:
            return bool_result(outcome), cost
        except (CelRuntimeError, EvaluationAborted) as error:
            return CelRuntimeError(error.message), cost

    def cached_verdict(self, device: CelDevice) -> bool | CelRuntimeError | None:
        """The verdict on a device if it was evaluated lately; else None."""
        answer = _VERDICTS.get((self.number, self._seen(device.visible)))
        return CelRuntimeError(answer) if isinstance(answer, str) else answer

    def part(self, expression: Expression) -> Selector | None:
        """A part of the syntax tree as a selector of its own; None if it fails on its own constants."""
        checked = replace(self.checked, root=expression)
        try:
            program = _plan_selector(checked, "", self._environment)
        except CelCompileError:
            return None
        return Selector("", checked, program, self._environment)

    def _ready(self, device: CelDevice | Mapping[str, object]) -> CelDevice:
        ready = device if isinstance(device, CelDevice) else CelDevice.read(device)
        problem = ready.problem if self._has_lists else ready.lists_problem
        if problem is not None:
            raise CelRuntimeError(problem)
        return ready

    def _value(self, device: CelDevice) -> Value:
        """The expression's value; raises CelRuntimeError and EvaluationAborted."""
        if self._code is not None and device.keeps_limits:
            begin_evaluation()
            try:
                return self._code([device, *self._variables])
            except RecursionError:
                pass  # the caller is deep in the stack, or the expression is; the counted program has room for both
        outcome, _ = self.counted_program.evaluate(device)
        if isinstance(outcome, CelRuntimeError):
            raise outcome
        return outcome

    @cached_property
    def _code(self) -> Callable[[list[object]], Value] | None:
        """Code that counts nothing, where no device can reach the cost limit; else None."""
        if self._program.must_count or self.max_cost > _UNCOUNTED_COST:
            return None
        begin_evaluation()
        return compile_plan(self._program, counts=False).code

    @cached_property
    def counted_program(self) -> CountedProgram:
        """Code that counts the cost."""
        return CountedProgram(self._program)

    @cached_property
    def _seen(self) -> Callable[[Visible], object]:
        """The parts of a device that the selector sees, as something that can be hashed."""
        if self.reads is None:
            return itemgetter(CONDITION, WHOLE)
        names = set()
        for part, domain, name in self.reads:
            if part in ("driver", "allowMultipleAllocations"):
                names.add(part)
            else:
                names.add(f"{part}/*" if domain is None else f"{part}/{domain}/{'*' if name is None else name}")
        return itemgetter(CONDITION, *sorted(names))

    def _evaluate(self, device: CelDevice) -> bool | CelRuntimeError:
        """Evaluate, and keep the bool_result, or the message of the error, for all devices that look the same."""
        answer: bool | str
        seen = self.number, self._seen(device.visible)
        count_work(20 + min(self.max_cost, MOST_COST))
        try:
            answer = self.matches(device)
        except CelRuntimeError as error:
            answer = error.message
        message = 0 if isinstance(answer, bool) else len(answer)
        _VERDICTS.put(seen, answer, 5 + _parts(seen[1]) + message // 60)
        return answer if isinstance(answer, bool) else CelRuntimeError(answer)


_Seen = tuple[int, object]
"""The number of a selector, and what it sees of a device."""

_NUMBERS = count()
"""Verdicts name their selector by a number, so that they do not keep it."""
_VERDICTS: BoundedCache[_Seen, bool | str] = BoundedCache(_MOST_SEEN)
"""Of all selectors: whether a device matches, or the message of the error."""


def _parts(seen: object) -> int:
    """The number of parts of a device that a verdict rests on; those of a wildcard are together in a set."""
    return sum(map(_parts, seen)) if isinstance(seen, tuple | frozenset) else 1


def compile_selector(text: str, features: CelFeatures = CelFeatures()) -> Selector:  # noqa: B008 - immutable
    """Compile a selector, or find it among those compiled lately.

    Args:
        text: the expression.
        features: what the cluster offers; by default everything that 1.36 knows, list-typed attributes (alpha) too.

    Raises:
        CelCompileError: Kubernetes refuses it: too long, bad syntax, wrong types, constants that fail, not a bool.
    """
    if not isinstance(text, str):
        raise _refusal(f"an expression is text, and this is {type(text).__name__}", "")
    compiled = _cached_selector((text, features))
    if isinstance(compiled, CelCompileError):
        raise compiled.without_traceback()
    return compiled


def _weight(key: tuple[str, CelFeatures], compiled: Selector | CelCompileError) -> int:
    size = len(str(compiled)) // 500 if isinstance(compiled, CelCompileError) else compiled.nodes
    return _FIXED + size + len(key[0]) // 500


@remember(_MOST_NODES, _weight)
def _cached_selector(key: tuple[str, CelFeatures]) -> Selector | CelCompileError:
    text, features = key
    count_work(_WORK_PER_CHARACTER * len(text))
    try:
        return _compile(text, features)
    except CelCompileError as error:
        return error.without_traceback()


def _compile(text: str, features: CelFeatures) -> Selector:
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_SELECTOR:
        raise _refusal(f"Too long: may not be more than {LONGEST_SELECTOR} bytes", text)
    known = selector_environment(features)
    checked = check(parse(text, escaped_names=features.cel_go_029), text, known)
    return Selector(text, checked, _plan_selector(checked, text, known), known)


def _plan_selector(checked: Checked, text: str, known: Environment) -> Program:
    return plan_expression(checked, text, known.functions, strict_optionals=known.features.cel_go_029)


def _refusal(message: str, text: str) -> CelCompileError:
    return CelCompileError((Issue(message, 1, 1),), text, located=False)
