"""The values that a remedy proposes, and objects with such a value."""

from __future__ import annotations

import json
import re
from copy import deepcopy

import yaml

from testbed import libyaml

OF_SCHEMA = {"GA100", "GA101", "GA102", "GA103", "GA104"}
"""Rules on the schema of a CRD, which apply to incomplete examples too."""
_WRITE = re.compile(r"\b(?:write|rename the key to|name the key) (?:(?!such as)[^\"]*?such as )?(.+)")
_SET = re.compile(r"\b(?:add|set|use) (.+)")
_REMOVE = re.compile(
    r"\bremove (?:it|the (?:annotation|config|constraint|label|mount|variable|entry)|one of the two)(?=$|,| to (?:count|mean) )"
)
_FIELD = re.compile(r'((?:"[^"]+")|[A-Za-z][\w.\-/]*): ("[^"]*"|\{.*\}|\[.*\]|[^\s,;]+)')
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|\{.*\}|\[.*\]|[^\s,;]+')
_TOKEN = re.compile(r'"[^"]*"|[\w.\-/]+|\s+|.')
_PROSE = re.compile(
    r"(an?|the|one of|some of|its?|it (?:as|in|on|under|with|without)|what|how|which|their|them|names?|text|commas?|more|fewer|"
    r"less|shorter|exactly|every|each|only|at most|all settings|metadata|for|repository|config|waitForCompletion|version: v1 and|profiles that|"
    r"one (?:value|VfioDeviceConfig)|[\w.]+: \|-|systemd-services|\[\] or|driver\.upgradePolicy too|none\b)(?!\w)"
)
"""What follows `write` where it is words, not a value: `write one of a, b`."""
_BEGINS_ELSEWHERE = re.compile(r"in [A-Z]\w+ ")
_ENDS_ELSEWHERE = re.compile(r" (?:in|on) the (?:NVIDIADriver|ClusterPolicy|DeviceClass|namespace)")
"""The words that name another object to change: "in Deployment web, write ..." and "write ... in the ClusterPolicy"."""


def proposals(finding):
    """What a finding says to write: a value, a field with its value, a part of an expression; nothing for other words."""
    advice = f"{finding.message}; {finding.remedy}" if finding.path else finding.remedy
    clauses = [clause for clause in advice.split("; ") if not _BEGINS_ELSEWHERE.match(clause)]
    verbs = (part for clause in clauses for part in re.split(r"(?=\b(?:write|add|set|use) )", clause))
    parts = [part for part in verbs if not _ENDS_ELSEWHERE.search(part)]
    written = [(part, match[1]) for part in parts if (match := _WRITE.match(part))]
    return [
        *(text for part, text in written if "such as" in part or not _PROSE.match(text)),
        *(match[1] for part in parts if (match := _SET.match(part)) and _FIELD.match(match[1])),
        *(match[0] for clause in clauses if not _ENDS_ELSEWHERE.search(clause) and (match := _REMOVE.search(clause))),
    ]


def written(document, finding, text):
    """The document with a proposal written where a finding is, in each way in which the words can be meant."""
    path = list(finding.path)
    if _REMOVE.match(text):
        yield _changed(document, path, lambda _: _GONE)
        # The field of a mount, variable or entry may be named.
        items = [depth for depth, step in enumerate(path, 1) if isinstance(step, int)]
        for depth in reversed(items if text != "remove it" else ()):
            yield _changed(document, path[:depth], lambda _: _GONE)
    elif path and path[-1] == "expression":
        yield from _in_text(document, path, text, None)
    elif finding.place and finding.place.path == finding.path:
        yield from _in_text(document, path, text, finding.place.line)
    elif not text.startswith(('"', "{", "[")) and _FIELD.match(text):
        values = {name.strip('"'): _value(value) for name, value in _FIELD.findall(text.partition(", or ")[0])}
        if all(name.startswith("gpu-admission.io/") for name in values):
            yield _changed(document, ["metadata", "annotations"], lambda old: {**(old or {}), **values})
        if "in the container" in text:
            for index in range(len(_at(document, ["spec", "containers"]))):
                yield _changed(document, ["spec", "containers", index], lambda old: _merged(old, values))
        for depth in range(len(path), -1, -1):
            yield _changed(document, path[:depth], lambda old: _merged(old, values))
            yield _moved(document, path, path[: depth - 1], values) if depth else None
    else:
        value = _value(_VALUE.match(text)[0])
        yield _changed(document, path, lambda _: value)
        yield _changed(document, path, lambda _: str(value))
        if path:
            yield _changed(document, path[:-1], lambda old: _with_key(old, path[-1], str(value)))
            yield _renamed(document, str(path[-1]), str(value))


