"""Devices that do not fit: their holders, their missing attributes, and problems of their pools."""

from __future__ import annotations

from policies.outcome import Feasibility

EIGHTY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("81559Mi")) >= 0'
ROOT = "resource.kubernetes.io/pcieRoot"


def texts_of(answer):
    (group,) = answer.groups
    return group.reason.sentence, *group.reason.details


def test_devices_in_use_are_reported_with_their_pod_and_the_others_with_what_they_lack(ask, k8s):
    devices = [*k8s.gpus(4), *(k8s.gpu(number, memory="40Gi") for number in range(4, 8))]
    answer = ask(
        k8s.claim(k8s.selecting(EIGHTY, count=2)),
        k8s.node(),
        k8s.resource_slice(devices),
        k8s.holding("train-0", range(4)),
    )
    assert answer.verdict is Feasibility.FULL
    assert answer.headline == "fits none of 1 node now; it would fit 1 if nothing were in use there"
    assert texts_of(answer) == (
        "request gpu requests 2 devices of class gpu.nvidia.com; none of 8 can serve it",
        "gpu-0..gpu-3 are in use by team-b/train-0",
        "gpu-4..gpu-7 have 40Gi of memory, 81559Mi requested",
    )
    assert answer.groups[0].reason.facts == {
        "claim": "gpus",
        "request": "gpu",
        "asked": 2,
        "usable": 0,
        "rejected": [
            {"devices": "gpu-0..gpu-3", "reason": "in use", "count": 4},
            {"devices": "gpu-4..gpu-7", "reason": "request selector", "count": 4},
        ],
    }


def test_device_in_use_that_does_not_match_is_reported_for_what_it_lacks(ask, k8s):
    slices = k8s.resource_slice(k8s.gpus(1, memory="40Gi"))
    answer = ask(k8s.claim(k8s.selecting(EIGHTY)), k8s.node(), slices, k8s.holding("train-0", [0]))
    assert texts_of(answer)[1:] == ("gpu-0 has 40Gi of memory, 81559Mi requested",)


def test_claim_that_several_pods_share_is_reported_with_the_first(ask, k8s):
    held = k8s.holding("train-0", [0])
    held["status"]["reservedFor"] += [{"resource": "pods", "name": "b"}, {"resource": "pods", "name": "c"}]
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), held)
    assert texts_of(answer)[1:] == ("gpu-0 is in use by team-b/train-0 and 2 more pods",)


def test_claim_that_no_pod_uses_is_reported_as_such(ask, k8s):
    held = k8s.holding("train-0", [0])
    held["status"]["reservedFor"] = []
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), held)
    assert texts_of(answer)[1:] == ("gpu-0 is in use by claim team-b/train-0-gpu, which no pod uses now",)


def test_claim_of_a_pod_group_is_in_use_by_its_pods(ask, k8s):
    held = k8s.holding("train-0", [0])
    held["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring"}]
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), held)
    assert texts_of(answer)[1:] == ("gpu-0 is in use by the pods of PodGroup team-b/ring",)


def test_admin_access_holds_nothing(ask, k8s):
    held = k8s.holding("monitor", [0])
    held["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), held).verdict is Feasibility.FITS


def test_nodes_that_fit_say_what_they_would_give(ask, k8s):
    answer = ask(k8s.claim({"count": 2}), k8s.node(), k8s.resource_slice(k8s.gpus(8)), k8s.holding("train-0", [0, 2]))
    assert answer.headline == "fits 1 of 1 node now, 3 claims in all"
    assert answer.groups[0].devices == ("gpu: gpu-1 and gpu-3",)


def test_node_without_slices_has_no_devices(ask, k8s):
    answer = ask(k8s.claim(), k8s.node("node-2"), k8s.resource_slice(k8s.gpus(1)))
    assert texts_of(answer) == ("no ResourceSlice offers devices here: no DRA driver runs, or it has found none",)


def test_node_without_devices_of_the_class_says_what_it_has(ask, k8s):
    channel = {"name": "channel-0", "attributes": {"type": {"string": "channel"}}}
    slices = k8s.resource_slice([channel], driver="compute-domain.nvidia.com")
    assert texts_of(ask(k8s.claim(), k8s.node(), slices)) == (
        "request gpu requests 1 device of class gpu.nvidia.com, but the node has none",
        "channel-0 is not of class gpu.nvidia.com: is of driver compute-domain.nvidia.com, gpu.nvidia.com requested",
    )


def test_too_few_devices_are_counted(ask, k8s):
    answer = ask(k8s.claim({"count": 4}), k8s.node(), k8s.resource_slice(k8s.gpus(2)))
    assert texts_of(answer) == ("request gpu requests 4 devices of class gpu.nvidia.com; the node has 2",)
    assert answer.headline == "fits none of 1 node, even if nothing were in use"


def test_request_for_all_says_which_are_missing(ask, k8s):
    all_of_them = k8s.claim({"allocationMode": "All"})
    answer = ask(all_of_them, k8s.node(), k8s.resource_slice(k8s.gpus(4)), k8s.holding("train-0", [1]))
    assert texts_of(answer) == (
        "request gpu requests all devices of class gpu.nvidia.com that match; 3 of 4 can serve it",
        "gpu-1 is in use by team-b/train-0",
    )


def test_tainted_device_is_reported(ask, k8s):
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([k8s.gpu(0, taints=[taint])]))
    assert texts_of(answer)[1:] == (
        "gpu-0 has the taint gpu.nvidia.com/xid=79:NoExecute, which the request does not tolerate",
    )


