"""Rules on GPUAdmissionPolicies: invalid ones, and settings without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.rules.decision import Severity
from policies.rules.idle_settings import idle_settings
from policies.rules.registry import Checks, Problem, ineffective_rule_names, problem
from policies.rules.settings import SettingsError, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["SETTINGS"]

SETTINGS: Checks[Change] = Checks("GPUAdmissionPolicy")
"""Checks of settings. `policies.admission` gives their findings default severities: settings cannot allow invalid ones."""


@SETTINGS.rule(
    "GA701",
    "Settings must be readable and consistent",
    default=Severity.DENY,
    remedy="put right what is named; docs/settings.md describes every setting",
    source="docs/settings.md",
    fixed=True,
)
def readable_settings(change: Change) -> Iterator[Problem]:
    """Settings with one mistake do not take effect at all: the ones before silently stay.

    So they cannot be stored, whatever severities and exemptions are set. Labels and annotations of what is stored
    already can be changed all the same, and it can be deleted.
    """
    try:
        parse_settings(change.object)
    except SettingsError as error:
        # What is stored may be invalid only since a newer version runs: who labels it has not written it.
        kept = change.old is not None and change.value_before() == change.object.get("spec")
        for path, sentence in error.problems:
            yield problem(path, sentence, "", severity=Severity.WARN if kept else None)


@SETTINGS.rule(
    "GA702",
    "Settings must name rules that exist and can be set",
    default=Severity.WARN,
    remedy="take it out, or name one that gpu-admission rules lists",
    source="docs/settings.md",
    fixed=True,
)
def effective_rules(change: Change) -> Iterator[Problem]:
    """A severity for a rule that does not exist changes nothing, and neither does an exemption from one.

    It is no mistake for certain, because settings can be written before the version that knows the rule is installed.
    """
    if (settings := _readable(change)) is not None:
        for path, sentence in ineffective_rule_names(settings):
            yield problem(path, sentence)


@SETTINGS.rule(
    "GA707",
    "A setting must have what it needs to take effect",
    default=Severity.WARN,
    remedy="remove it, or set what it needs",
    source="docs/settings.md",
    fixed=True,
)
def effective_settings(change: Change) -> Iterator[Problem]:
    """Some settings have no effect alone, and others override some.

    GA609 is found only beside another finding on the same pod. GA411 needs `placement.avoidSharedGPUs`. Of two entries for
    the same thing in the same namespaces the later one wins. An entry for the rule of a setting replaces the setting.
    """
    if (settings := _readable(change)) is not None:
        for path, message, remedy in idle_settings(settings):
            yield problem(path, message, remedy)


def _readable(change: Change) -> GPUAdmissionPolicy | None:
    """The settings; None if they are not readable, which GA701 reports."""
    try:
        return parse_settings(change.object)
    except SettingsError:
        return None
