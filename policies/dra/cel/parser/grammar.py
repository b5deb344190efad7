"""The grammar of CEL: lark's parser of cel.lark."""

from __future__ import annotations

from functools import cache
from importlib import metadata, resources

from lark import Lark

from policies.dra.cel.parser.tree_builder import TreeBuilder

__all__ = ["cel_parser"]


@cache
def cel_parser() -> Lark:
    """The parser, which builds syntax trees as it reads; threads may share it.

    Making it takes a sixth of a second, and importing this module is slow too: both wait for the first selector.

    Raises:
        importlib.metadata.PackageNotFoundError: without cel-python, whose grammar cel.lark imports.
        lark.exceptions.GrammarError: if cel-python's grammar has no longer the rules that cel.lark builds on.
    """
    return Lark(
        resources.files("policies.dra.cel.parser").joinpath("cel.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=True,
        # cel.lark imports celpy/cel.lark: a file of the distribution, for which no module of it is imported.
        import_paths=[str(metadata.distribution("cel-python").locate_file(""))],
        transformer=TreeBuilder(),
    )
