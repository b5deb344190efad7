"""A document that the device plugin cannot read is refused by a rule, and no other is."""

import pytest

from policies.nvidia.plugin_configs import PluginConfig
from policies.rules.decision import Severity
from tests.configuration.device_plugin.config_maps import FOR_ITSELF, config_map
from tests.configuration.device_plugin.documents import found_in

GPU = {"name": "nvidia.com/gpu", "replicas": 4}


def shared(*resources, kind="timeSlicing", **fields):
    return {"version": "v1", "sharing": {kind: {"resources": list(resources), **fields}}}


@pytest.mark.parametrize(
    "document",
    [
        *(shared({**GPU, "replicas": replicas}) for replicas in (1, 0, -2, "4", 2.5, True, None, [])),
        *(shared({**GPU, "name": name}) for name in ("example.com/gpu", "", None, 4, "GPU", "x" * 64)),
        *(shared({**GPU, "devices": devices}) for devices in ("some", None, 0, -1, {}, True, [{}], ["x"], 1.5)),
        *(shared({**GPU, "rename": rename}) for rename in ("A_B", 4)),
        *(shared(GPU, **{field: "true"}) for field in ("renameByDefault", "failRequestsGreaterThanOne")),
        *(shared(GPU, GPU, kind=kind) for kind in ("timeSlicing", "mps")),
        *(shared(*items) for items in ([], [4], [{"name": "gpu"}], [{"replicas": 2}])),
        *(
            {"sharing": {kind: value}}
            for kind in ("timeSlicing", "mps")
            for value in (None, {}, [], "x", {"resources": None})
        ),
        *({"version": version} for version in ("v1", "", "v2", 1, None)),
        *({"flags": {"migStrategy": strategy}} for strategy in ("none", "single", "mixed", "Mixed", 1, None)),
        *({"flags": {"plugin": {"deviceListStrategy": each}}} for each in ("envvar", ["cdi-cri"], "none", ["x"], 4)),
        *({"flags": {"plugin": {"deviceIDStrategy": each}}} for each in ("index", "uuid", "name")),
        *({"flags": {"gfd": {"sleepInterval": each}}} for each in ("60s", "infinite", "60", "x", True)),
        *({"flags": {"failOnInitError": each}} for each in (True, "true")),
        *({"imex": {"channelIDs": each}} for each in ([], [0], [1], "0")),
        *({"resources": {"gpus": each}} for each in ([], [{"pattern": "*", "name": "gpu"}], [{"pattern": "*"}], "x")),
        shared({**GPU, "devices": "all"}),
        shared({**GPU, "devices": 2}),
        shared({**GPU, "devices": [0, "0:1"]}),
        shared(GPU, renameByDefault=True),
    ],
    ids=repr,
)
def test_document_is_refused_if_the_plugin_exits(findings_of, document):
    found = findings_of(config_map(labels=FOR_ITSELF, any=document))
    assert any(severity is Severity.DENY for _, severity, _ in found) == bool(PluginConfig(document).error), found


def test_document_beyond_our_own_limit_is_warned_about():
    (found,) = found_in(f"version: v1\nflags: {{x: [{', '.join(['1'] * 10_001)}]}}")
    assert (found.rule.id, str(found.severity)) == ("GA133", "warn")
    assert found.message.startswith("is too large to be read here, and was not reviewed: more than 10000 documents")
