"""The start of the sandbox: loads manifests into it, and serves it."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from policies.kubernetes.names import format_count, printable
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, name_of, namespace_of
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.sandbox.server import Sandbox
from webhook.sandbox.statuses import Refused
from webhook.sandbox.users import is_of_a_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webhook.cli.manifest_reader import Manifest


_DEFINITION = "CustomResourceDefinition"
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")
_SERVED = "it serves what gpu-admission reads, and custom resources whose CustomResourceDefinition is loaded too"
_HOST = "127.0.0.1"
_WITH_KUBECONFIG = """\
  export KUBECONFIG={file}
  kubectl get nodes
  gpu-admission serve --url https://localhost:8443"""
_WITHOUT_KUBECONFIG = """\
  curl {url}/api/v1/nodes

With --kubeconfig-out FILE, it writes what kubectl and gpu-admission serve need."""


def run_sandbox(manifests: Sequence[str], port: int, kubeconfig_out: Path | None) -> None:
    """Serve a sandbox with the objects of files and folders, until SIGTERM or Ctrl-C.

    Raises:
        UnreadableInputError: Files have problems.
        click.ClickException: The port is in use, or the kubeconfig cannot be written.
    """
    if kubeconfig_out is not None:
        if kubeconfig_out == Path():
            raise click.UsageError("--kubeconfig-out is empty; name a file")
        if kubeconfig_out.exists() and not (kubeconfig_out.is_file() and _is_ours(kubeconfig_out)):
            raise click.UsageError(f"{kubeconfig_out} exists and is not the kubeconfig of a sandbox; name another file")
    reader = ManifestReader()
    sandbox, count = loaded_sandbox(manifests, reader)
    reader.check()
    asyncio.run(_serve(sandbox, format_count(count, "object"), port, kubeconfig_out))


def loaded_sandbox(paths: Iterable[str], reader: ManifestReader) -> tuple[Sandbox, int]:
    """A sandbox with the objects of files and folders, not yet started, and the number of objects.

    The output of `kubectl version -o yaml` among the files sets its version. Problems go to the reader.
    """
    manifests, versions = reader.contents(paths)
    texts = (str(lookup(version, ("serverVersion", "gitVersion"))) for version in versions)
    numbers = [match[1] for text in texts if (match := _VERSION.match(text))]
    sandbox = Sandbox(version=numbers[-1]) if numbers else Sandbox()
    reader.problems += load(sandbox, manifests)
    return sandbox, len(manifests)


def load(sandbox: Sandbox, manifests: Sequence[Manifest]) -> list[Problem]:
    """Store objects in a sandbox without admission, and return the problems of those that it refuses.

    CustomResourceDefinitions come first, then cluster-scoped objects, whatever their order in the files.
    """
    definitions = [manifest for manifest in manifests if manifest.object["kind"] == _DEFINITION]
    others = [manifest for manifest in manifests if manifest.object["kind"] != _DEFINITION]
    own = {name_of(namespace) for namespace in sandbox.objects("Namespace")}
    problems = [problem for manifest in definitions if (problem := _put(sandbox, manifest, own))]
    known = []
    for manifest in others:
        try:
            known.append((sandbox.resource(manifest.object).namespaced, manifest))
        except LookupError as error:
            problems.append(_problem(manifest, f"{error}; {_SERVED}", "kind"))
    known.sort(key=lambda item: item[0])
    return problems + [problem for _, manifest in known if (problem := _put(sandbox, manifest, own))]


def _put(sandbox: Sandbox, manifest: Manifest, own: set[str]) -> Problem | None:
    """Store one object, and return its problem. Namespaces of files replace those that every cluster has."""
    document = manifest.object
    try:
        if document["kind"] == "Namespace" and name_of(document) in own:
            own.remove(name_of(document))
            sandbox.remove("Namespace", name_of(document))
        elif sandbox.resource(document).namespaced:
            namespace = namespace_of(document) or DEFAULT_NAMESPACE
            if sandbox.get("Namespace", namespace) is None:
                return _problem(manifest, f"namespace {namespace} does not exist; load it too", "metadata", "namespace")
        sandbox.create(document)
    except (Refused, LookupError) as error:
        return _problem(manifest, str(error))
    return None


def _problem(manifest: Manifest, message: str, *path: str) -> Problem:
    return Problem(manifest.file, printable(message), manifest.position(path))


def _is_ours(file: Path) -> bool:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return not text or is_of_a_sandbox(text)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise click.ClickException(f"The kubeconfig cannot be written to {file}: {error.strerror}.") from error


async def _serve(sandbox: Sandbox, objects: str, port: int, kubeconfig_out: Path | None) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        try:
            await sandbox.start(_HOST, port)
        except OSError as error:
            # The message of asyncio differs between versions.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            sentence = f"The sandbox cannot listen on port {port} of {_HOST}: {reason}; choose another one with --port."
            raise click.ClickException(sentence) from error
        if kubeconfig_out is not None:
            _write(kubeconfig_out, sandbox.kubeconfig())
        usage = _usage(sandbox.url, kubeconfig_out)
        click.echo(f"The sandbox serves {objects} at {sandbox.url}, until Ctrl-C.\n\n{usage}")
        await stop.wait()
    finally:
        await sandbox.stop()


def _usage(url: str, kubeconfig: Path | None) -> str:
    if kubeconfig is None:
        return _WITHOUT_KUBECONFIG.format(url=url)
    return _WITH_KUBECONFIG.format(file=shlex.quote(str(kubeconfig.absolute())))