def test_consumed_capacity_is_reported_with_what_is_left(ask, k8s):
    device = k8s.gpu(0, allowMultipleAllocations=True)
    held = k8s.holding("train-0", [0])
    held["status"]["allocation"]["devices"]["results"][0] |= {
        "shareID": "8f2b8a42-6d0b-4b0e-8d57-0d9a4c1f5a11",
        "consumedCapacity": {"memory": "60Gi"},
    }
    asked = k8s.claim({"capacity": {"requests": {"memory": "40Gi"}}})
    answer = ask(asked, k8s.node(), k8s.resource_slice([device]), held)
    assert texts_of(answer)[1:] == ("gpu-0 has 20119Mi of memory left, 40Gi requested",)
    assert answer.verdict is Feasibility.FULL


def test_shared_counters_are_reported_with_what_is_left(ask, k8s):
    def part(number):
        consumed = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "60Gi"}}}]
        return k8s.gpu(number, consumesCounters=consumed)

    devices = k8s.resource_slice([part(0), part(1)], count=2)
    counters = k8s.resource_slice([], count=2)
    counters["metadata"]["name"] = "counters"
    counters["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "81559Mi"}}}]
    answer = ask(k8s.claim(), k8s.node(), devices, counters, k8s.holding("train-0", [0]))
    assert texts_of(answer)[1:] == (
        "gpu-0 is in use by team-b/train-0",
        "gpu-1 needs 60Gi of the shared counter gpu-0/memory, 20119Mi left beside the devices in use",
    )


def test_incomplete_pool_is_reported(ask, k8s):
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(8), count=2))
    assert texts_of(answer) == (
        "pool gpu.nvidia.com/node-1 is incomplete: 1 of 2 ResourceSlices of generation 1 are there",
        "none of its devices can be used until its driver has put that right",
    )
    assert answer.groups[0].reason.facts == {
        "pool": "gpu.nvidia.com/node-1",
        "state": "incomplete",
        "found": 1,
        "expected": 2,
    }


def test_incomplete_pool_is_reported_whatever_its_devices_lack(ask, k8s):
    memory = 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("90Gi"))'
    answer = ask(k8s.claim(k8s.selecting(memory)), k8s.node(), k8s.resource_slice(k8s.gpus(8), count=2))
    assert texts_of(answer)[0] == (
        "pool gpu.nvidia.com/node-1 is incomplete: 1 of 2 ResourceSlices of generation 1 are there"
    )


def test_incomplete_pool_without_devices_is_reported(ask, k8s):
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([], count=2))
    assert texts_of(answer)[0] == (
        "pool gpu.nvidia.com/node-1 is incomplete: 1 of 2 ResourceSlices of generation 1 are there"
    )


def test_invalid_pool_is_reported(ask, k8s):
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([k8s.gpu(0), k8s.gpu(0)]))
    assert texts_of(answer)[0] == "pool gpu.nvidia.com/node-1 is invalid: duplicate device name gpu-0"


def test_incomplete_pool_of_other_devices_is_not_to_blame(ask, k8s):
    channel = {"name": "channel-0", "attributes": {"type": {"string": "channel"}}}
    other = k8s.resource_slice([channel], driver="compute-domain.nvidia.com", count=2)
    answer = ask(k8s.claim({"count": 2}), k8s.node(), k8s.resource_slice(k8s.gpus(1)), other)
    assert texts_of(answer) == ("request gpu requests 2 devices of class gpu.nvidia.com; the node has 1",)


def test_constraint_is_reported_with_the_values_there_are(ask, k8s):
    devices = [k8s.gpu(number, root=f"pci0000:{number // 2:02x}") for number in range(4)]
    asked = k8s.claim({"count": 4}, constraints=[{"matchAttribute": ROOT}])
    answer = ask(asked, k8s.node(), k8s.resource_slice(devices))
    assert texts_of(answer) == (
        f"4 devices with the same {ROOT} requested; of the 4 that can serve, at most 2 have one in common",
        f"gpu-0 and gpu-1 have {ROOT} pci0000:00",
        f"gpu-2 and gpu-3 have {ROOT} pci0000:01",
    )


