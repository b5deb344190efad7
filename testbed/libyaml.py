"""YAML read as by `yaml.safe_load`, in a tenth of the time if libyaml is installed."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def load(text: str | bytes | IO[str]) -> Any:
    """The only document of a text; None if it is empty."""
    return yaml.load(text, _LOADER)


def load_all(text: str | bytes | IO[str]) -> Iterator[Any]:
    """The documents of a text; None for each that is empty."""
    return yaml.load_all(text, _LOADER)
