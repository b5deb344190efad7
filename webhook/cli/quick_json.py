"""JSON by orjson, to the value that the reader with positions gives; what that reader might refuse is left to it.

`kubectl get -o json` of a large cluster has tens of megabytes, and of facts about a cluster nobody asks where they
stand, unless something is wrong with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes import yaml_scalars as scalars
from webhook.cli.lazy_modules import lazy_module

if TYPE_CHECKING:
    from policies.kubernetes.yaml import Limits

__all__ = ["quick_json"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"


def quick_json(content: bytes, limits: Limits) -> dict[str, Any] | list[Any] | None:
    """The mapping or list that a text is in JSON.

    None where it is something else, broken, beyond a limit, or has a key twice: the reader with positions then tells
    what it is, or what is wrong and where.
    """
    # A JSON text has no more keys and values than bytes.
    if len(content) > min(limits.size, limits.nodes):
        return None
    content = content.removeprefix(_BYTE_ORDER_MARK)
    if not content.lstrip(_BLANKS).startswith((b"{", b"[")):
        return None
    orjson = lazy_module("JSON")
    try:
        value: dict[str, Any] | list[Any] = orjson.loads(content)
        _settle_numbers(value, limits.depth)
    except ValueError:
        return None
    # orjson keeps the last of equal keys. Each that it lost took its colon with it.
    has_escaped_colon = b"\\u003a" in content or b"\\u003A" in content
    if has_escaped_colon or content.count(b":") != orjson.dumps(value).count(b":"):
        return None
    return value


def _settle_numbers(value: dict[str, Any] | list[Any], depth: int) -> None:
    """Write 1.0 as the integer that the API server makes of it, and so on, in place.

    Raises:
        ValueError: if the value nests deeper than that, or JSON has no such number.
    """
    level: list[Any] = [value]
    for _ in range(depth):
        below: list[Any] = []
        for collection in level:
            # No key is added, only values are set.
            for step, item in collection.items() if type(collection) is dict else enumerate(collection):
                kind = type(item)
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float:
                    collection[step] = scalars.value(item)
        if not below:
            return
        level = below
    raise ValueError(depth)