def test_constraint_on_an_attribute_that_is_missing_is_reported(ask, k8s):
    asked = k8s.claim({"count": 2}, constraints=[{"matchAttribute": ROOT}])
    answer = ask(asked, k8s.node(), k8s.resource_slice([*k8s.gpus(2)]))
    assert texts_of(answer)[1:] == (f"gpu-0 and gpu-1 have no {ROOT}",)


def paired(k8s, count):
    """A claim for pairs of a GPU and a network device with the same root, as conversion makes it."""
    asked = k8s.claim()
    requests = [
        {"name": f"{name}-{number}", "exactly": {"deviceClassName": of_class}}
        for number in range(count)
        for name, of_class in (("gpu", "gpu.nvidia.com"), ("nic", "rdma-nic"))
    ]
    constraints = [{"requests": [f"gpu-{number}", f"nic-{number}"], "matchAttribute": ROOT} for number in range(count)]
    asked["spec"]["devices"] = {"requests": requests, "constraints": constraints}
    return asked


def nics(k8s, *roots):
    devices = [
        {"name": f"nic-{number}", "attributes": {ROOT: {"string": root}} if root else {}}
        for number, root in enumerate(roots)
    ]
    return k8s.device_class("rdma-nic", "device.driver == 'dra.net'"), k8s.resource_slice(devices, driver="dra.net")


def gpus_at(k8s, *roots):
    return k8s.resource_slice([k8s.gpu(number, root=root) for number, root in enumerate(roots)])


def test_missing_pair_is_reported_with_the_root_that_lacks_a_network_device(ask, k8s):
    there = gpus_at(k8s, "pci0000:00", "pci0000:40"), *nics(k8s, "pci0000:00", "pci0000:00")
    answer = ask(paired(k8s, 2), k8s.node(), *there)
    assert texts_of(answer) == (
        f"2 pairs of class gpu.nvidia.com and class rdma-nic with the same {ROOT} requested; the free devices make 1",
        "pci0000:40 has 1 free device of class gpu.nvidia.com and none of class rdma-nic",
        "pci0000:00 has 2 free devices of class rdma-nic and 1 of class gpu.nvidia.com",
    )
    assert answer.groups[0].reason.facts == {"claim": "gpus", "constraint": ROOT, "asked": 2, "usable": 1}


def test_missing_pair_names_the_holder_of_the_network_device(ask, k8s):
    held = k8s.holding("train-0", [1], namespace="team-a")
    (result,) = held["status"]["allocation"]["devices"]["results"]
    result |= {"driver": "dra.net", "device": "nic-1"}
    there = gpus_at(k8s, "pci0000:00", "pci0000:40"), *nics(k8s, "pci0000:00", "pci0000:40")
    assert texts_of(ask(paired(k8s, 2), k8s.node(), *there, held))[1:] == (
        (
            "pci0000:40 has 1 free device of class gpu.nvidia.com and none of class rdma-nic "
            "(nic-1 is in use by team-a/train-0)"
        ),
    )


def test_missing_pair_names_devices_without_the_attribute(ask, k8s):
    there = gpus_at(k8s, None), *nics(k8s, "pci0000:00")
    assert texts_of(ask(paired(k8s, 1), k8s.node(), *there))[1:] == (
        f"1 free device of class gpu.nvidia.com has no {ROOT}",
        "pci0000:00 has 1 free device of class rdma-nic and none of class gpu.nvidia.com",
    )


def test_pairs_fit_where_each_root_has_both(ask, k8s):
    there = gpus_at(k8s, "pci0000:00", "pci0000:40"), *nics(k8s, "pci0000:40", "pci0000:00")
    assert ask(paired(k8s, 2), k8s.node(), *there).verdict is Feasibility.FITS


def test_prioritized_list_tells_all_its_alternatives(ask, k8s):
    alternatives = [
        {"name": "large", "deviceClassName": "gpu.nvidia.com", "count": 8},
        {"name": "small", "deviceClassName": "gpu.nvidia.com", "count": 4},
    ]
    asked = k8s.claim()
    asked["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": alternatives}]
    assert texts_of(ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(2)))) == (
        "none of the alternatives of request gpu fits (large and small)",
        "request gpu/large requests 8 devices of class gpu.nvidia.com; the node has 2",
        "request gpu/small requests 4 devices of class gpu.nvidia.com; the node has 2",
    )


def test_requests_that_fit_alone_but_not_together_are_reported(ask, k8s):
    asked = k8s.claim({"count": 2})
    (first,) = asked["spec"]["devices"]["requests"]
    asked["spec"]["devices"]["requests"] = [first, {**first, "name": "other"}]
    assert texts_of(ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(3)))) == (
        "each request could be served alone, but not all together: 4 requested, 3 available",
        "request gpu needs 2 of 3 that can serve it",
        "request other needs 2 of 3 that can serve it",
    )


