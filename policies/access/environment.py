"""The environment of a container, as far as its spec shows it, and the devices that it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EVERY_GPU", "Variable", "expand_references", "parse_device_list", "read_environment"]

EVERY_GPU = ("all",)

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""The characters that Go's strings.TrimSpace removes; `str.strip` removes more, so it would change some names."""


def parse_device_list(value: str) -> tuple[str, ...]:
    """The devices that a value of NVIDIA_VISIBLE_DEVICES names: none, every GPU, or a list.

    Spaces around names and empty names are ignored. `void` anywhere means no device. Otherwise the first of `all` and
    `none` decides, and other names are ignored.

    Source: nvidia-container-toolkit internal/config/image/cuda_image.go devicesFromEnvvars, devices.go.
    """
    named = tuple(name for part in value.split(",") if (name := part.strip(_SPACE)))
    if "void" in named:
        return ()
    for name in named:
        if name == "all":
            return EVERY_GPU
        if name == "none":
            return ()
    return named


_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")

_LONGEST = 4096
"""Characters of an expanded value. Variables that double each other would otherwise grow without bound."""


class Variable(NamedTuple):
    """A variable that `env` sets."""

    entry: int
    """The index in `env` of the entry that counts."""
    value: str | None
    """None if it is known only on the node."""


def read_environment(env: Any) -> dict[str, Variable]:
    """The variables of `env`, by name; the last entry wins, and `$(NAME)` refers to earlier ones.

    If a value refers to a variable that `env` does not set, the value is unknown: the variable may come from `envFrom` or
    a Service.

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
            known = expand_references(value, variables) if "$" in value else value
        else:
            known = None
        variables[name] = Variable(index, known)
    return variables


def expand_references(text: str, variables: Mapping[str, Variable]) -> str | None:
    """The text with `$(NAME)` and `$$` replaced; None if a reference is unknown or the result is too long.

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
