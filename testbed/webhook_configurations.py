"""Replacing the installed webhook configurations by those of another version, as docs/upgrade.md does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed import deploy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.api import API

__all__ = ["current_configurations", "replace_webhooks"]


def current_configurations() -> list[dict[str, Any]]:
    """The webhook configurations of deploy/install.yaml."""
    return [document for document in deploy.all_objects() if "webhooks" in document]


def replace_webhooks(api: API, configurations: Iterable[dict[str, Any]]) -> None:
    """Replace all webhooks of installed configurations; the new ones are called at the same address.

    They get the installed caBundle: without it, calls would fail until a replica looks and writes it.
    """
    for configuration in configurations:
        stored = api.get(configuration["kind"], configuration["metadata"]["name"]).object
        installed = stored["webhooks"][0]["clientConfig"]
        base = installed["url"].rpartition("/")[0]
        called = [
            {
                **webhook,
                "clientConfig": {**installed, "url": f"{base}{webhook['clientConfig']['service']['path']}"},
            }
            for webhook in configuration["webhooks"]
        ]
        answer = api.replace({**stored, "webhooks": called})
        assert answer.accepted, answer.message