def test_nodes_alike_are_reported_once(ask, k8s):
    nodes = [k8s.node(f"node-{number}") for number in range(20)]
    slices = [k8s.resource_slice(k8s.gpus(2), f"node-{number}") for number in range(20)]
    answer = ask(k8s.claim({"count": 4}), *nodes, *slices)
    (group,) = answer.groups
    assert (group.count, group.nodes[:2], len(group.nodes)) == (20, ("node-0", "node-1"), 8)


def test_groups_beyond_the_first_are_counted(ask, k8s):
    nodes = [k8s.node(f"node-{number}") for number in range(12)]
    slices = [k8s.resource_slice(k8s.gpus(number + 1), f"node-{number}") for number in range(12)]
    answer = ask(k8s.claim({"count": 20}), *nodes, *slices)
    assert (len(answer.groups), answer.groups_left_out, answer.nodes_left_out) == (8, 4, 4)


def test_taints_of_devices_count_where_an_older_cluster_stores_them(ask, k8s):
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    answer = ask(k8s.claim(), OLD, k8s.node(), k8s.resource_slice([k8s.gpu(0, taints=[taint])]))
    assert answer.verdict is Feasibility.IMPOSSIBLE


OLD = {"serverVersion": {"gitVersion": "v1.35.0"}}
NUMA = "device.attributes['resource.kubernetes.io'].numaNode"


def on_numa_nodes(k8s, *numbers):
    """GPUs whose NUMA nodes are a list, as the driver writes them with its gate DRAListTypeAttributes."""
    devices = k8s.gpus(len(numbers))
    for device, number in zip(devices, numbers, strict=True):
        device["attributes"]["resource.kubernetes.io/numaNode"] = {"ints": [number]}
    return k8s.resource_slice(devices)


def test_class_that_has_an_extended_resource_proves_that_claims_serve_it(ask, k8s):
    served = k8s.device_class(extendedResourceName="nvidia.com/gpu")
    known = [served, k8s.namespace(), k8s.empty_list("Pod"), k8s.empty_list("ResourceClaim", "resource.k8s.io/v1"), OLD]
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), k8s.node(), k8s.resource_slice(k8s.gpus(2)), base=known)
    assert answer.headline == "fits 1 of 1 node now, 1 replica in all"


def test_devices_whose_attributes_are_lists_are_allocated(ask, k8s):
    answer = ask(k8s.claim(k8s.selecting(f"{NUMA}.includes(1)")), k8s.node(), on_numa_nodes(k8s, 0, 1))
    assert answer.headline == "fits 1 of 1 node now, 1 claim in all"


def test_devices_agree_in_lists_that_have_a_value_in_common(ask, k8s):
    match = [{"matchAttribute": "resource.kubernetes.io/numaNode"}]
    slices = on_numa_nodes(k8s, 0, 1, 1)
    fits = [ask(k8s.claim({"count": count}, constraints=match), k8s.node(), slices).verdict for count in (2, 3)]
    assert fits == [Feasibility.FITS, Feasibility.IMPOSSIBLE]


def test_devices_beside_their_counters_fit_in_kubernetes_1_34(ask, k8s):
    consumed = [{"counterSet": "gpu-0", "counters": {"slices": {"value": "8"}}}]
    counters = [{"name": "gpu-0", "counters": {"slices": {"value": "8"}}}]
    combined = k8s.resource_slice([k8s.gpu(0, consumesCounters=consumed)])
    combined["spec"]["sharedCounters"] = counters
    answer = ask(k8s.claim(), k8s.node(), combined, {"serverVersion": {"gitVersion": "v1.34.4"}})
    assert answer.verdict is Feasibility.FITS


def test_device_that_a_rule_taints_serves_no_claim_and_is_reported_with_the_rule(ask, k8s):
    rule = k8s.taint_rule(device="gpu-0")
    assert ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(2)), rule).verdict is Feasibility.FITS
    answer = ask(k8s.claim({"count": 2}), k8s.node(), k8s.resource_slice(k8s.gpus(2)), rule)
    assert answer.verdict is Feasibility.IMPOSSIBLE
    assert texts_of(answer)[1:] == (
        "gpu-0 has the taint example.com/repair:NoSchedule of DeviceTaintRule repair, which the request does not tolerate",
    )


def test_claim_that_tolerates_the_taint_of_a_rule_fits(ask, k8s):
    tolerating = k8s.claim({"tolerations": [{"key": "example.com/repair", "operator": "Exists"}]})
    answer = ask(tolerating, k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.taint_rule())
    assert answer.verdict is Feasibility.FITS
