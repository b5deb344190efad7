"""The grammar of CEL, and the syntax tree that is built while lark parses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata, resources
from typing import TYPE_CHECKING, NamedTuple

from lark import Lark, Token, Transformer, v_args

from policies.cel.parser import parts
from policies.cel.parser.macros import MacroError, expand
from policies.cel.parser.parts import Complaint, EntryPart, Part, TooLarge
from policies.cel.syntax import Entry

if TYPE_CHECKING:
    from policies.cel.syntax import Constant


_MOST_VISITS = 250
"""cel-go's maxRecursionDepth, as its visitor counts."""

NO_ESCAPED_NAMES = "unsupported syntax: '`'"
"""The complaint of a cel-go that does not have EnableIdentEscapeSyntax on by default; `parse` drops it for one that has."""


class Misplaced(Exception):  # noqa: N818 - `parse` raises its message as a CelCompileError
    """A brace after something else than a type's name, which an LALR grammar cannot refuse."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Field(NamedTuple):
    """A field of a message."""

    start: int
    entry: EntryPart
    is_escaped: bool
    """True if its name stands between backticks."""


_Suffix = Callable[[Part], Part]
"""Makes a larger part of the operand before a field, method, index or message."""


def at(token: Token) -> int:
    """The offset of a token."""
    return token.start_pos or 0


def _field_name(field: Token) -> str:
    return field[1:-1] if field.type == "ESC_IDENTIFIER" else str(field)


def _count_visit(part: Part) -> Part:
    """The part, one visit of cel-go's parser deeper.

    Raises:
        TooLarge: if that is more than cel-go allows.
    """
    part.visits += 1
    if part.visits > _MOST_VISITS:
        raise TooLarge("max recursion depth exceeded")
    return part


def _call_or_macro(offset: int, function: str, arguments: tuple[Part, ...], target: Part | None = None) -> Part:
    """The call, or what it expands to if it is a macro's."""
    complaints: tuple[Complaint, ...] = ()
    for part in (target, *arguments) if target else arguments:
        complaints += part.complaints
    try:
        part = expand(offset, function, target, arguments) or parts.call(offset, function, *arguments, target=target)
    except MacroError as error:
        part = parts.failed_part(error.offset, error.message)
        complaints += part.complaints
    part.complaints = complaints
    return part


_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "namespace"),
        *("package", "return", "var", "void", "while"),
    }
)
"""Words that cannot be variables or functions, but fields and methods."""

_BINARY = {sign: f"_{sign}_" for sign in ("<", "<=", ">=", ">", "==", "!=", "+", "-", "*", "/", "%")} | {"in": "@in"}
"""The functions that binary operators call."""

_LITERALS: dict[str, Callable[[str], Constant]] = {
    "NUM_INT": parts.int_literal,
    "SIGNED_INT": parts.int_literal,
    "NUM_UINT": parts.uint_literal,
    "NUM_FLOAT": parts.double_literal,
    "SIGNED_FLOAT": parts.double_literal,
    "STRING": parts.string_literal,
    "BYTES": parts.bytes_literal,
    "CEL_TRUE": lambda _: True,
    "CEL_FALSE": lambda _: False,
    "NUL": lambda _: None,
}


class _Chain(NamedTuple):
    """Operands between `&&`s or `||`s, which cel-go turns into a balanced tree."""

    function: str
    operands: list[Part]
    offsets: list[int]

    def balanced_tree(self, low: int, high: int) -> Part:
        """The tree of the operators from one index to another, the middle one on top."""
        middle = (low + high + 1) // 2
        left = self.operands[middle] if middle == low else self.balanced_tree(low, middle - 1)
        right = self.operands[middle + 1] if middle == high else self.balanced_tree(middle + 1, high)
        return parts.call(self.offsets[middle], self.function, left, right)


class _Applied(NamedTuple):
    """A binary operator with what is left of it."""

    left: Part
    operator: Token


class _Element(NamedTuple):
    value: Part
    is_optional: bool


_Operand = Part | _Chain


