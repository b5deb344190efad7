"""DaemonSets: `spec.daemonsets`, which applies to every operand."""

from __future__ import annotations
