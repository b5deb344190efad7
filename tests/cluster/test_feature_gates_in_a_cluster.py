"""The table of versions has the defaults of a real API server."""

import os

import pytest

from policies.analyses.installation.component_versions import features_in
from policies.kubernetes.versions import Feature


@pytest.mark.skipif("KUBECONFIG" in os.environ, reason="the gates of somebody's cluster may not be the defaults")
def test_gates_of_a_real_api_server_are_those_of_the_table(real):
    text = real.api.request("GET", "/metrics").object
    shown = features_in(text.splitlines()).gates
    version = 1, real.minor
    expected = {each.name: each.default_in(version) for each in Feature if each.is_gate and each.stage_in(version)}
    assert {name: on for name, on in shown.items() if name in Feature.__members__} == expected
