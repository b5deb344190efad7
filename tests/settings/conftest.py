"""GPUAdmissionPolicy documents, and their findings."""

from __future__ import annotations

import pytest

from policies.rules.settings import SettingsError, parse_settings
from tests.findings import unplaced_text


@pytest.fixture
def problems_of():
    """The problems of a spec, as pairs of the path, and message and remedy; none where it can be read."""

    def problems_of(spec):
        metadata = {"name": "default"}
        document = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": metadata}
        try:
            parse_settings({**document, "spec": spec})
        except SettingsError as error:
            return [(str(each.path), unplaced_text(each)) for each in error.problems]
        return []

    return problems_of
