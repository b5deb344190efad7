"""What kubectl prints: warnings and refusals, in its words.

Source: k8s.io/kubectl pkg/cmd/util/helpers.go; seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.request import Operation

__all__ = ["denied", "failed_create", "invalid", "refused", "warning"]

_DOING: dict[Operation, str] = {
    "CREATE": "creating",
    "UPDATE": "replacing",
    "DELETE": "deleting",
    "CONNECT": "connecting to",
}


def warning(text: str) -> str:
    """A warning, with the colour of its first word on terminals."""
    return f"{click.style('Warning:', fg='yellow', bold=True)} {printable(text)}"


def denied(webhook: str, message: str) -> str:
    """A refusal by a webhook, as the API server words it."""
    return f'admission webhook "{webhook}" denied the request: {message}'


def refused(reason: str, file: str, operation: Operation, message: str) -> str:
    """A refusal of a file's object, for the reason of a Status."""
    return f'Error from server ({reason}): error when {_DOING[operation]} "{file}": {message}'


def failed_create(message: str) -> str:
    """A refusal of a workload's pods: kubectl prints nothing, but the controller writes this event."""
    return f"FailedCreate  Error creating: {message}"


def invalid(kind: str, name: str, causes: Sequence[str]) -> str:
    """A refusal of an object that breaks the API server's own rules."""
    heading = f'The {kind} "{name}" is invalid: '
    return heading + causes[0] if len(causes) == 1 else "\n".join([heading, *(f"* {cause}" for cause in causes)])
