"""The environment of a container, as far as its spec tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Variable", "expanded", "read_environment"]

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")

_LONGEST = 4096
"""Characters of an expanded value. Variables that double each other would otherwise grow without bound."""


class Variable(NamedTuple):
    """A variable that `env` sets."""

    entry: int
    """The index in `env` of the entry that counts."""
    value: str | None
    """None where it is known on the node only."""


def read_environment(env: Any) -> dict[str, Variable]:
    """What `env` sets, by name: of several entries the last one counts, and `$(NAME)` means what came before.

    A reference to a variable that `env` does not set may mean one of `envFrom` or of a Service, so the value is not
    known then.

    Source: k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables.
    """
    variables: dict[str, Variable] = {}
    for index, entry in enumerate(env if isinstance(env, list) else ()):
        if not isinstance(entry, dict):
            continue
        name, value = entry.get("name"), entry.get("value")
        if not isinstance(name, str):
            continue
        if value in (None, ""):
            known = "" if entry.get("valueFrom") is None else None
        elif isinstance(value, str):
            known = expanded(value, variables) if "$" in value else value
        else:
            known = None
        variables[name] = Variable(index, known)
    return variables


def expanded(text: str, variables: Mapping[str, Variable]) -> str | None:
    """The text with `$(NAME)` replaced and `$$` as one `$`; None where a reference is not known or it grows too long.

    Source: k8s.io/kubernetes third_party/forked/golang/expansion.
    """
    parts: list[str] = []
    length = end = 0
    for reference in _REFERENCE.finditer(text):
        name = reference.group(1)
        value = "$" if name is None else variables[name].value if name in variables else None
        if value is None:
            return None
        parts += (text[end : reference.start()], value)
        end = reference.end()
        length += len(parts[-2]) + len(value)
        if length > _LONGEST:
            return None
    return "".join((*parts, text[end:]))
