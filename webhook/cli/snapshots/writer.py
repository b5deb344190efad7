"""Writes a snapshot: everything that the offline commands need, in a folder."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

import click
import orjson
import yaml

from policies.admission import CONFIGURATIONS
from policies.configuration import is_configuration
from policies.devices.pod_groups import POD_GROUP
from policies.fleet.operands import operator_place
from policies.kubernetes.names import format_count
from policies.kubernetes.objects import lookup, name_of, namespace_of
from policies.rules.request import Request
from webhook.cli.progress import current_progress
from webhook.cli.running_clusters import NoClusterError, run_connected, server_facts, stored_settings, typed_list
from webhook.cli.snapshots.reductions import reduction_of, without_values
from webhook.cli.snapshots.replaced_names import ReplacedNames
from webhook.cli.text_layout import dump
from webhook.cli.unwatched_objects import POD_EVENTS
from webhook.cli.user_files import reason_of
from webhook.cluster.clockwork import rfc3339
from webhook.cluster.kind_reads import ABOUT_THE_KIND, Unreadable, read_object, read_pages
from webhook.cluster.lists import LARGE_PAGE, workload_resources
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched, watched_kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource


_NAMESPACE, _CONFIG_MAP = "Namespace", "ConfigMap"
_FIRST = (_NAMESPACE, "ClusterPolicy", "NVIDIADriver", "GPUCluster")
"""Kinds that decide what is kept of ConfigMaps, which are read after them."""
_NUMBER = re.compile(r"v[0-9]+\.[0-9]+(?:\.[0-9]+)?")


@dataclass(slots=True)
class Snapshot:
    """The content of a snapshot, and why kinds are missing."""

    url: str
    """Of the API server."""
    files: dict[str, int] = field(default_factory=dict)
    """The number of objects in each file."""
    unknown: list[Unreadable] = field(default_factory=list)
    """The kinds that are missing, with the reasons."""
    notes: list[str] = field(default_factory=list)
    """Problems of the cluster's settings, without full stops."""

    def summary(self, folder: Path) -> str:
        """The number of written objects, in one sentence."""
        objects = format_count(sum(self.files.values()), "object")
        kinds = format_count(sum(map(bool, self.files.values())), "kind")
        unknown = f"; unknown: {format_count(len(self.unknown), 'kind')}" if self.unknown else ""
        return f"{objects} of {kinds} written to {folder}{unknown}"


def take_snapshot(folder: Path, source: ClusterOptions, *, renames: bool) -> Snapshot:
    """Write a snapshot of a running cluster.

    Args:
        folder: Is created, or replaced if it is empty or has a snapshot.
        source: The cluster; only its namespace is read, if it names one.
        renames: True to replace the names that users choose.

    Raises:
        NoClusterError: The cluster cannot be read.
        click.UsageError: The folder has other files, or the namespace does not exist.
    """
    check_target(folder)
    return run_connected(source, lambda client: _take(client, folder, source.namespace, renames=renames))


async def _take(client: APIClient, folder: Path, namespace: str, *, renames: bool) -> Snapshot:
    facts = await server_facts(client)
    settings, notes = await stored_settings(client)
    snapshot = Snapshot(client.url, notes=notes)
    with replaced_folder(folder) as written:
        names = ReplacedNames() if renames else None
        writer = _Writer(client, written, namespace, settings, snapshot, names)
        await writer.write()
        head = {
            **(facts if names is None else _without_names(facts)),
            "snapshot": {
                "gpuAdmission": version_of("gpu-admission"),
                "time": rfc3339(datetime.now(UTC)),
                **({} if renames else {"server": client.url, "namespace": namespace}),
                "namesReplaced": renames,
                "unknown": [
                    str(each) if names is None else each.redacted_text(names.resource(each.wanted.resource))
                    for each in snapshot.unknown
                ],
                "files": snapshot.files,
            },
        }
        (written / HEAD).write_text(dump(head), encoding="utf-8")
    return snapshot


def _without_names(facts: Object) -> Object:
    """The facts about an API server, of its version only the number: its build can name a company."""
    number = _NUMBER.match(str(lookup(facts, ("serverVersion", "gitVersion"))))
    return {**facts, "serverVersion": {"gitVersion": number[0]} if number else None}


