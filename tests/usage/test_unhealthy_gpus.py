"""Held GPUs that are unhealthy, in usage reports and their JSON."""

from policies.analyses.usage import usage_json
from policies.analyses.usage.cells import node_cells
from tests.usage.usage_objects import PRODUCT, claim, device, node, pod, reasons, report, resource_slice

XID = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]


def unhealthy(*ids, resource="nvidia.com/gpu", name="main"):
    resources = [{"resourceID": each, "health": "Unhealthy"} for each in ids]
    return {
        "phase": "Running",
        "containerStatuses": [{"name": name, "allocatedResourcesStatus": [{"name": resource, "resources": resources}]}],
    }


def test_held_gpu_that_the_driver_taints_is_unhealthy():
    slices = resource_slice([device("gpu-0", taints=XID), device("gpu-1")])
    found = report(node(), slices, claim("gpu-0"))
    assert [each.sentence for each in found.totals] == ["2 GPUs: 1 held (1 of them unhealthy), 1 free"]
    (holder,) = found.holders
    assert holder.problems == ("gpu-0: the GPU reported XID 79 (taint gpu.nvidia.com/xid=79:NoSchedule)",)


def test_tainted_gpu_that_nobody_holds_is_unusable_and_not_unhealthy():
    found = report(node(), resource_slice([device("gpu-0", taints=XID)]))
    assert [each.sentence for each in found.totals] == ["1 GPU: 0 held, 0 free, 1 free but unusable"]


def test_share_of_an_unhealthy_gpu_counts_as_that_part():
    slices = resource_slice([device("gpu-0", taints=XID, allowMultipleAllocations=True)])
    held = claim("gpu-0", consumedCapacity={"memory": "40779Mi"})
    (gpus,) = report(node(), slices, held).gpus
    assert gpus.unhealthy == gpus.held


def test_device_that_its_driver_reports_as_not_ready_is_unhealthy():
    held = claim("gpu-0")
    condition = {"type": "Ready", "status": "False", "reason": "Reset", "message": "GPU resets"}
    held["status"]["devices"] = [
        {"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0", "conditions": [condition]}
    ]
    (holder,) = report(node(), resource_slice([device("gpu-0")]), held).holders
    assert holder.problems == ("gpu-0: its driver reports that it is not ready: Reset: GPU resets",)


def test_gpu_of_the_device_plugin_is_unhealthy_as_the_kubelet_reports():
    found = report(node(gpus=8), pod(gpus=4, status=unhealthy("GPU-1")))
    assert [each.sentence for each in found.totals] == ["8 GPUs: 4 held (1 of them unhealthy), 4 free"]
    assert found.holders[0].problems == (f"1 {PRODUCT}: the kubelet reports it as unhealthy",)


def test_free_gpus_that_the_node_withholds_for_unhealthy_held_ones_are_unusable():
    found = report(node(gpus=6, capacity={"nvidia.com/gpu": "8"}), pod(gpus=6, status=unhealthy("GPU-1")))
    sentence = "the node advertises fewer devices, because unhealthy ones are held"
    assert reasons(found) == [
        ("unhealthy", sentence, "1"),
        ("unhealthy", "reported as unhealthy by the device plugin", "1"),
    ]


def test_other_resources_do_not_count():
    found = report(node(gpus=8), pod(gpus=4, status=unhealthy("nic-0", resource="example.com/nic")))
    assert found.holders[0].problems == ()


def test_cell_of_an_unhealthy_gpu_says_so():
    found = report(node(gpus=4), pod(gpus=2, status=unhealthy("GPU-1")))
    assert [each.problems for each in node_cells(found.gpus)] == [("the kubelet reports it as unhealthy",), (), (), ()]


def test_json_has_unhealthy_devices():
    found = usage_json(report(node(gpus=8), pod(gpus=4, status=unhealthy("GPU-1"))), ())
    assert (found.products[0].unhealthy, found.nodes[0].devices[0].unhealthy) == (1, 1)
    assert found.holders[0].problems
