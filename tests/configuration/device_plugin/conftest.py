"""Findings on a device-plugin ConfigMap in its cluster."""

import pytest

from tests.configuration.device_plugin.config_maps import text
from tests.findings import plain_text


@pytest.fixture
def findings_of(examined):
    def tell(*documents, before=None):
        return [
            (found.rule.id, found.severity, plain_text(found)) for found in examined(text(*documents, before=before))
        ]

    return tell
