"""Printed values: JSON, YAML and diffs. Reports for people are in `webhook.pages`."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import yaml

from policies.kubernetes.names import printable
from policies.kubernetes.objects import json_document
from policies.kubernetes.yaml_events import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object


def json_text(value: Any) -> str:
    """A value as JSON for programs, which people can read too."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def output_text(value: Any, kind: Any) -> str:
    """A value of a type as JSON for programs, with the fields of dataclasses in camel case."""
    return json_text(json_document(value, kind))


_Base: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class _Dumper(_Base):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        """Write shared parts out each time, because people compare and edit the text."""
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    """A string, quoted if Go's parser would read another type (`y`, `1e6`, `0o17`)."""
    style = "|" if "\n" in text else None if isinstance(plain(text), str) else '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _text)


def dump(document: Object) -> str:
    """One object as YAML, with its fields in order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def dump_all(documents: Iterable[Object]) -> str:
    """Several objects as YAML documents."""
    return "---\n".join(map(dump, documents))


def escaped_text(text: str) -> str:
    r"""A text with escapes such as `\u202e` for what cannot be printed, except tabs and line breaks."""
    return "".join(each if each.isprintable() or each in "\t\r\n" else json.dumps(each)[1:-1] for each in text)


def diff(before: Object, after: Object, name: str) -> list[str]:
    """The lines of a unified diff of an object, printable; empty if nothing changed."""
    old, new = dump(before).splitlines(), dump(after).splitlines()
    lines = unified_diff(old, new, f"{name} before admission", f"{name} as admitted", lineterm="")
    return [*map(printable, lines)]
