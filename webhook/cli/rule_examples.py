"""The examples of the rules, as YAML."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

__all__ = ["RuleExamples", "read_examples"]


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