@v_args(inline=True)
class TreeBuilder(Transformer[Token, Part]):
    """The callbacks of lark; it has no state, so that threads can share it."""

    def start(self, expression: Part) -> Part:
        """The whole text."""
        return expression

    def expr(
        self, first: _Operand, question: Token | None, then: _Operand | None, colon: Token | None, last: Part | None
    ) -> Part:
        """`a ? b : c`, or just `a`."""
        part = _tree(first)
        if question is None or then is None or last is None:
            return part
        return _count_visit(parts.call(at(question), "_?_:_", part, _tree(then), last))

    def conditionalor(self, left: _Operand | None, operator: Token | None, right: _Operand) -> _Operand:
        """`a || b`."""
        return _chain_operand("_||_", left, operator, _tree(right))

    def conditionaland(self, left: _Operand | None, operator: Token | None, right: Part) -> _Operand:
        """`a && b`."""
        return _chain_operand("_&&_", left, operator, right)

    def start_binary(self, left: Part, operator: Token) -> _Applied:
        """A binary operator and its left operand."""
        return _Applied(left, operator)

    relation_lt = relation_le = relation_gt = relation_ge = relation_eq = relation_ne = relation_in = start_binary
    addition_add = addition_sub = multiplication_mul = multiplication_div = multiplication_mod = start_binary

    def binary(self, applied: _Applied | None, right: Part) -> Part:
        """A binary operator on both operands, or what has none."""
        if applied is None:
            return right
        return _count_visit(parts.call(at(applied.operator), _BINARY[applied.operator], applied.left, right))

    relation = addition = multiplication = binary

    def unary(self, operand: Part) -> Part:
        """An operand without a sign."""
        return operand

    def logical_not(self, first: Token, *rest: Token | Part) -> Part:
        """`!a`; an even number of signs is nothing."""
        return _negation("!_", first, rest)

    def negation(self, first: Token, *rest: Token | Part) -> Part:
        """`-a`; an even number of signs is nothing."""
        return _negation("-_", first, rest)

    def member(self, operand: Part, *suffixes: _Suffix) -> Part:
        """Fields, elements and methods of something, from left to right."""
        for suffix in suffixes:
            operand = suffix(operand)
        return operand

    unsigned = member

    def primary(self, operand: Part) -> Part:
        """An operand with nothing behind it."""
        return operand

    def select(self, dot: Token, question: Token | None, field: Token) -> _Suffix:
        """`.field` or `.?field`."""
        escaped = field.type == "ESC_IDENTIFIER"
        name = _field_name(field)

        def suffix(operand: Part) -> Part:
            if question is None:
                part = parts.select(at(dot), operand, name)
            else:
                part = parts.call(at(dot), "_?._", operand, parts.literal(at(field), name))
            if escaped:
                part.name = None
                part.complain(at(field), NO_ESCAPED_NAMES)
            return _count_visit(part)

        return suffix

    def member_call(
        self, dot: Token, method: Token, opening: Token, arguments: tuple[Part, ...] | None, closing: Token
    ) -> _Suffix:
        """`.method(arguments)`."""
        return lambda target: _count_visit(_call_or_macro(at(opening), str(method), arguments or (), target))

    def index(self, opening: Token, question: Token | None, index: Part, closing: Token) -> _Suffix:
        """`[index]` or `[?index]`."""
        function = "_[_]" if question is None else "_[?_]"
        return lambda operand: _count_visit(parts.call(at(opening), function, operand, index))

    def message(self, opening: Token, *rest: Field | Token) -> _Suffix:
        """`{field: value}` behind the name of a type, which may contain reserved words."""
        fields = [field for field in rest if isinstance(field, Field)]
        entries = tuple(field.entry for field in fields)

        def suffix(type_: Part) -> Part:
            if type_.name is None:
                raise Misplaced(at(opening))
            part = parts.struct_literal(at(opening), type_.name, entries)
            for _ in filter(lambda field: field.is_escaped, fields):
                part.complain(fields[0].start, NO_ESCAPED_NAMES)
            return part

        return suffix

    def field_entry(self, question: Token | None, field: Token, colon: Token, value: Part) -> Field:
        """`field: value` or `?field: value`."""
        is_escaped = field.type == "ESC_IDENTIFIER"
        if is_escaped:
            value.complaints = tuple(each._replace(is_of_escaped_field=True) for each in value.complaints)
        entry = Entry(at(colon), _field_name(field), value.node, question is not None)
        return Field(at(question or field), EntryPart(entry, (value,)), is_escaped)

    def identifier(self, dot: Token | None, name: Token) -> Part:
        """`name` or `.name`."""
        qualified = f".{name}" if dot else str(name)
        if name not in _RESERVED:
            return parts.identifier(at(name), qualified)
        part = parts.failed_part(at(dot or name), f"reserved identifier: {name}")
        part.name = qualified
        return part

    def global_call(
        self, dot: Token | None, name: Token, opening: Token, arguments: tuple[Part, ...] | None, closing: Token
    ) -> Part:
        """`function(arguments)`."""
        if name in _RESERVED:
            return parts.failed_part(at(dot or name), f"reserved identifier: {name}")
        return _call_or_macro(at(opening), f".{name}" if dot else str(name), arguments or ())

    def arguments(self, *children: Part | Token) -> tuple[Part, ...]:
        """`a, b`."""
        return tuple(child for child in children if isinstance(child, Part))

    def parentheses(self, opening: Token, part: Part, closing: Token) -> Part:
        """`(a)`: no name of a type, even if `a` is."""
        part.name = None
        return part

    def list_literal(self, opening: Token, *rest: _Element | Token) -> Part:
        """`[a, ?b]`."""
        elements = [child for child in rest if isinstance(child, _Element)]
        optional = frozenset(number for number, element in enumerate(elements) if element.is_optional)
        return parts.list_literal(at(opening), tuple(element.value for element in elements), optional)

    def element(self, question: Token | None, value: Part) -> _Element:
        """`a` or `?a`."""
        return _Element(value, question is not None)

    def map_literal(self, opening: Token, *rest: EntryPart | Token) -> Part:
        """`{key: value, ?key: value}`."""
        return parts.map_literal(at(opening), tuple(child for child in rest if isinstance(child, EntryPart)))

    def map_entry(self, question: Token | None, key: Part, colon: Token, value: Part) -> EntryPart:
        """`key: value` or `?key: value`."""
        return EntryPart(Entry(at(colon), key.node, value.node, question is not None), (key, value))

    def literal(self, token: Token) -> Part:
        """A number, string, or word that is a constant."""
        try:
            return parts.literal(at(token), _LITERALS[token.type](token))
        except ValueError as error:
            return parts.failed_part(at(token), str(error))

    signed_literal = literal


