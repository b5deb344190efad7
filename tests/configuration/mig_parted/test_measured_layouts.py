"""Layouts that mig-parted was measured with, applied to a cluster with such a node: what fails there is reported."""

import json

import pytest

from tests.configuration.mig_parted.config_maps import config_map, policy
from tests.findings import labelled_text
from tests.mig_parted_runs import measured_runs

HEAD = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
NO_MANAGER = "no MIG manager runs here"


def config_file(run):
    return json.dumps({"version": "v1", "mig-configs": {**HEAD, "mine": run.document}})


def node(run):
    labels = {**run.hardware.labels, "nvidia.com/mig.config": "mine"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": labels}}


def lacks_devices(run):
    """True if some GPU does not have what the last entry for it says, though nothing failed."""
    for number, devices in enumerate(run.devices):
        said = [
            entry.get("mig-devices") or {}
            for entry in run.document
            if "device-filter" not in entry and (entry["devices"] == "all" or number in entry["devices"])
        ]
        if run.modes[number] and said and sum(devices.values()) != sum(said[-1].values()):
            return True
    return False


def is_for_no_gpu(run):
    """True if an entry is for no GPU of any node."""
    return any(entry.get("devices") in ([], [-1]) for entry in run.document)


def is_read(run):
    return not run.parse


def config_map_findings(examined, run):
    text = config_map(config_file(run))
    return examined("\n---\n".join([text, json.dumps(policy(name="mig-config")), json.dumps(node(run))]))


@pytest.mark.parametrize("run", measured_runs(lambda run: run.parse))
def test_config_map_is_refused_if_mig_parted_cannot_read_it(examined, run):
    found = config_map_findings(examined, run)
    assert [one.severity for one in found if one.rule.id == "GA150"] == ["deny"]


@pytest.mark.parametrize("run", measured_runs(is_read))
def test_config_map_is_reported_if_mig_parted_fails_or_makes_no_devices(examined, run):
    found = config_map_findings(examined, run)
    reported = [labelled_text(one) for one in found if one.rule.id in ("GA149", "GA150", "GA151", "GA152", "GA153")]
    assert bool(reported) == (bool(run.apply) or lacks_devices(run) or is_for_no_gpu(run)), reported


@pytest.mark.parametrize("run", measured_runs(is_read))
def test_node_label_is_refused_if_mig_parted_fails_or_makes_no_devices(examined, run):
    stored = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mig-config", "namespace": "gpu-operator"},
        "data": {"config.yaml": config_file(run)},
    }
    spec = {"devicePlugin": {"enabled": False}, "migManager": {"config": {"name": "mig-config"}}}
    found = examined("\n---\n".join(json.dumps(each) for each in (node(run), {**policy(), "spec": spec}, stored)))
    reported = [one for one in found if one.rule.id == "GA155"]
    if run.hardware.model.geometry is None:
        assert [NO_MANAGER in one.message for one in reported] == [True]
        return
    is_wrong = bool(run.apply) or lacks_devices(run)
    assert any(one.severity == "deny" for one in reported) <= is_wrong
    assert bool(reported) == is_wrong, [labelled_text(one) for one in reported]
