"""Redaction: objects as they may be shown in a log."""

from __future__ import annotations

from typing import Any

__all__ = ["REDACTED", "redacted"]

REDACTED = "[redacted]"

_WHOLE_OBJECT = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation in which kubectl keeps the manifest, environment and all, as one text."""


def redacted(document: Any) -> Any:
    """A copy of an object without the values of environment variables, which are often passwords and tokens.

    Environments are found wherever they are, in pods, in pod templates of every kind, in NVIDIA's configurations: any
    list called `env` whose items have a `value`. Names stay, and so do references to Secrets, which tell none.
    """
    if isinstance(document, dict):
        return {key: _member(key, value) for key, value in document.items()}
    if isinstance(document, list):
        return [redacted(item) for item in document]
    return document


def _member(key: Any, value: Any) -> Any:
    if key == _WHOLE_OBJECT:
        return REDACTED
    if key == "env" and isinstance(value, list):
        return [_variable(item) for item in value]
    return redacted(value)


def _variable(item: Any) -> Any:
    shown = redacted(item)
    if isinstance(shown, dict) and "value" in shown:
        shown["value"] = REDACTED
    return shown
