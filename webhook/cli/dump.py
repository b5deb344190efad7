"""Writes objects as YAML that Kubernetes reads back as the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from policies.kubernetes.yaml_scalars import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object

__all__ = ["dump", "dump_all"]

_Base: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class _Dumper(_Base):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        """Parts that an object shares are written out each time: people compare and edit what they read."""
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    """A string, quoted where Go's reader would take it for something else (`y`, `1e6`, `0o17`)."""
    style = "|" if "\n" in text else None if isinstance(plain(text), str) else '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _text)


def dump(document: Object) -> str:
    """One object, its fields in their order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def dump_all(documents: Iterable[Object]) -> str:
    """Several objects, each a document of its own."""
    return "---\n".join(map(dump, documents))
