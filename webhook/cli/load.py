"""Loads manifests into a sandbox, and says what cannot be there and where it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.printable import printable
from webhook.cli.problems import Problem
from webhook.sandbox.attempt import Refused
from webhook.sandbox.server import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cli.documents import Manifest, Reader

__all__ = ["load", "sandbox_of"]

_DEFINITION = "CustomResourceDefinition"
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")
_SERVED = "it serves what gpu-admission reads, and custom resources whose CustomResourceDefinition is loaded too"


def sandbox_of(paths: Iterable[str], reader: Reader) -> tuple[Sandbox, int]:
    """A sandbox with the objects of files and folders, which is not started, and how many they are.

    It has the version that the output of `kubectl version -o yaml` among them tells. What is wrong goes to the reader.
    """
    manifests, versions = reader.contents(paths)
    told = [match[1] for version in versions if (match := _VERSION.match(_git_version(version)))]
    sandbox = Sandbox(version=told[-1]) if told else Sandbox()
    reader.problems += load(sandbox, manifests)
    return sandbox, len(manifests)


def load(sandbox: Sandbox, manifests: Sequence[Manifest]) -> list[Problem]:
    """Put objects into a sandbox, past admission; what is wrong with those that it does not take.

    Definitions of custom resources come first, then what is in no namespace, whatever their order in the files.
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
    """Put one object in; what is wrong with it. The namespaces that every cluster has give way to those of files."""
    document = manifest.object
    try:
        if document["kind"] == "Namespace" and name_of(document) in own:
            own.remove(name_of(document))
            sandbox.remove("Namespace", name_of(document))
        elif sandbox.resource(document).namespaced:
            namespace = namespace_of(document) or "default"
            if sandbox.get("Namespace", namespace) is None:
                return _problem(manifest, f"namespace {namespace} does not exist; load it too", "metadata", "namespace")
        sandbox.create(document)
    except (Refused, LookupError) as error:
        return _problem(manifest, str(error))
    return None


def _problem(manifest: Manifest, message: str, *path: str) -> Problem:
    return Problem(manifest.file, printable(message), manifest.position(path))


def _git_version(version: Object) -> str:
    told = version["serverVersion"]
    return str(told.get("gitVersion")) if isinstance(told, dict) else ""
