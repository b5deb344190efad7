"""Documents that NVIDIA's device plugin was started with: those at which it exits are refused, and no others."""

import json

from tests.configuration.device_plugin.config_maps import config_map, policy
from tests.fleet.offers.reference import needs_reference, runs

pytestmark = needs_reference


def place(run):
    return run["product"], run["layout"], run["strategy"]


def test_documents_are_refused_exactly_where_the_device_plugin_exits_at_them(examined):
    """Nodes at which it exits whatever it shares are left out: their cut is refused where it is written."""
    found = runs("sharing-runs.json")
    unshared = {place(run): run for run in found if run["config"] == "none"}
    wrong = {}
    for number, run in enumerate(found):
        before = unshared.get(place(run), run)
        if not before["starts"]:
            continue
        labels = {"nvidia.com/gpu.present": "true", **(before["labels"] or {})}
        offered = {name: str(count) for name, count in before["resources"].items()}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": labels}}
        strategy = run["document"].get("flags", {}).get("migStrategy", run["strategy"])
        cluster = policy(mig={"strategy": strategy}), {**node, "status": {"allocatable": offered}}
        findings = examined("\n---\n".join(map(json.dumps, (config_map(any=run["document"]), *cluster))))
        refusals = [str(each) for each in findings if each.severity == "deny"]
        if bool(refusals) == run["starts"]:
            wrong[number] = run["config"], refusals, run["errors"]
    assert wrong == {}
