"""Fast reading of JSON without positions, with the same values as the reader with positions.

`kubectl get -o json` of a large cluster has tens of megabytes, and positions are needed only for problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes import yaml_events as scalars

if TYPE_CHECKING:
    from policies.kubernetes.yaml import Limits

__all__ = ["quick_json"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEFORE_VALUES = (b":", b",", b"[", b"{")
"""The characters before each key and value, except the outermost."""


def quick_json(content: bytes, limits: Limits) -> dict[str, Any] | list[Any] | None:
    """The mapping or list of a JSON text.

    None if the text is something else, broken, beyond a limit, or has duplicate keys; the reader with positions then reads
    it or reports the problem.
    """
    if len(content) > limits.size or sum(map(content.count, _BEFORE_VALUES)) >= limits.nodes:
        return None
    content = content.removeprefix(_BYTE_ORDER_MARK)
    try:
        value = orjson.loads(content)
        if not isinstance(value, dict | list):
            return None
        _settle_numbers(value, limits.depth)
    except ValueError:
        return None
    # orjson keeps the last of duplicate keys; each lost key has lost its colon.
    has_escaped_colon = b"\\u003a" in content or b"\\u003A" in content
    if has_escaped_colon or content.count(b":") != orjson.dumps(value).count(b":"):
        return None
    return value


def _settle_numbers(value: dict[str, Any] | list[Any], depth: int) -> None:
    """Replace numbers as the API server does, such as 1.0 by 1, in place.

    Raises:
        ValueError: The value nests deeper than `depth`, or JSON has no such number.
    """
    level: list[Any] = [value]
    for _ in range(depth):
        below: list[Any] = []
        for collection in level:
            # Only values are set, so the size does not change.
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
