"""The LALR parser that lark makes of cel.lark, once."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["cel_parser", "terminal"]


@cache
def cel_parser() -> Lark:
    """The parser, which builds syntax trees as it reads; threads may share it.

    Making it takes a sixth of a second, and importing lark is no trifle either: both wait for the first selector.

    Raises:
        ModuleNotFoundError: without cel-python, whose grammar cel.lark imports.
        lark.exceptions.GrammarError: if cel-python's grammar has no longer the rules that cel.lark builds on.
    """
    from lark import Lark  # noqa: PLC0415 - see above

    from policies.dra.cel.parser.tree_builder import TreeBuilder  # noqa: PLC0415 - imports lark

    return Lark(
        resources.files("policies.dra.cel.parser").joinpath("cel.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=True,
        import_paths=[str(_beside_celpy())],
        transformer=TreeBuilder(),
    )


def terminal(name: str) -> str:
    """The regular expression of one of cel.lark's terminals."""
    return cel_parser().get_terminal(name).pattern.to_regexp()


def _beside_celpy() -> Path:
    """The folder in which cel-python is installed; it is not imported, because only its grammar is wanted."""
    found = find_spec("celpy")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("celpy is not installed: the CEL parser reads its grammar; install cel-python")
    return Path(found.origin).parent.parent
