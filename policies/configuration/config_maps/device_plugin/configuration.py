"""Configurations: the documents of a device-plugin ConfigMap, with their places in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from policies.checks import Checks
from policies.configuration.embedded import Embedded
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.plugin_configs import LIMITS, PluginConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["CONFIGURATION", "MOST_DOCUMENTS", "Configuration", "configurations", "reviewed_texts", "texts"]

MOST_DOCUMENTS = 128
"""Keys of one ConfigMap that are reviewed; each takes up to half a millisecond, and a ConfigMap holds 50,000."""


@dataclass(frozen=True, slots=True)
class Configuration(PluginConfig):
    """One document of a device-plugin ConfigMap."""

    embedded: Embedded

    @property
    def change(self) -> Change:
        """The change of the ConfigMap."""
        return self.embedded.change

    @property
    def key(self) -> str:
        """The key of the ConfigMap, which is the configuration's name."""
        return self.embedded.key


def texts(config_map: Any) -> dict[str, Any]:
    """The `data` of a ConfigMap."""
    data = config_map.get("data") if isinstance(config_map, dict) else None
    return data if isinstance(data, dict) else {}


def reviewed_texts(config_map: Any) -> Iterator[tuple[str, Any]]:
    """The first `MOST_DOCUMENTS` items of `data`; GA133 warns about more."""
    return islice(texts(config_map).items(), MOST_DOCUMENTS)


def configurations(change: Change) -> Iterator[Configuration]:
    """The documents of a ConfigMap that can be read; GA133 reports the others."""
    for key, text in reviewed_texts(change.object):
        if isinstance(text, str):
            try:
                document = load_document(text, limits=LIMITS)
            except YAMLError:
                continue
            yield Configuration(document.value, Embedded(change, key, document))


CONFIGURATION: Checks[Configuration] = Checks("ConfigMap")
"""The checks of one configuration."""
