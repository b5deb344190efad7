"""Parsing JSON without garbage collections in between."""

from __future__ import annotations

import gc
from typing import Any

import orjson

__all__ = ["parse_json"]


def parse_json(body: bytes) -> Any:
    """The document of a body.

    A page of a list comes to 100,000 Python objects. While they are made, the garbage collector would go through all
    objects of the process several times, 100 ms each time, in which no other thread runs. None of them is garbage.

    Raises:
        orjson.JSONDecodeError: It is no JSON.
    """
    if not gc.isenabled():
        return orjson.loads(body)
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()