@dataclass(slots=True)
class _Writer:
    """Reads one kind after the other into files."""

    client: APIClient
    folder: Path
    namespace: str
    settings: GPUAdmissionPolicy
    snapshot: Snapshot
    names: ReplacedNames | None
    """Replaces names; None to keep them."""
    facts: list[Object] = field(default_factory=list)
    """Lists of the first kinds."""

    async def write(self) -> None:
        watched: dict[str, list[Watched]] = {}
        for each in watched_kinds(self.settings.configuration.operator_namespaces):
            if each.kind != "Deployment":  # read as a workload
                watched.setdefault(each.kind, []).append(each)
        # A redacted template is named after its redacted content, and others refer to it.
        kinds = dict.fromkeys((*_FIRST, "ResourceClaimTemplate", *watched))
        for kind in kinds:
            if kind == _CONFIG_MAP:
                await self._write_config_maps(watched[kind])
            else:
                await self._write_kind(*watched[kind])
        for resource in (*await workload_resources(self.client, self.settings), RESOURCES["NodePool"]):
            await self._write_kind(Watched(resource))
        await self._write_kind(POD_EVENTS)
        for kind, name in CONFIGURATIONS:
            await self._write_object(RESOURCES[kind], name)
        if not any(self.snapshot.files.values()):
            raise NoClusterError(
                f"{self.client.url}: nothing can be read: {'; '.join(map(str, self.snapshot.unknown))}"
            )

    async def _write_kind(self, wanted: Watched) -> None:
        resource = wanted.resource
        only = self.namespace if resource.namespaced else ""
        reduce = reduction_of(resource)
        kept: list[Object] = []

        async def take(page: list[Object]) -> None:
            reduced = [found for item in page if (found := reduce(item)) is not None]
            if resource.other_versions and page:
                # Not the preferred version, which trimmed objects have.
                reduced = [{**each, "apiVersion": page[0]["apiVersion"]} for each in reduced]
            self._add(file, reduced)
            kept.extend(reduced if resource.kind in _FIRST else ())

        with self._file(resource, only) as file:
            unreadable = await self._read(wanted.within(only), take)
            # Pods name PodGroups only where there are some, so these are unknown if no version that is read is served.
            is_unknown = resource.kind == POD_GROUP and not self.client.served_versions.has(resource)
            if unreadable is not None or is_unknown:
                file.discard()
        if unreadable is not None:
            if resource.kind == _NAMESPACE and self.namespace:
                # Users who may not list namespaces can often read their own.
                await self._write_object(resource, self.namespace, unreadable)
            else:
                self.snapshot.unknown.append(unreadable)
            return
        if is_unknown:
            return
        self.snapshot.files[file.name] = file.count
        if resource.kind in _FIRST:
            self.facts.append(typed_list(resource, kept))
        if resource.kind == _NAMESPACE and self.namespace not in ("", *map(name_of, kept)):
            raise click.UsageError(f"namespace {self.namespace} does not exist")

    async def _read(self, wanted: Watched, take: Callable[[list[Object]], Awaitable[None]]) -> Unreadable | None:
        return await read_pages(self.client, wanted, take, limit=LARGE_PAGE, expected=ABOUT_THE_KIND)

    async def _write_object(self, resource: Resource, name: str, unlisted: Unreadable | None = None) -> None:
        """One cluster-scoped object; `unlisted` says why its kind cannot be listed."""
        found = await read_object(self.client, resource, name)
        if isinstance(found, Unreadable):
            self.snapshot.unknown.append(unlisted or found)
            return
        if found is None and unlisted:
            raise click.UsageError(f"namespace {name} does not exist")
        reduced = None if found is None else reduction_of(resource)(found)
        with self._file(resource, name if unlisted else "") as file:
            self._add(file, [] if reduced is None else [reduced])
        self.snapshot.files[file.name] = file.count

    async def _write_config_maps(self, wanted: list[Watched]) -> None:
        """The ConfigMaps of the operator's namespaces.

        Those that configure GPUs are whole; of the others, which a ClusterPolicy may name, the keys are kept. The namespace
        in the status of the ClusterPolicy counts too: a snapshot says that it has all ConfigMaps of the operator.
        """
        view, resource = ManifestsView(self.facts), RESOURCES[_CONFIG_MAP]
        places = (Watched(resource, each) for each in operator_place(view, self.settings).namespaces)
        namespaces = [each for each in dict.fromkeys((*wanted, *places)) if self.namespace in ("", each.namespace)]
        if not namespaces:
            return
        reduce = reduction_of(resource)

        async def take(page: list[Object]) -> None:
            reduced = (found for item in page if (found := reduce(item)) is not None)
            self._add(file, [self._reduced_config_map(each, view) for each in reduced])

        with self._file(resource, self.namespace) as file:
            for each in namespaces:
                if view.get(_NAMESPACE, each.namespace) is None:
                    continue
                unreadable = await self._read(each, take)
                if unreadable is not None:
                    file.discard()
                    self.snapshot.unknown.append(unreadable)
                    return
        self.snapshot.files[file.name] = file.count

    def _reduced_config_map(self, config_map: Object, view: ManifestsView) -> Object:
        name, namespace = name_of(config_map), namespace_of(config_map)
        request = Request(config_map, kind=_CONFIG_MAP, name=name, namespace=namespace)
        is_read = is_configuration(request, view, self.settings)
        return config_map if is_read else without_values(config_map)

    def _file(self, resource: Resource, namespace: str) -> ListFile:
        """The file of a resource; `namespace` is the only one whose objects are in it."""
        if self.names is None:
            return ListFile(self.folder, resource, namespace)
        return ListFile(self.folder, self.names.resource(resource), self.names.namespace(namespace))

    def _add(self, file: ListFile, page: list[Object]) -> None:
        file.add(page if self.names is None else [self.names.rename(each) for each in page])
        current_progress().show_count(f"reading {file.name.removesuffix('.json')}", file.count)


