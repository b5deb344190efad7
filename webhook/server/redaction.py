"""Redaction: removes secrets from objects before they are logged."""

from __future__ import annotations

from typing import Any

__all__ = ["REDACTED", "redact"]

REDACTED = "[redacted]"

_WHOLE_OBJECT = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation in which kubectl keeps the whole manifest, including its environment, as one string."""


def redact(document: Any) -> Any:
    """A copy of an object without the values of environment variables.

    The values are often passwords and tokens. Redacts every list with the key `env` whose items have a `value`: in pods,
    in pod templates of every kind, in NVIDIA's configurations. Names and references to Secrets stay.
    """
    if isinstance(document, dict):
        return {key: _member(key, value) for key, value in document.items()}
    if isinstance(document, list):
        return [redact(item) for item in document]
    return document


def _member(key: Any, value: Any) -> Any:
    if key == _WHOLE_OBJECT:
        return REDACTED
    if key == "env" and isinstance(value, list):
        return [_variable(item) for item in value]
    return redact(value)


def _variable(item: Any) -> Any:
    copy = redact(item)
    if isinstance(copy, dict) and "value" in copy:
        copy["value"] = REDACTED
    return copy
