"""What `kubectl apply` does with one object, and what it prints.

kubectl reads the object first. Where there is none it creates it, otherwise it sends a strategic merge patch with what
differs; here the patch says everything that the manifest says, which comes to the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of
from policies.kubernetes.printable import printable
from webhook.cli import kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

    import aiohttp

    from policies.kubernetes.objects import Object
    from policies.request import Operation
    from webhook.cluster.resources import Resource

__all__ = ["Applied", "apply"]

_STRATEGIC = "application/strategic-merge-patch+json"
_QUOTED = re.compile(r'^\d{3} \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Applied:
    """What the API server answered."""

    resource: Resource
    operation: Operation
    warnings: tuple[str, ...]
    refused: bool
    answer: Object
    """The object as it is stored, or the Status that says why it is not."""

    def lines(self, file: str, name: str) -> Iterator[str]:
        """What kubectl prints, of an object of this name and file."""
        yield from map(kubectl.warning, self.warnings)
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
            return kubectl.invalid(self.resource.kind, printable(name), causes)
        message = "\n".join(printable(line) for line in status["message"].splitlines())
        return kubectl.refused(status.get("reason") or "InternalError", file, self.operation, message)


async def apply(session: aiohttp.ClientSession, resource: Resource, namespace: str, document: Object) -> Applied:
    """Apply an object in a namespace.

    Args:
        session: To the API server.
        resource: Of the object.
        namespace: Where it comes to be; empty for what is in none.
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
        return Applied(resource, "UPDATE" if exists else "CREATE", _texts(headers), refused, await answer.json())


def _texts(headers: list[str]) -> tuple[str, ...]:
    """The texts of `Warning` headers, `299 - "text"`."""
    found = [match[1] for header in headers if (match := _QUOTED.match(header))]
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in found)
