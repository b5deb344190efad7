"""The warnings and refusals that kubectl prints.

Source: k8s.io/kubectl pkg/cmd/util/helpers.go; seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import printable
from policies.kubernetes.objects import name_of
from webhook.pages.report_model import Tone
from webhook.pages.text_report import colour_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import aiohttp

    from policies.kubernetes.objects import Object
    from policies.rules.request import Operation
    from webhook.cluster.resources import Resource


_DOING: dict[Operation, str] = {
    "CREATE": "creating",
    "UPDATE": "replacing",
    "DELETE": "deleting",
    "CONNECT": "connecting to",
}


def warning(text: str) -> str:
    """A warning, with a coloured first word on terminals."""
    return f"{colour_text('Warning:', Tone.WARN, bold=True)} {printable(text)}"


def denial(webhook: str, message: str) -> str:
    """The message of the API server for a refusal by a webhook."""
    return f'admission webhook "{webhook}" denied the request: {message}'


def refusal(reason: str, file: str, operation: Operation, message: str) -> str:
    """The error of kubectl for an object of a file, with the reason of a Status."""
    return f'Error from server ({reason}): error when {_DOING[operation]} "{file}": {message}'


def failed_create_event(message: str) -> str:
    """The event that a controller writes for refused pods, of which kubectl prints nothing."""
    return f"FailedCreate  Error creating: {message}"


def invalid_object(kind: str, name: str, causes: Sequence[str]) -> str:
    """The error of kubectl for an object that is invalid."""
    heading = f'The {kind} "{name}" is invalid: '
    return heading + causes[0] if len(causes) == 1 else "\n".join([heading, *(f"* {cause}" for cause in causes)])


_STRATEGIC = "application/strategic-merge-patch+json"
_QUOTED = re.compile(r'^\d{3} \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Applied:
    """The answer of the API server."""

    resource: Resource
    operation: Operation
    warnings: tuple[str, ...]
    refused: bool
    answer: Object
    """The stored object, or a Status with the reason for a refusal."""

    def lines(self, file: str, name: str) -> Iterator[str]:
        """The lines that kubectl prints for an object with this name and file."""
        yield from map(warning, self.warnings)
        if self.refused:
            yield self._refusal(file, name)
        else:
            did = "created" if self.operation == "CREATE" else "configured"
            yield f"{self.resource.kind.lower()}/{printable(name)} {did}"

    def _refusal(self, file: str, name: str) -> str:
        status = self.answer
        if status.get("reason") == "Invalid":
            causes = [
                printable(f"{cause.get('field', '')}: {cause['message']}") for cause in status["details"]["causes"]
            ]
            return invalid_object(self.resource.kind, printable(name), causes)
        message = "\n".join(printable(line) for line in status["message"].splitlines())
        return refusal(status.get("reason") or "InternalError", file, self.operation, message)


async def apply(session: aiohttp.ClientSession, resource: Resource, namespace: str, document: Object) -> Applied:
    """Apply an object in a namespace.

    Args:
        session: The connection to the API server.
        resource: The resource of the object.
        namespace: The namespace of the object; empty for cluster-scoped ones.
        document: The object with a name.
    """
    path = resource.path(namespace, name_of(document))
    async with session.get(path) as found:
        exists = found.status != HTTPStatus.NOT_FOUND
    sent = (
        session.patch(path, data=json.dumps(document), headers={"Content-Type": _STRATEGIC})
        if exists
        else session.post(resource.path(namespace), json=document)
    )
    async with sent as answer:
        headers = answer.headers.getall("Warning", [])
        refused = answer.status >= HTTPStatus.BAD_REQUEST
        return Applied(resource, "UPDATE" if exists else "CREATE", warning_texts(headers), refused, await answer.json())


def warning_texts(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of `Warning` headers, `299 - "text"`."""
    found = [match[1] for header in headers if (match := _QUOTED.match(header))]
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in found)


_OWN_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp")
"""Fields that the API server sets, with another value each time."""


def as_written(stored: Object, written: Object, plain: Object) -> Object:
    """A stored object in the shape of its manifest, without the defaults of the API server.

    Args:
        stored: The stored object.
        written: Its manifest.
        plain: The object as it would be stored without webhooks.
    """
    metadata = {key: value for key, value in stored["metadata"].items() if key not in _OWN_METADATA}
    document = {key: value for key, value in stored.items() if key != "status"}
    shown: Object = _as_in_manifest({**document, "metadata": metadata}, written, plain)
    return shown


def _as_in_manifest(stored: Any, written: Any, plain: Any) -> Any:
    """The written value if webhooks did not change it; else the stored one, in the order of the manifest."""
    if stored == plain and written is not None:
        return written
    if isinstance(stored, dict):
        written, plain = (value if isinstance(value, dict) else {} for value in (written, plain))
        return {
            key: _as_in_manifest(stored[key], written.get(key), plain.get(key))
            for key in dict.fromkeys([*written, *stored])
            if key in stored and (key in written or key not in plain or stored[key] != plain[key])
        }
    if isinstance(stored, list):
        written, plain = (value if isinstance(value, list) else [] for value in (written, plain))
        filled_in = plain[len(written) :]
        pairs = {_place(pair[0], index): pair for index, pair in enumerate(zip(written, plain, strict=False))}
        return [
            _as_in_manifest(item, *pairs.get(_place(item, index), (None, None)))
            for index, item in enumerate(stored)
            if item not in filled_in
        ]
    return stored


def _place(item: Any, index: int) -> str | int:
    """The key of a list item: its name, or its index if it has none."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else index
