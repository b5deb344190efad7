"""Random mutations of JSON, from a seed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random


_GO_DEEPER = 0.85
"""Chance at each level that a mutation happens further down."""
_MOST_TEXTS = 4000


def _nest(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [{"a": value}]
    return value


_JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 10**30, 1.5, 1e308, -0.0),
    *(
        "",
        " ",
        "0",
        "1",
        "-1",
        "1.5",
        "1e9",
        "1e400",
        "0x10",
        "1_000",
        "²",
        "\uff11\uff12",
        "NaN",
        "1Gi",
        "500m",
        "99999999999E",
    ),
    *(
        "all",
        "none",
        "void",
        "$(X)",
        "$$(X)",
        "../..",
        "/",
        "a/b",
        "/a",
        "a/",
        "*",
        "[",
        "(",
        "\\",
        "\n",
        "\x00",
        "é",
        "\u202e",
    ),
    *("true", "null", "x" * 300, "a." * 200, "nvidia.com/gpu", "nvidia.com/", "device.attributes[", "default"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {}}, [1, "1"], _nest(3), _nest(40)),
)


class Mutator:
    """Mutates JSON documents; keys and values come from the seeds, so that a mutant is often nearly right."""

    def __init__(self, random: Random, seeds: Iterable[Any]) -> None:
        self._random = random
        self._values: dict[str, list[Any]] = {}
        texts: dict[str, None] = {}
        for seed in seeds:
            self._learn(seed, texts)
        self._keys = list(self._values)
        self._texts = list(texts)[:_MOST_TEXTS]

    def mutant(self, document: Any, times: int) -> Any:
        """A copy of a document with so many mutations."""
        holder = {"document": json.loads(json.dumps(document))}
        for _ in range(times):
            self._mutate(holder)
        return holder["document"]

    def _learn(self, value: Any, texts: dict[str, None]) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                if isinstance(key, str):
                    self._values.setdefault(key, []).append(part)
                    texts[key] = None
                self._learn(part, texts)
        elif isinstance(value, list):
            for part in value:
                self._learn(part, texts)
        elif isinstance(value, str):
            texts[value] = None

    def _mutate(self, holder: dict[str, Any]) -> None:
        random = self._random
        parent: Any = holder
        step: Any = "document"
        while (inner := parent[step]) and isinstance(inner, dict | list) and random.random() < _GO_DEEPER:
            parent, step = inner, random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        value = parent[step]
        choice = random.random()
        if choice < 0.12 and parent is not holder:
            del parent[step]
        elif choice < 0.37:
            parent[step] = self._copy(random.choice(_JUNK))
        elif choice < 0.52 and isinstance(step, str) and step in self._values:
            parent[step] = self._copy(random.choice(self._values[step]))
        elif choice < 0.58:
            parent[step] = self._any_value()
        elif isinstance(value, dict):
            self._mutate_mapping(value)
        elif isinstance(value, list):
            self._mutate_list(value)
        elif isinstance(value, str):
            parent[step] = self._text_like(value)
        elif isinstance(value, int | float):
            parent[step] = random.choice([value + 1, value - 1, -value, str(value), value // 2])
        else:
            parent[step] = self._any_value()

    def _mutate_mapping(self, value: dict[str, Any]) -> None:
        random = self._random
        key = random.choice(self._keys)
        if value and random.random() < 0.3:
            value[self._text_like(key)] = value.pop(random.choice(list(value)))
        else:
            value[key] = self._copy(random.choice(self._values[key]))

    def _mutate_list(self, value: list[Any]) -> None:
        random = self._random
        if value and random.random() < 0.7:
            copies = random.choice([1, 1, 1, 2, 40])
            value.extend(self._copy(random.choice(value)) for _ in range(copies))
        else:
            value.insert(random.randint(0, len(value)), self._any_value())

    def _text_like(self, text: str) -> str:
        random = self._random
        choice = random.random()
        if choice < 0.3:
            return str(random.choice(self._texts))
        where = random.randint(0, len(text))
        if choice < 0.6:
            return text[:where] + random.choice('azAZ09-_./:,"[](){}$%*²é\n ') + text[where:]
        if choice < 0.8:
            return text[:where] + text[where + 1 :]
        return text + random.choice(self._texts) if choice < 0.9 else text.upper()

    def _any_value(self) -> Any:
        return self._copy(self._random.choice(self._values[self._random.choice(self._keys)]))

    @staticmethod
    def _copy(value: Any) -> Any:
        return json.loads(json.dumps(value))