class ListFile:
    """The file with all objects of a resource; removed again if it is not finished."""

    def __init__(self, folder: Path, resource: Resource, namespace: str = "") -> None:
        """`namespace` is the only one whose objects are in the file; empty for all."""
        self.name = f"{resource.name}.json"
        self.count = 0
        self._is_discarded = False
        self._path = folder / self.name
        self._file = self._path.open("wb")
        head: Object = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
        if namespace:
            head["metadata"] = {"namespace": namespace}
        self._file.write(orjson.dumps(head).removesuffix(b"}") + b',"items":[')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_kept = kind is None and not self._is_discarded
        if is_kept:
            self._file.write(b"\n]}\n")
        self._file.close()
        if not is_kept:
            self._path.unlink()

    def discard(self) -> None:
        """Remove the file at the end, because not all objects can be read."""
        self._is_discarded = True

    def add(self, objects: list[Object]) -> None:
        """Add objects."""
        for each in objects:
            self._file.write((b",\n" if self.count else b"\n") + orjson.dumps(each))
            self.count += 1


HEAD = "snapshot.yaml"
"""The file that says what the others are."""
_HINTS = {
    errno.EBUSY: "; if it is a mount point, name a folder in it",
    errno.ENOTEMPTY: "; another command wrote into it at the same moment",
}


class UnwritableFolderError(click.ClickException):
    """A snapshot cannot be written."""

    exit_code = 2


@contextmanager
def _file_errors(folder: Path) -> Iterator[None]:
    """Turn errors of files into one sentence about the folder of the snapshot.

    Raises:
        UnwritableFolderError: The snapshot cannot be written.
    """
    try:
        yield
    except OSError as error:
        reason = reason_of(error) + _HINTS.get(error.errno or 0, "")
        raise UnwritableFolderError(f"the snapshot cannot be written to {folder}: {reason}") from error


def check_target(folder: Path) -> None:
    """Refuse to replace a folder that has other files than those of a snapshot.

    Raises:
        click.UsageError: The folder cannot be replaced.
        UnwritableFolderError: The folder cannot be read.
    """
    with _file_errors(folder):
        _check_target(folder)


def _check_target(folder: Path) -> None:
    if not folder.exists():
        if not folder.parent.is_dir():
            raise click.UsageError(f"the folder {folder.parent} does not exist")
        return
    if not folder.is_dir():
        raise click.UsageError(f"{folder} is a file, and a snapshot is a folder")
    if folder.resolve() == Path.cwd():
        raise click.UsageError("name a folder below the current one, because the whole folder is replaced")
    _check_files(folder, folder)


def _check_files(folder: Path, name: Path) -> None:
    """Refuse other files in a folder than those of a snapshot; messages call it `name`."""
    if others := _others_in(folder):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise click.UsageError(
            f"{name} has files that are not of a snapshot ({others[0]}{more}), and would be replaced; name another folder"
        )


def _others_in(folder: Path) -> list[str]:
    return sorted({each.name for each in folder.iterdir()} - _files_of(folder))


def _files_of(folder: Path) -> set[str]:
    """The files that a snapshot wrote into a folder; empty if it is not that of a snapshot."""
    try:
        head = yaml.safe_load((folder / HEAD).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return set()
    files = lookup(head, ("snapshot", "files"))
    return {HEAD, *files} if isinstance(files, dict) else set()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to write into, which replaces `folder` at the end.

    Nothing is left of it after an error or a signal, except SIGKILL. Only the user may read it: it says what runs in the cluster.

    Raises:
        click.UsageError: Other files have come into the folder.
        UnwritableFolderError: Nothing can be written, such as on a full disk.
    """
    target = Path(os.path.realpath(folder))
    with _signals_that_exit(), _file_errors(folder):
        written = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            yield written
            _move(written, target, folder)
        except BaseException:
            shutil.rmtree(written, ignore_errors=True)
            raise


@contextmanager
def _signals_that_exit() -> Iterator[None]:
    """Let the end of a job or of a terminal raise SystemExit, so that what was written is removed."""
    # nohup lets SIGHUP be ignored, and it stays so.
    ending = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for each in ending:
        signal.signal(each, _exit)
    try:
        yield
    finally:
        for each in ending:
            signal.signal(each, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _move(written: Path, target: Path, folder: Path) -> None:
    if not target.exists():
        written.rename(target)
        return
    before = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        # An empty folder is replaced in one step.
        target.rename(before)
        # Reading the cluster takes minutes, in which files of others may have come.
        _check_files(before, folder)
        written.rename(target)
    except BaseException:
        try:
            before.rename(target)
        except OSError:
            if not _others_in(before):
                shutil.rmtree(before)
        raise
    shutil.rmtree(before)
