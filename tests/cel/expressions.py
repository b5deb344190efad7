"""Random expressions of every construct and function, and devices to evaluate them on.

What is written is well-typed for the most part: it follows the signatures that Kubernetes declares. Now and then a
value comes in as `dyn`, so that its type shows at run time only, or has another type than is asked for.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING

from policies.cel import types
from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.types import Type, list_of, map_of, opaque, optional_of, type_of

if TYPE_CHECKING:
    from random import Random

    from policies.cel.declarations import Overload

__all__ = ["DOMAIN", "Writer", "device", "mutated"]

DOMAIN = "dra.example.com"
QUANTITY = opaque("kubernetes.Quantity")
SEMVER = opaque("kubernetes.Semver")
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
URL = opaque("kubernetes.URL")
FORMAT = opaque("kubernetes.NamedFormat")

QUANTITIES = ["1Gi", "5", "100m", "-1.5k", "1e3", "0", "9223372036854775808", "1.0000000001", "80Gi", "x"]
SEMVERS = ["1.0.0", "9.0.0", "1.2.3-rc.1+build", "v1.2", "01.2.3", "1"]
ADDRESSES = ["10.0.0.1", "::1", "::ffff:1.2.3.4", "fe80::1", "224.0.0.1", "0.0.0.0", "1.2.3", "2001:DB8::A"]
NETWORKS = ["10.0.0.0/8", "fd00::/64", "10.1.2.3/24", "::/0", "1.2.3.4/33"]
URLS = ["https://a.b:80/c%20d?e=f&e=g#h", "/path", "http://[::1]:8/", "a", "http://u:p@h/?q", ":"]
DURATIONS = ["1s", "1h2m3.5s", "-90m", "1ns", "0s", "1d", "2562047h", "-1.5h"]
TIMESTAMPS = [
    *(
        "2026-11-20T10:30:00Z",
        "1970-01-01T00:00:00.000000001Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
    ),
    *("2024-02-29T23:59:59+05:30", "2026-13-01T00:00:00Z", "2026-03-29T01:30:00Z"),
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "-08:00", "+5:30", "Nowhere/City", ""]
PATTERNS = ["a", "[a-z]+", "^a.*b?$", "(a|b)*", "(?i)H100", r"\\d{2,3}", "(?=x)", "(", "", r"\\pL", "a{2,1}", "(x)(y)"]
NUMBERS = ["12", "-7", "0x1F", "1.5", "1e3", "NaN", "Infinity", "true", "T", "", "9223372036854775808", "-0"]
FORMATS = ["dns1123Label", "uri", "uuid", "date", "datetime", "byte", "labelValue", "qualifiedName", "nope"]
TEXTS = ["a", "", "fish", "a,b,c", DOMAIN, "ünïcødé", "😀b", "aXbXc", " a\t", "tacocat", 'q"\\', "\x00", "A"]
CLAUSES = ["%s", "%d", "%f", "%.2f", "%e", "%.0e", "%x", "%X", "%o", "%b", "%%", "%.20f", "%q", "%", "%s"]

LITERALS = {
    "bool": ["true", "false"],
    "int": ["0", "1", "2", "-1", "3", "10", "0x10", "9223372036854775807", "-9223372036854775808"],
    "uint": ["0u", "1u", "2u", "18446744073709551615u"],
    "double": ["0.0", "-0.0", "1.0", "2.5", "1e308", "1e-7", 'double("NaN")', 'double("-inf")', "123456789.125"],
    "string": [json.dumps(text, ensure_ascii=False) for text in TEXTS] + ["'''x'''", r'r"\d"', "device.driver"],
    "bytes": ['b"a"', r'b"\xff\x00abc"', 'b""', "b'é'"],
    "null": ["null"],
    "duration": ['duration("90s")', 'duration("-1.5h")', "google.protobuf.Duration{seconds: 1}"],
    "timestamp": ['timestamp("2026-11-20T10:30:00Z")', "timestamp(0)", "google.protobuf.Timestamp{}"],
    "kubernetes.Quantity": ['quantity("1Gi")', 'quantity("5")', f'device.capacity["{DOMAIN}"].memory'],
    "kubernetes.Semver": ['semver("1.0.0")', 'semver("9.0.0")', f'device.attributes["{DOMAIN}"].ver'],
    "net.IP": ['ip("10.0.0.1")', 'ip("::1")'],
    "net.CIDR": ['cidr("10.0.0.0/8")', 'cidr("fd00::/64")'],
    "kubernetes.URL": ['url("https://a.b:80/c?d=e")'],
    "kubernetes.NamedFormat": ["format.uri()", "format.uuid()", "format.dns1123Label()"],
    "type": ["int", "string", "type(null)", "list", "net.IP", "google.protobuf.Timestamp", "optional_type"],
}
ATTRIBUTES = {
    "int": ["index", "large"],
    "string": ["model", "empty", "version"],
    "bool": ["ready"],
    "kubernetes.Semver": ["ver"],
    "list(int)": ["ints"],
    "list(string)": ["names"],
    "list(kubernetes.Semver)": ["vers"],
    "list(bool)": ["flags"],
}
READ_AS = {
    **dict.fromkeys(("matches", "find", "findAll"), (1, PATTERNS)),
    **dict.fromkeys(("ip", "isIP", "ip.isCanonical"), (0, ADDRESSES)),
    **dict.fromkeys(("cidr", "isCIDR"), (0, NETWORKS)),
    **dict.fromkeys(("url", "isURL"), (0, URLS)),
    **dict.fromkeys(("quantity", "isQuantity"), (0, QUANTITIES)),
    **dict.fromkeys(("semver", "isSemver"), (0, SEMVERS)),
    **dict.fromkeys(("int", "uint", "double", "bool"), (0, NUMBERS)),
    "containsIP": (1, ADDRESSES),
    "containsCIDR": (1, NETWORKS),
    "duration": (0, DURATIONS),
    "timestamp": (0, TIMESTAMPS),
    "format.named": (0, FORMATS),
}
"""What strings a function wants, and as which argument."""

SCALARS = [types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES, types.DURATION, types.TIMESTAMP]
OTHERS = [types.NULL, QUANTITY, SEMVER, IP, CIDR, URL, FORMAT, type_of(types.DYN)]
COMMON = [types.INT, types.INT, types.STRING, types.STRING, types.BOOL, types.DYN]
VARIABLES = ["x", "y", "z", "x"]
HIDDEN = frozenset({"@not_strictly_false", "@sortByAssociatedKeys", "cel.@mapInsert", "_?._"})
"""Functions that no text can call by name."""


@cache
def _overloads() -> dict[str, list[tuple[str, Overload]]]:
    """What can be called, by the name of the result's type; `A` for whatever type one likes."""
    found = defaultdict(list)
    for name, function in selector_environment(CelFeatures()).functions.items():
        for overload in function.overloads:
            mentioned = f"{overload.parameters} {overload.result}"
            if name not in HIDDEN and "authorization" not in mentioned:
                result = overload.result
                found["A" if result.kind == "parameter" else result.name].append((name, overload))
    return found


