"""Device plugin: `spec.devicePlugin` and the ConfigMap that it names."""

from __future__ import annotations
