"""Findings on a device-plugin ConfigMap in its cluster."""

import pytest

from tests.configuration.device_plugin.config_maps import text


@pytest.fixture
def findings_of(examined):
    def tell(*documents, before=None):
        return [(found.rule.id, found.severity, found.text) for found in examined(text(*documents, before=before))]

    return tell
