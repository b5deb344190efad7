"""The devices of a cluster, with equal ones together."""

import pytest

from policies.cel import compile_selector
from policies.devices.effort import MOST_COST_OF_ALL, Effort, select_devices
from policies.devices.published_devices import PublishedDevices, SliceDevices, published_devices
from policies.kubernetes.resourceslices import Device, Read
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.manifests import ManifestsView


def devices(count, **attributes):
    """The fleet of so many devices, eight of each slice."""
    members = [
        Device(
            "d",
            "pool",
            f"gpu-{n % 8}",
            f"node-{n // 8}",
            {"attributes": {name: make(n) for name, make in attributes.items()}},
        )
        for n in range(count)
    ]
    return PublishedDevices([SliceDevices(members[first : first + 8]) for first in range(0, count, 8)])


def test_devices_that_only_their_uuid_tells_apart_are_one_group():
    known = devices(80, uuid=lambda n: {"string": str(n)}, model=lambda n: {"string": "ab"[n % 2]})
    assert sorted(len(group.devices) for group in known.groups) == [40, 40]


def test_attribute_with_many_values_is_taken_for_one_that_tells_apart():
    assert len(devices(80, serial=lambda n: {"int": n}).groups) == 1
    assert len(devices(80, port=lambda n: {"int": n % 4}).groups) == 4


def test_selector_on_a_distinguishing_attribute_is_evaluated_on_each_device():
    known = devices(80, serial=lambda n: {"int": n})
    choice = select_devices(known, known.groups, [compile_selector('device.attributes["d"].serial < 3')], Effort())
    assert [member.name for group in choice.matched for member in group.devices] == ["gpu-0", "gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    ("reads", "groups"),
    [
        (None, 40),
        (frozenset(), 1),
        (frozenset({Read("attributes", "d", "serial")}), 40),
        (frozenset({Read("attributes", "d")}), 40),
        (frozenset({Read("attributes", None, "serial")}), 40),
        (frozenset({Read("attributes")}), 40),
        (frozenset({Read("attributes", "other", "serial")}), 1),
        (frozenset({Read("capacity", "d", "serial")}), 1),
        (frozenset({Read("attributes", "d", "model"), Read("driver")}), 1),
    ],
)
def test_groups_are_divided_by_each_form_of_a_read(reads, groups):
    known = devices(40, serial=lambda n: {"int": n}, model=lambda _: {"string": "a"})
    assert len(known.divide(known.groups, reads)) == groups


def test_second_evaluation_of_a_selector_is_the_first():
    known = devices(40, serial=lambda n: {"int": n})
    for text in ('device.attributes["d"].serial < 3', 'device.attributes["d"].model == "a"'):
        first, second = (select_devices(known, known.groups, [compile_selector(text)], Effort()) for _ in range(2))
        assert second == first


def test_cached_evaluation_costs_as_much_effort():
    known = devices(40, serial=lambda n: {"int": n})
    selector = compile_selector('device.attributes["d"].serial < 3')
    first, second = Effort(), Effort()
    for effort in (first, second):
        select_devices(known, known.groups, [selector], effort)
    assert second.cost.left == first.cost.left == MOST_COST_OF_ALL - 40 * selector.max_cost


def test_cached_evaluation_is_not_for_a_review_without_effort():
    known = devices(40, serial=lambda n: {"int": n})
    selector = compile_selector('device.attributes["d"].serial < 3')
    assert select_devices(known, known.groups, [selector], Effort()).complete
    exhausted = Effort()
    exhausted.cost.left = 0
    assert not select_devices(known, known.groups, [selector], exhausted).complete
    assert exhausted.was_cut


def test_selector_on_very_many_is_not_asked():
    known = devices(5000, serial=lambda n: {"int": n})
    choice = select_devices(known, known.groups, [compile_selector('device.attributes["d"].serial < 3')], Effort())
    assert (choice.matched, choice.complete) == ((), False)
    assert select_devices(known, known.groups, [compile_selector('device.driver == "d"')], Effort()).complete


def test_selector_that_costs_much_is_not_asked_about_many():
    known = devices(80, port=lambda n: {"int": n % 4})
    numbers = f"[{', '.join(map(str, range(50)))}]"
    dear = compile_selector(f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c < 1000)))")
    assert not select_devices(known, known.groups, [dear], Effort()).complete


def test_devices_are_counted_by_node():
    (group,) = devices(20).groups
    assert (dict(group.by_node), group.most_on_a_node) == ({"node-0": 8, "node-1": 8, "node-2": 4}, 8)


def test_digest_is_made_once_for_a_view():
    view = ManifestsView([{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}])
    assert view.derive(published_devices) is view.derive(published_devices)
    assert published_devices(ManifestsView()) is UNKNOWN
