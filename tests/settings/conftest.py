"""GPUAdmissionPolicy documents, and their findings."""

from __future__ import annotations

import pytest

from policies.rules.settings import SettingsError, parse_settings


@pytest.fixture
def problems_of():
    """The problems of a spec, as (path, sentence) pairs; none where it can be read."""

    def problems_of(spec):
        metadata = {"name": "default"}
        document = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": metadata}
        try:
            parse_settings({**document, "spec": spec})
        except SettingsError as error:
            return [(str(path), said) for path, said in error.problems]
        return []

    return problems_of