def _tree(operand: _Operand) -> Part:
    return operand.balanced_tree(0, len(operand.offsets) - 1) if isinstance(operand, _Chain) else operand


def _chain_operand(function: str, left: _Operand | None, operator: Token | None, right: Part) -> _Operand:
    if left is None or operator is None:
        return right
    chain = left if isinstance(left, _Chain) else _Chain(function, [left], [])
    chain.operands.append(right)
    chain.offsets.append(at(operator))
    return chain


def _negation(function: str, first: Token, rest: tuple[Token | Part, ...]) -> Part:
    """The operand, which is the last child, with as many signs as there are children before it."""
    *_, operand = rest
    if not isinstance(operand, Part):
        raise TypeError(operand)
    return parts.call(at(first), function, operand) if len(rest) % 2 else operand


@cache
def cel_parser() -> Lark:
    """The parser, which builds syntax trees as it reads; threads may share it.

    Making it takes a sixth of a second, and importing this module is slow too: both wait for the first selector.

    Raises:
        importlib.metadata.PackageNotFoundError: without cel-python, whose grammar cel.lark imports.
        lark.exceptions.GrammarError: if cel-python's grammar has no longer the rules that cel.lark builds on.
    """
    return Lark(
        resources.files("policies.cel.parser").joinpath("cel.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=True,
        # cel.lark imports celpy/cel.lark: a file of the distribution, for which no module of it is imported.
        import_paths=[str(metadata.distribution("cel-python").locate_file(""))],
        transformer=TreeBuilder(),
    )
