"""The administrator's settings: of a file, or of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from policies.admission import rule_book
from policies.kubernetes.view import UNKNOWN
from policies.rules.idle_settings import settings_remarks
from policies.rules.settings import DEFAULTS, SettingsError, parse_settings
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.progress import current_progress
from webhook.cluster.live import LiveSettings
from webhook.cluster.manifests import ManifestsView, unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions


ADMISSION_CONFIGURATION = "admission-configuration.yaml"
"""The file beside those of an API server that says what to add to its own configuration."""
_SUFFIXES = (".yaml", ".yml", ".json")
"""Source: k8s.io/apiserver pkg/admission/plugin/manifest/loader.go."""


class RunningFacts(Protocol):
    """A running cluster, read while a command needs it."""

    @property
    def server(self) -> str:
        """The host and the port of the API server."""

    def settings(self) -> tuple[GPUAdmissionPolicy, list[str]]:
        """The settings of the cluster, and notes on them."""

    def view(self, settings: GPUAdmissionPolicy, reviewed: Iterable[Object]) -> ManifestsView:
        """The facts of the cluster, with the objects under review."""

    def view_with_workloads(self, settings: GPUAdmissionPolicy) -> ManifestsView:
        """The facts of the cluster, with all objects that create pods."""


class ClusterFiles(NamedTuple):
    """A cluster in files."""

    facts: list[Object]
    """Objects, lists of objects, and the output of `kubectl version`."""
    settings: GPUAdmissionPolicy
    """Those of the settings file, else those of the cluster, else the defaults."""
    notes: list[str]
    """Problems of the cluster's settings, without full stops; they are not errors, because the cluster ignores them too."""
    running: RunningFacts | None = None
    """A running cluster, instead of the facts."""

    def view(self, reviewed: Iterable[Object] = ()) -> ManifestsView:
        """The facts of the cluster, with the objects under review."""
        if self.running is None:
            return ManifestsView(self.facts, reviewed)
        return self.running.view(self.settings, reviewed)

    def print_notes(self) -> None:
        """Print the notes as warnings."""
        for note in self.notes:
            current_progress().print_line(f"Warning: {note}")


def read_facts(source: ClusterOptions, running: RunningFacts | None, reader: ManifestReader) -> ClusterFiles:
    """Read files or the settings of a running cluster, and print notes; problems go to the reader."""
    if running is None:
        files = cluster_files(source.cluster, source.settings, reader)
    else:
        policy, notes = running.settings() if source.settings is None else (read_settings(source.settings, reader), [])
        files = ClusterFiles([], policy, notes, running)
    files.print_notes()
    return files


def cluster_files(paths: Iterable[str], settings: str | None, reader: ManifestReader) -> ClusterFiles:
    """Read the files of a cluster, and the file with settings if one is given; problems go to the reader."""
    chosen = read_settings(settings, reader)
    facts = reader.cluster(paths)
    if settings is not None:
        return ClusterFiles(facts, chosen, [])
    stored = [item for fact in facts for item in unwrap_lists(fact) if item.get("kind") == "GPUAdmissionPolicy"]
    view = ManifestsView(stored)
    policy, notes = settings_in(view)
    return ClusterFiles(facts, policy, notes if view.list("GPUAdmissionPolicy") is not UNKNOWN else [])


def read_cluster_files(paths: Iterable[str], settings: str | None) -> ClusterFiles:
    """Read the files of a cluster, and the file with settings if one is given.

    Raises:
        UnreadableInputError: Files have problems.
    """
    reader = ManifestReader()
    files = cluster_files(paths, settings, reader)
    reader.check()
    return files


def read_static(paths: Iterable[str]) -> list[Object]:
    """The objects in files and folders of an API server, which has to be able to read each.

    Raises:
        UnreadableInputError: Files have problems.
    """
    reader, files = ManifestReader(), list[str]()
    for path in map(Path, paths):
        inside = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        found = [str(each) for each in inside if each.name != ADMISSION_CONFIGURATION]
        if not found:
            reader.problems.append(Problem(str(path), "holds no file that an API server reads: *.yaml, *.yml, *.json"))
        files += found
    objects = [manifest.object for manifest in reader.manifests(files)]
    reader.check()
    return objects


def read_settings(file: str | None, reader: ManifestReader) -> GPUAdmissionPolicy:
    """The GPUAdmissionPolicy of a file, or the defaults if no file is given; problems go to the reader."""
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
        reader.problems += [Problem(name, each.text, document.position(each.path)) for each in error.problems]
        return DEFAULTS
    for each in settings_remarks(policy, rule_book()):
        current_progress().print_line(f"Warning: {Problem(name, each.text, document.position(each.path))}")
    return policy


def chosen_settings(file: str | None) -> GPUAdmissionPolicy | None:
    """The GPUAdmissionPolicy of a file; None without a file, so that the cluster's settings hold.

    Raises:
        UnreadableInputError: The file has problems.
    """
    if not file:
        return None
    reader = ManifestReader()
    policy = read_settings(file, reader)
    reader.check()
    return policy


def settings_in(view: ClusterView) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings of a cluster, or the built-in defaults, and notes on them without full stops."""
    settings = LiveSettings(view)
    return settings(), settings.notes()
