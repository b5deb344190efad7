"""Upgrades: `spec.driver.upgradePolicy`."""

from __future__ import annotations
