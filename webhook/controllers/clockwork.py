"""Clockwork, where controllers look for it."""

from __future__ import annotations

from webhook.cluster.clockwork import Clockwork

__all__ = ["Clockwork"]
