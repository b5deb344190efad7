"""The model beside NVIDIA's own device plugin and GPU Feature Discovery, on hundreds of nodes and configurations."""

import re
from dataclasses import replace

from policies.fleet.offers import NodeState, read_hardware
from policies.fleet.offers.hardware import gpu_number
from policies.fleet.offers.offer import label_offer, plugin_offer
from policies.fleet.offers.published import published_slices
from policies.fleet.operands import cluster_driver
from tests.fleet.offers.reference import cut_of, gpu_cluster, hardware_of, needs_reference, runs, sizes_in, state_of
from webhook.cluster.manifests import ManifestsView

pytestmark = needs_reference

STRATEGIES = ("none", "single", "mixed")
UNCUT = {
    "H100-SXM5-80GB": ("NVIDIA-H100-80GB-HBM3", "81559"),
    "A30-PCIE-24GB": ("NVIDIA-A30", "24576"),
    "B200-SXM5-180GB": ("NVIDIA-B200", "183359"),
}
"""Product and memory of the nodes of the sharing runs."""


def plugin_runs():
    """Name, cut, state, labels with MIG off, and what the components made of it."""
    for model in ("A100-SXM4-40GB", "H100-SXM5-80GB", "h100", "gb200"):
        found = runs(f"{model}.json")
        whole = found["off-none-excl"]["gfd"]["labels"]
        for name, run in found.items():
            if "config" in run:
                layout = next(name[: name.index(f"-{each}-")] for each in STRATEGIES if f"-{each}-" in name)
                cut = cut_of(model, layout)
                plugin, gfd = run["devicePlugin"], run["gfd"]
                resources = {key: each["count"] for key, each in (plugin["resources"] or {}).items()}
                answers = {key: each["requestOfTwo"] for key, each in (plugin["resources"] or {}).items()}
                state = state_of(cut, run["config"]["flags"]["migStrategy"], run["config"])
                errors = plugin["messages"] if plugin["rc"] else []
                yield f"{model} {name}", cut, state, whole, (resources, answers, errors, gfd["labels"])
    for number, run in enumerate(runs("sharing-runs.json")):
        cut = cut_of(run["product"], run["layout"])
        product, memory = UNCUT[run["product"]]
        labels = run["labels"]
        whole = {**(labels or {}), "nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
        if run["layout"] == "off":
            whole["nvidia.com/gpu.memory"] = "81920"
        outcome = run["resources"], run["requestOfTwo"], [] if run["starts"] else run["errors"], labels
        # The runs wrote the strategy into the document, unless it has one.
        strategy = run["document"].get("flags", {}).get("migStrategy", run["strategy"])
        state = state_of(cut, strategy, run["document"])
        yield f"{number} {run['layout']} {run['strategy']} {run['config']}", cut, state, whole, outcome


def test_all_runs_are_read():
    assert len(list(plugin_runs())) > 250
    assert len(list(driver_runs())) > 100


def test_resources_and_refusals_are_those_of_the_plugin():
    """Resources, those that refuse a request of two, and whether the plugin exits."""
    wrong = {}
    for name, cut, state, _, (resources, answers, errors, _) in plugin_runs():
        offer = plugin_offer(len(cut.by_gpu), state)
        single = {key for key, answer in answers.items() if answer.startswith("invalid request")}
        is_refused = bool(offer.refusal) and all(offer.refusal in error for error in errors)
        if (offer.resources, offer.single, is_refused) != (resources, single, bool(errors)):
            wrong[name] = offer, resources, errors
    assert wrong == {}


def test_labels_are_those_of_gpu_feature_discovery():
    """The sizes of MIG devices of H100, A30 and B200 are given as facts: the mock ones are not those of real GPUs."""
    wrong = {}
    for name, cut, state, whole, (*_, labels) in plugin_runs():
        is_mock = not name.startswith("A100")
        hardware = hardware_of(cut, whole, sizes_in(labels or {}).items() if is_mock else ())
        offer = label_offer(hardware, state)
        if offer.labels != (labels or {}) or bool(offer.refusal) != (labels is None) or offer.predicted:
            theirs, ours = set((labels or {}).items()), set(offer.labels.items())
            wrong[name] = sorted(ours - theirs), sorted(theirs - ours), offer.refusal, offer.predicted
    assert wrong == {}


def plain(slices):
    """Slices without what the mock invents: UUIDs of MIG devices, numbers of profiles, the order of devices."""
    found = []
    for devices, counters in slices:
        names = {}
        for device in devices:
            attributes = dict(device["attributes"])
            if attributes["type"] == {"string": "mig"}:
                attributes.pop("uuid", None)
            name = re.sub(r"-\d+-(\d+)$", r"-\1", device["name"])
            names[name] = {**device, "name": name, "attributes": attributes}
        found.append((names, {each["name"]: each for each in counters}))
    return found


def driver_runs():
    """Name, hardware, state and the slices of the DRA driver."""
    for model in ("A100-SXM4-40GB", "H100-SXM5-80GB", "h100", "gb200"):
        found = runs(f"{model}.json")
        labels = found["off-none-excl"]["gfd"]["labels"]
        for name, run in found.items():
            if not name.startswith("dra-") or run["dra"]["rc"] or name in INCONSISTENT:
                continue
            layout = next(name[4 : -len(kind) - 1] for kind in KINDS if name.endswith(f"-{kind}"))
            gates = [each.partition("=")[0] for each in run.get("gates", "").split(",") if each]
            view = ManifestsView([{"serverVersion": {"gitVersion": "v1.34.2" if run.get("combined") else "v1.36.2"}}])
            driver = cluster_driver(gpu_cluster(gates, run.get("consumableShares", "")), view)
            cut = cut_of(model, layout)
            whole = found["dra-off-fm" if "FabricManagerPartitioning" in gates else "dra-off-default"]
            devices = {gpu_number(each): (each,) for each in whole["dra"]["slices"][0]["spec"]["devices"]}
            others = [each for each in run["dra"]["slices"][0]["spec"].get("devices") or [] if "vfio" in each["name"]]
            hardware = replace(hardware_of(cut, labels), devices=devices, others=tuple(others))
            if model in ("h100", "gb200"):
                hardware = replace(hardware, mig=None)
            elif model.startswith("H100"):
                devices = found["dra-off-dynamicmig"]["dra"]["slices"][1]["spec"]["devices"]
                sizes = read_hardware({"metadata": {"labels": labels}}, devices)[0].sizes
                hardware = replace(hardware, sizes=sizes)
            slices = [
                (s["spec"].get("devices") or [], s["spec"].get("sharedCounters") or []) for s in run["dra"]["slices"]
            ]
            yield f"{model} {name}", hardware, NodeState(cut, driver=driver), slices


KINDS = (
    *("dynamicmig-shares-memory", "dynamicmig-combined", "dynamicmig", "default", "listattrs", "passthrough"),
    *("shares-4", "shares-unlimited", "shares-memory", "tsmps", "fm"),
)
INCONSISTENT = ("dra-half-passthrough",)
"""Runs of another cut than their layout: the last GPU of an A100 has one MIG device there."""


def test_slices_are_those_of_the_dra_driver():
    """The driver is that of a GPUCluster with the gates and shares of the run. Given are attributes of each GPU, and the sizes of MIG devices of the mock H100.

    The mock GPUs of `h100` and `gb200` have no MIG profiles.
    """
    wrong = {}
    for name, hardware, state, slices in driver_runs():
        ours = published_slices(hardware, state)
        assert not isinstance(ours, str), name
        shown, expected = plain((each.devices, each.counters) for each in ours), plain(slices)
        if shown != expected:
            wrong[name] = (
                [
                    (key, mine.get(key), theirs.get(key))
                    for (mine, _), (theirs, _) in zip(shown, expected, strict=False)
                    for key in sorted({*mine, *theirs})
                    if mine.get(key) != theirs.get(key)
                ][:3],
                [(len(a), len(b)) for a, b in shown],
                [(len(a), len(b)) for a, b in expected],
            )
    assert wrong == {}
