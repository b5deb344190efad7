"""Values as text: in flow style on one line, or in block style."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.yaml_scalars import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BlockStyle", "block_lines", "flow_text"]

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class BlockStyle(NamedTuple):
    """The indentation of a document in block style."""

    width: int = 2
    """Blanks before the keys of a nested mapping."""
    lists: int = 0
    """Blanks before the items of a list in a mapping."""


def flow_text(value: Any, *, is_json: bool = False) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        items = (
            f"{flow_text(key, is_json=is_json)}: {flow_text(each, is_json=is_json)}" for key, each in value.items()
        )
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(flow_text(each, is_json=is_json) for each in value)}]"
    if isinstance(value, str) and not is_json:
        return _string(value)
    return json.dumps(value, ensure_ascii=False)


def block_lines(value: dict[str, Any], style: BlockStyle, indentation: int = 0) -> Iterator[str]:
    """The lines of a mapping in block style, without line breaks."""
    for key, item in value.items():
        begin = f"{' ' * indentation}{_string(key)}:"
        if isinstance(item, dict) and item:
            yield begin
            yield from block_lines(item, style, indentation + style.width)
        elif isinstance(item, list) and item:
            yield begin
            for each in item:
                yield from _item_lines(each, style, indentation + style.lists)
        else:
            yield f"{begin} {flow_text(item)}"


def _item_lines(item: Any, style: BlockStyle, indentation: int) -> Iterator[str]:
    dash = f"{' ' * indentation}- "
    if not isinstance(item, dict) or not item:
        yield dash + flow_text(item)
        return
    first, *others = block_lines(item, style, indentation + 2)
    yield dash + first.lstrip(" ")
    yield from others


def _string(text: str) -> str:
    """A string as YAML 1.1 and 1.2 read it back."""
    if _PLAIN.fullmatch(text) and isinstance(plain(text), str):
        return text
    if not text or "\\" in text or _UNPRINTABLE.search(text):
        return json.dumps(text, ensure_ascii=False)
    return "'{}'".format(text.replace("'", "''")) if '"' in text else f'"{text}"'
