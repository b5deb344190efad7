"""The work of one review is bounded for any number of selectors; it is counted, not timed."""

import pytest

from policies.admission import review
from policies.cel import CelDevice, Selector, compile_selector
from policies.cel.selectors import _cached_selector
from policies.devices.deviceclasses import TYPES
from policies.devices.effort import EACH, MOST_COST_OF_ALL, MOST_TEXT, Effort
from policies.devices.possible_types import possible_types
from policies.devices.published_devices import DeviceGroup
from policies.devices.selected_types import selected_types
from policies.kubernetes.resourceslices import Device
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

A = 'device.attributes["gpu.nvidia.com"]'
CONFIG = {
    "opaque": {
        "driver": "gpu.nvidia.com",
        "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"},
    }
}
DEVICE = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}, "capacity": {}}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "node-a"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": [DEVICE],
    },
}


def selectors(texts):
    return [{"cel": {"expression": text}} for text in texts]


def device_class(name, texts):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors(texts)},
    }


OWN = device_class("gpu.nvidia.com", [f'device.driver == "gpu.nvidia.com" && {A}.type == "gpu"'])


def claim(*requests, classes=("gpu.nvidia.com",)):
    """A claim with one request for each list of selectors."""
    listed = [
        {
            "name": f"r{index}",
            "exactly": {"deviceClassName": classes[index % len(classes)], "selectors": selectors(texts)},
        }
        for index, texts in enumerate(requests)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team-a"},
        "spec": {"devices": {"requests": listed, "config": [CONFIG]}},
    }


def examine(document, *cluster):
    request = Request(
        document, group="resource.k8s.io", kind=document["kind"], namespace="team-a", name="c", entry="claims"
    )
    return review(request, ManifestsView([*(cluster or (OWN,)), SLICE], []), DEFAULTS).findings


@pytest.fixture
def compiled():
    """How many texts a review compiles."""

    def count(document, *cluster):
        _cached_selector.cache.clear()
        possible_types.cache.clear()
        examine(document, *cluster)
        return _cached_selector.cache.misses

    return count


@pytest.fixture
def evaluated(monkeypatch):
    """The costs of all that is evaluated."""
    costs = []
    value = Selector._value

    def counted(self, device: CelDevice):
        costs.append(self.max_cost)
        return value(self, device)

    monkeypatch.setattr(Selector, "_value", counted)
    _cached_selector.cache.clear()
    possible_types.cache.clear()
    return costs


def long(number, size=10_000):
    return "||".join(f"[1].all(x,x>{number})" for _ in range(size // 22))


def test_selectors_beyond_the_bound_are_not_compiled(compiled):
    assert compiled(claim([long(number) for number in range(32)])) <= 1


def test_only_the_first_requests_are_checked(compiled):
    assert compiled(claim([long(1, 8000)], [long(2, 8000)], [long(3, 8000)], ["true"])) <= 4


def test_selector_is_compiled_once_for_all_rules(compiled):
    one, two = compiled(claim(["true"])), compiled(claim(["true", f"{A}.type != 'x' || false"]))
    assert two - one <= 3, "the selector, and its conditions where near misses are told"


def test_usual_claim_with_as_many_selectors_as_there_may_be_is_looked_at_whole():
    texts = [f'{A}.missing{number} == "{"x" * 245}"' for number in range(32)]
    assert all(290 <= len(text) <= 310 for text in texts)
    found = [finding for finding in examine(claim(texts[:1])) if finding.rule.id == "GA221"]
    assert len(found) == 1
    assert not [finding for finding in examine(claim(texts)) if finding.rule.id == "GA216"]
    effort = Effort()
    assert effort.admit_own((), texts)


@pytest.mark.parametrize("many", [3, 32])
def test_dear_selectors_are_not_evaluated(evaluated, many):
    dear = [[f"lists.range(330).all(x,lists.range(330).all(y,x+y>=-{index}))"] for index in range(many)]
    examine(claim(*dear))
    assert sum(evaluated) < MOST_COST_OF_ALL


def test_cost_of_all_selectors_is_bounded_together(evaluated):
    middling = [[f"lists.range(130).all(x,lists.range(130).all(y,x+y>=-{index}))"] for index in range(32)]
    examine(claim(*middling))
    assert 0 < sum(evaluated) < 1.5 * MOST_COST_OF_ALL


def test_classes_of_the_cluster_are_bounded_together(compiled):
    classes = [device_class(f"c{number}", [long(100 + number), long(200 + number)]) for number in range(8)]
    names = tuple(each["metadata"]["name"] for each in classes)
    assert compiled(claim(*([["true"]] * 8), classes=names), *classes) <= 2


def test_what_is_beyond_the_bound_is_a_warning():
    (found,) = [each for each in examine(claim([long(number) for number in range(3)])) if each.rule.id == "GA216"]
    assert (str(found.severity), str(found.path)) == ("warn", "spec.devices")
    size = sum(len(long(number)) + EACH for number in range(3))
    assert plain_text(found) == (
        f"spec.devices: all selectors come to {size} bytes, at {EACH} for each beside its own; those beyond {MOST_TEXT} "
        "are stored without being compared with the devices of the cluster; write shorter selectors"
    )


def test_devices_that_were_asked_before_cost_nothing():
    selector, group = compile_selector("device.driver == 'd'"), DeviceGroup([Device("d", "pool", "gpu-0", "", {})])
    effort = Effort()
    assert effort.verdicts(selector, [group]) == effort.verdicts(selector, [group]) == [True]
    assert effort.cost.left == MOST_COST_OF_ALL - selector.max_cost


def test_types_stop_at_the_first_selectors_that_leave_none(evaluated):
    types = selected_types([f"!({A}.type == 'gpu')", "device.driver == 'gpu.nvidia.com' && false", "1 / 0 == 1"])
    assert types == set()
    assert possible_types.cache.misses == 2


def test_dear_atoms_may_turn_out_either_way(evaluated):
    assert possible_types("lists.range(330).all(x,lists.range(330).all(y,x+y>=9))") == TYPES
    assert evaluated == []


def test_constant_atoms_are_evaluated_once(evaluated):
    assert possible_types("1 + 1 == 3") == set()
    assert len(evaluated) == 1


def test_devices_that_constraints_compare_are_bounded_together():
    effort = Effort()
    assert [effort.compare(40_000) for _ in range(4)] == [True, True, True, False]


def test_warning_says_that_dear_selectors_were_not_compared():
    dear = "lists.range(330).all(x,lists.range(330).all(y,x+y>=0))"
    (found,) = [each for each in examine(claim([dear])) if each.rule.id == "GA216"]
    assert plain_text(found) == (
        "spec.devices: not all selectors were compared with all devices of the cluster, because that takes more than a "
        "review may; write shorter and simpler selectors, here and in the DeviceClasses"
    )
    assert str(found.severity) == "warn"