def _fits(pattern: Type, wanted: Type, bindings: dict[str, Type]) -> bool:
    """Whether a wanted type is an instance of a pattern; notes what the pattern's parameters stand for."""
    if pattern.kind == "parameter":
        return bindings.setdefault(pattern.name, wanted) == wanted
    return pattern.name == wanted.name and all(
        _fits(one, other, bindings) for one, other in zip(pattern.parameters, wanted.parameters, strict=True)
    )


class Writer:
    """Writes expressions of a wanted type."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._variables: list[tuple[str, Type]] = []

    def write(self, wanted: Type = types.BOOL, depth: int = 3) -> str:
        """An expression; how deep it may be nested is a wish."""
        roll = self._random.random()
        names = [name for name, type_ in self._variables if type_ == wanted]
        if names and roll < 0.4:
            return self._random.choice(names)
        if wanted == types.DYN:
            return self._dyn(depth)
        if depth <= 0:
            return self._leaf(wanted)
        if roll > 0.985:
            return self.write(self._any_type(), depth - 1)
        if roll > 0.93:
            return self._dyn_as(wanted, depth - 1)
        if roll > 0.85:
            return self._macro(wanted, depth - 1)
        return self._call(wanted, depth - 1)

    def _any_type(self, nesting: int = 1) -> Type:
        roll = self._random.random()
        if roll < 0.45:
            return self._random.choice(COMMON)
        if roll < 0.65 or not nesting:
            return self._random.choice(SCALARS)
        if roll < 0.75:
            return self._random.choice(OTHERS)
        if roll < 0.88:
            return list_of(self._any_type(nesting - 1))
        if roll < 0.96:
            return map_of(self._random.choice([types.STRING, types.INT]), self._any_type(nesting - 1))
        return optional_of(self._any_type(nesting - 1))

    def _leaf(self, wanted: Type) -> str:
        if self._random.random() < 0.2 and str(wanted) in ATTRIBUTES:
            return self._attribute(self._random.choice(ATTRIBUTES[str(wanted)]))
        if wanted.name == "list":
            return (
                f"[{', '.join(self.write(wanted.parameters[0], 0) for _ in range(self._random.choice((0, 1, 2, 3))))}]"
            )
        if wanted.name == "map":
            key, value = wanted.parameters
            count = self._random.choice((0, 1, 2))
            return "{" + ", ".join(f"{self.write(key, 0)}: {self.write(value, 0)}" for _ in range(count)) + "}"
        if wanted.name == "optional_type":
            return self._random.choice(("optional.none()", f"optional.of({self.write(wanted.parameters[0], 0)})"))
        return self._random.choice(LITERALS.get(wanted.name, LITERALS["int"]))

    def _attribute(self, name: str) -> str:
        domain = self._random.choice((f'"{DOMAIN}"',) * 6 + ("device.driver", '"other.com"'))
        selected = self._random.choice((f".{name}",) * 4 + (f'["{name}"]', f".?{name}", f'[?"{name}"]'))
        return f"device.attributes[{domain}]{selected}"

    def _dyn(self, depth: int) -> str:
        roll = self._random.random()
        if roll < 0.5:
            return self._attribute(self._random.choice([name for names in ATTRIBUTES.values() for name in names]))
        if roll < 0.6:
            whole = ("device.attributes", "device.capacity", f'device.attributes["{DOMAIN}"]', "device.attributes.foo")
            return f"dyn({self._random.choice(whole)})"
        return f"dyn({self.write(self._any_type(), depth - 1)})"

    def _dyn_as(self, wanted: Type, depth: int) -> str:
        return f"dyn({self.write(wanted, depth)})" if self._random.random() < 0.6 else self._dyn(depth)

    def write_in_scope(self, variables: list[tuple[str, Type]], wanted: Type, depth: int) -> str:
        """An expression that may use variables of these names and types."""
        outer = self._variables
        hidden = {name for name, _ in variables}
        self._variables = [*variables, *(item for item in outer if item[0] not in hidden)]
        try:
            return self.write(wanted, depth)
        finally:
            self._variables = outer

    def _call(self, wanted: Type, depth: int) -> str:
        known = _overloads()
        generic = not known[wanted.name] or self._random.random() < 0.12
        if not generic and wanted.name in ("list", "map") and self._random.random() < 0.3:
            return self._literal(wanted, depth)
        bindings: dict[str, Type] = {}
        for _ in range(8):
            name, overload = self._random.choice(known["A" if generic else wanted.name])
            bindings = {}
            if _fits(overload.result, wanted, bindings):
                return self._called(name, overload, bindings, depth)
        return self._leaf(wanted)

    def _called(self, name: str, overload: Overload, bindings: dict[str, Type], depth: int) -> str:
        if overload.id == "string_format":
            return self._format(depth)
        arguments = [
            self._argument(name, index, self._filled(parameter, bindings), depth)
            for index, parameter in enumerate(overload.parameters)
        ]
        if name == "@in":
            return f"({arguments[0]} in {arguments[1]})"
        if name.startswith("_") or name.endswith("_"):
            pieces = name.split("_")
            if name in ("_[_]", "_[?_]"):
                return "".join(
                    f"{piece}{value}" for piece, value in zip(pieces, ["", *arguments, ""][1:], strict=False)
                )
            text = pieces[0] + "".join(f" {value} {piece}" for value, piece in zip(arguments, pieces[1:], strict=True))
            return text.strip() if self._random.random() < 0.15 else f"({text.strip()})"
        if overload.is_member:
            return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
        return f"{name}({', '.join(arguments)})"

    def _argument(self, name: str, index: int, wanted: Type, depth: int) -> str:
        position, texts = READ_AS.get(name, (1, ZONES) if name.startswith("get") else (-1, TEXTS))
        if position == index and wanted == types.STRING and self._random.random() < 0.8:
            return '"' + self._random.choice(texts) + '"'
        return self.write(wanted, depth)

    def _filled(self, pattern: Type, bindings: dict[str, Type]) -> Type:
        if pattern.kind == "parameter":
            return bindings.setdefault(pattern.name, self._any_type(0))
        return Type(pattern.name, tuple(self._filled(part, bindings) for part in pattern.parameters), pattern.kind)

    def _format(self, depth: int) -> str:
        clauses = [self._random.choice(CLAUSES) for _ in range(self._random.choice((0, 1, 1, 2, 3)))]
        wanted = {
            "d": types.INT,
            "f": types.DOUBLE,
            "e": types.DOUBLE,
            "x": types.STRING,
            "X": types.INT,
            "o": types.INT,
        }
        values = [
            self.write(self._random.choice((wanted.get(clause[-1], types.INT), self._any_type())), depth - 1)
            for clause in clauses
            if clause != "%%"
        ]
        separator = self._random.choice((" ", "", "-ü"))
        return f'"{separator.join(clauses)}".format([{", ".join(f"dyn({value})" for value in values)}])'

    def _literal(self, wanted: Type, depth: int) -> str:
        parts = []
        for _ in range(self._random.choice((0, 1, 2, 3))):
            optional = self._random.random() < 0.15
            value = optional_of(wanted.parameters[-1]) if optional else wanted.parameters[-1]
            key = f"{self.write(wanted.parameters[0], depth)}: " if wanted.name == "map" else ""
            parts.append("?" * optional + key + self.write(value, depth))
        text = ", ".join(parts) + self._random.choice(("", "", "," if parts else ""))
        return f"{{{text}}}" if wanted.name == "map" else f"[{text}]"

    def _macro(self, wanted: Type, depth: int) -> str:
        name = self._random.choice(VARIABLES)
        writers = {"bool": self._bool_macro, "list": self._list_macro, "map": self._map_macro}
        if wanted.name == "optional_type" and self._random.random() < 0.8:
            source = self._any_type(0)
            macro, result = self._random.choice((("optMap", wanted.parameters[0]), ("optFlatMap", wanted)))
            body = self.write_in_scope([(name, source)], result, depth)
            return f"{self.write(optional_of(source), depth)}.{macro}({name}, {body})"
        if wanted.name in writers and self._random.random() < 0.8:
            return writers[wanted.name](name, wanted, depth)
        source = self._any_type()
        return f"cel.bind({name}, {self.write(source, depth)}, {self.write_in_scope([(name, source)], wanted, depth)})"

    def _range(self, depth: int) -> tuple[str, list[Type]]:
        """What to go over, and the types of two variables: index or key, and element or value."""
        key, value = self._random.choice((types.STRING, types.INT)), self._any_type(0)
        roll = self._random.random()
        if roll < 0.15:
            return f'device.attributes["{DOMAIN}"]', [types.STRING, types.DYN]
        if roll < 0.25:
            return f'device.capacity["{DOMAIN}"]', [types.STRING, QUANTITY]
        if roll < 0.5:
            return self.write(map_of(key, value), depth), [key, value]
        return self.write(list_of(value), depth), [types.INT, value]

    def _fold(self, macro: str, name: str, results: list[Type], depth: int, *, variables: int) -> str:
        over, (key, value) = self._range(depth)
        if variables == 1:
            scope = [(name, key if over.startswith(("{", "device")) else value)]
        else:
            scope = [(name, key), (name + "2", value)]
        bodies = [self.write_in_scope(scope, result, depth) for result in results]
        return f"{over}.{macro}({', '.join([*(name for name, _ in scope), *bodies])})"

    def _bool_macro(self, name: str, wanted: Type, depth: int) -> str:
        if self._random.random() < 0.15:
            return f"has({self._attribute('index').replace('.?', '.').split('[?')[0]}.foo)"
        macro = self._random.choice(("all", "exists", "exists_one", "existsOne"))
        return self._fold(macro, name, [wanted], depth, variables=self._random.choice((1, 1, 2)))

    def _list_macro(self, name: str, wanted: Type, depth: int) -> str:
        (element,) = wanted.parameters
        macro = self._random.choice(("map", "map", "map3", "filter", "transformList", "transformList3", "sortBy"))
        if macro in ("filter", "sortBy"):
            body = self.write_in_scope([(name, element)], types.BOOL if macro == "filter" else types.INT, depth)
            return f"{self.write(wanted, depth)}.{macro}({name}, {body})"
        results = [types.BOOL, element] if macro.endswith("3") else [element]
        return self._fold(macro.removesuffix("3"), name, results, depth, variables=1 if "map" in macro else 2)

    def _map_macro(self, name: str, wanted: Type, depth: int) -> str:
        macro = self._random.choice(("transformMap", "transformMapEntry"))
        results = [wanted if macro == "transformMapEntry" else wanted.parameters[1]]
        if self._random.random() < 0.3:
            results.insert(0, types.BOOL)
        return self._fold(macro, name, results, depth, variables=2)


TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|\s+|&&|\|\||[=!<>]=|.', re.DOTALL)
NOISE = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "!",
    "-",
    "+",
    "==",
    "&&",
    "||",
    "in",
    "x",
    "1",
    '"a"',
    "@",
    "/*",
]


def mutated(random: Random, text: str) -> str:
    """A text with a few tokens left out, doubled, exchanged or put in."""
    tokens = TOKENS.findall(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(tokens) + 1)
        match random.choice(("leave out", "double", "exchange", "put in")):
            case "leave out":
                del tokens[at : at + 1]
            case "double":
                tokens[at:at] = tokens[at : at + 1]
            case "exchange":
                tokens[at : at + 1] = [random.choice(tokens or NOISE)]
            case _:
                tokens.insert(at, random.choice(NOISE))
    return "".join(tokens)


def device(random: Random) -> dict[str, object]:
    """A device as a ResourceSlice has it, within the limits of the API, with its driver."""
    values = {
        "index": {"int": random.choice((0, 1, 7, -1))},
        "large": {"int": random.choice((2**63 - 1, -(2**63), 2**53 + 1))},
        "model": {"string": random.choice(("NVIDIA H100 80GB HBM3", "a", "ünïcødé", "x" * 64))},
        "empty": {"string": ""},
        "version": {"string": random.choice(SEMVERS)},
        "ready": {"bool": random.choice((True, False))},
        "ver": {"version": random.choice(SEMVERS[:3])},
        "ints": {"ints": random.choice(([], [1, 2, 3], [0, 0], [7] * 48))},
        "names": {"strings": random.choice((["a", "fish"], ["b"], [DOMAIN] * 3))},
        "vers": {"versions": random.choice((["1.0.0", "9.0.0"], []))},
        "flags": {"bools": random.choice(([True], [True, False]))},
    }
    kept = {name: value for name, value in values.items() if random.random() < 0.85}
    prefixes = ("", f"{DOMAIN}/") if random.random() < 0.7 else ("", f"{DOMAIN}/", "other.com/")
    return {
        "driver": DOMAIN,
        "attributes": {random.choice(prefixes) + name: value for name, value in kept.items()},
        "capacity": {"memory": {"value": random.choice(("80Gi", "1Gi", "5"))}, "other.com/cores": {"value": "100m"}},
        "allowMultipleAllocations": random.choice((True, False)),
    }
