"""Parsing JSON without garbage collections in between."""

from __future__ import annotations

import gc
from typing import Any

import orjson

__all__ = ["parse_json"]


def parse_json(body: bytes) -> Any:
    """The document of a body.

    A page of a list becomes 100,000 Python objects. While they are created, the garbage collector would traverse all
    objects of the process several times, for 100 ms each, while no other thread runs. None of them is garbage.

    Raises:
        orjson.JSONDecodeError: The body is not JSON.
    """
    if not gc.isenabled():
        return orjson.loads(body)
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()
