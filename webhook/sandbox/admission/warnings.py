"""Warnings of the API server and of webhooks about a request, as headers of its answer."""

from __future__ import annotations

import unicodedata

__all__ = ["Warnings"]

_MOST_IN_TOTAL = 4096
_MOST_WHEN_CUT = 256
"""Code points. Source: k8s.io/apiserver pkg/endpoints/filters/warning.go."""


class Warnings:
    """Collects warnings: each text once, and each shortened if they are too long in total.

    A text with a newline or another control character does not fit into a header, and is dropped silently, as in the API
    server.
    """

    def __init__(self) -> None:
        self._recorded: list[str] = []
        self._shown: list[str] = []
        self._length = 0
        self._cuts = False

    def add(self, text: str) -> None:
        """Add a warning."""
        if not text or text in self._recorded or (self._cuts and self._length >= _MOST_IN_TOTAL):
            return
        self._recorded.append(text)
        if self._cuts or self._length + len(text) <= _MOST_IN_TOTAL:
            self._show(text)
            return
        self._cuts, self._shown, self._length = True, [], 0
        for recorded in self._recorded:
            self._show(recorded)

    def _show(self, text: str) -> None:
        shown = text[:_MOST_WHEN_CUT] if self._cuts else text
        if _fits_a_header(shown):
            self._shown.append(shown)
            self._length += len(shown)

    @property
    def texts(self) -> list[str]:
        """The warnings that a client gets, in order."""
        return list(self._shown)

    def headers(self) -> list[str]:
        """The values of the `Warning` headers of the answer, whether it is a success or a refusal."""
        return [f'299 - "{_escape(text)}"' for text in self._shown]


def _fits_a_header(text: str) -> bool:
    return all(unicodedata.category(character) not in ("Cc", "Cs") for character in text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