def _value(text):
    try:
        return libyaml.load(text)
    except yaml.YAMLError:
        return text


def _in_text(document, path, text, line):
    """The proposal in the place of every part of an expression, or of a line, since a finding tells where its part begins."""
    old = _at(document, path)
    lines = old.splitlines(keepends=True)
    first = 0 if line is None else sum(map(len, lines[: line - 1]))
    last = len(old) if line is None else first + len(lines[line - 1].rstrip("\n"))
    ends = [first, *(match.end() for match in _TOKEN.finditer(old, first, last))]
    for words in dict.fromkeys((text, re.sub(r"( or the like| before the read|, or .*)$", "", text))):
        for separator in " \n":
            yield _changed(document, path, lambda _, w=words, s=separator: f"{old[:first]}{w}{s}{old[first:]}")
        for begin in ends:
            for end in ends:
                if begin < end and not old[begin].isspace():
                    yield _changed(document, path, lambda _, w=words, b=begin, e=end: old[:b] + w + old[e:])


def _at(document, path):
    for step in path:
        document = document[step]
    return document


def _merged(old, values):
    """A mapping, or the YAML of one, with values below their dotted names."""
    if isinstance(old, str):
        inner = _value(old)
        return yaml.safe_dump(_merged(inner, values), sort_keys=False) if isinstance(inner, dict) else {**values}
    new = deepcopy(old) if isinstance(old, dict) else {}
    for name, value in values.items():
        *parents, last = [name] if "/" in name else name.split(".")
        place = new
        for parent in parents:
            if not isinstance(place.get(parent), dict):
                place[parent] = {}
            place = place[parent]
        place[last] = value
    return new


def _moved(document, path, to, values):
    """The values in the place of what is at the path."""
    without = _changed(document, path, lambda _: _GONE)
    return without and _changed(without, to, lambda old: _merged(old, values))


def _with_key(old, key, other):
    """A mapping with another name of a key; None for anything else."""
    return {other if each == key else each: value for each, value in old.items()} if isinstance(old, dict) else None


def _renamed(document, name, other):
    """Another name wherever a name is a key or a text of its own, also inside a text that is JSON or YAML."""
    text = json.dumps(document)
    for before, after in (
        ('"{}"', '"{}"'),
        ('\\"{}\\"', '\\"{}\\"'),
        ("\\n{}:", "\\n{}:"),
        (" {}:", " {}:"),
        ('"{}:', '"{}:'),
    ):
        text = text.replace(before.format(name), after.format(other))
    try:
        return json.loads(text)
    except ValueError:
        return None


def _changed(document, path, change):
    """A copy with the value at a path changed, also inside a text that is itself YAML; None where there is no such place."""
    if not path:
        return change(document)
    if isinstance(document, str):
        try:
            inner = libyaml.load(document)
        except yaml.YAMLError:
            return None
        changed = None if isinstance(inner, str) else _changed(inner, path, change)
        return None if changed is None else yaml.safe_dump(changed, sort_keys=False)
    step, rest = path[0], path[1:]
    if isinstance(document, list) and isinstance(step, int) and step < len(document):
        changed = _changed(document[step], rest, change)
        if changed is None:
            return None
        return [*document[:step], *([] if changed is _GONE else [changed]), *document[step + 1 :]]
    if not isinstance(document, dict) or not isinstance(step, str):
        return None
    changed = _changed(document.get(step, {} if rest else None), rest, change)
    if changed is _GONE:
        return {key: value for key, value in document.items() if key != step}
    return None if changed is None else {**document, step: changed}


_GONE = object()
