"""Reads the administrator's settings, from a file or as a cluster holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

# Registers every rule, so that a mistyped id is seen.
import policies.review  # noqa: F401
from policies.idle_settings import settings_remarks
from policies.settings import DEFAULTS, SettingsError, parse_settings
from policies.view import UNKNOWN
from webhook.cli.documents import Reader
from webhook.cli.problems import Problem
from webhook.cluster.live_settings import LiveSettings
from webhook.cluster.manifests import ManifestsView, unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["chosen_settings", "read_settings", "settings_among", "settings_of_facts", "settings_of_files"]


def read_settings(file: str | None, reader: Reader) -> GPUAdmissionPolicy:
    """The GPUAdmissionPolicy of a file, or the defaults where none is given; what is wrong goes to the reader."""
    if file is None:
        return DEFAULTS
    known = len(reader.problems)
    documents = list(reader.documents([file]))
    if len(documents) != 1:
        if len(reader.problems) == known:
            count = len(documents) or "no"
            reader.problems.append(Problem(file, f"holds {count} documents; one GPUAdmissionPolicy is expected"))
        return DEFAULTS
    name, document = documents[0]
    try:
        policy = parse_settings(document.value)
    except SettingsError as error:
        reader.problems += [
            Problem(name, f"{path}: {sentence}" if path else sentence, document.position(path))
            for path, sentence in error.problems
        ]
        return DEFAULTS
    for path, sentence in settings_remarks(policy):
        click.echo(f"Warning: {Problem(name, sentence, document.position(path))}", err=True)
    return policy


def chosen_settings(file: str | None) -> GPUAdmissionPolicy | None:
    """The GPUAdmissionPolicy of a file; None where none is given, so that those of the cluster hold.

    Raises:
        UnreadableInputError: with the problems of the file.
    """
    if not file:
        return None
    reader = Reader()
    policy = read_settings(file, reader)
    if reader.problems:
        reader.fail()
    return policy


def settings_among(view: ClusterView) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings that a cluster holds, or the built-in defaults, and notes on them: sentences without full stops."""
    settings = LiveSettings(view)
    return settings(), settings.notes()


def settings_of_facts(facts: Iterable[Object]) -> GPUAdmissionPolicy:
    """The GPUAdmissionPolicy among what files tell of a cluster, or the defaults.

    What is wrong with it is printed as a warning: the cluster would not obey it either.
    """
    stored = [item for fact in facts for item in unwrap_lists(fact) if item.get("kind") == "GPUAdmissionPolicy"]
    policy, notes = settings_of_files(ManifestsView(stored))
    for note in notes:
        click.echo(f"Warning: {note}", err=True)
    return policy


def settings_of_files(view: ClusterView) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The same for a cluster in files, of which it is no news that they hold no settings."""
    policy, notes = settings_among(view)
    return policy, notes if view.list("GPUAdmissionPolicy") is not UNKNOWN else []
