"""Files that are no code and that commands read: the examples, and the manifests of this version."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

_INSTALLED = Path(__file__).parents[1] / "shipped"
_CHECKOUT = Path(__file__).parents[2]


def shipped_path(name: str) -> Path:
    """The path of `examples` or `deploy`: in the package if it is installed, else in the checkout.

    It is relative if it is below the current folder, because commands print it.
    """
    root = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    path, here = root / name, Path.cwd()
    return Path(os.path.relpath(path, here)) if path.is_relative_to(here) else path


class RuleExamples(NamedTuple):
    """The examples of a rule, as YAML: the object, the object before an update, and what the cluster has."""

    wrong: str
    """An example that breaks the rule."""
    right: str
    """The same example put right."""


def read_examples(rule_id: str) -> RuleExamples:
    """The examples of a rule, from its folder in `policies/rule_examples`."""
    folder = files("policies") / "rule_examples" / rule_id
    names = RuleExamples._fields
    return RuleExamples(*((folder / f"{name}.yaml").read_text(encoding="utf-8").removesuffix("\n") for name in names))
