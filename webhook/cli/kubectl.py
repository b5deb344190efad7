"""The warnings and refusals that kubectl prints.

Source: k8s.io/kubectl pkg/cmd/util/helpers.go; seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.request import Operation

__all__ = ["denial", "failed_create_event", "invalid_object", "refusal", "warning"]

_DOING: dict[Operation, str] = {
    "CREATE": "creating",
    "UPDATE": "replacing",
    "DELETE": "deleting",
    "CONNECT": "connecting to",
}


def warning(text: str) -> str:
    """A warning, with a coloured first word on terminals."""
    return f"{click.style('Warning:', fg='yellow', bold=True)} {printable(text)}"


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
