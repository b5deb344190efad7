"""Failed starts and unhealthy devices in the status and the events of a pod."""

from policies.kubernetes.pod_status import (
    DeviceHealth,
    StartFailure,
    is_not_running,
    is_read_event,
    reduced_container_statuses,
    start_failures,
    unhealthy_devices,
    waiting_containers,
)

NOT_REGISTERED = (
    "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not registered"
)


def pod(phase="Pending", statuses=(), node="node-1", **status):
    return {
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "uid": "u-1"},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [*statuses], **status},
    }


def waiting(reason="ContainerCreating", name="main", message=None):
    return {"name": name, "state": {"waiting": {"reason": reason, **({"message": message} if message else {})}}}


def running(name="main", **more):
    return {"name": name, "state": {"running": {}}, **more}


def event(
    reason="FailedPrepareDynamicResources", message=NOT_REGISTERED, time="2026-11-30T10:00:00Z", uid="u-1", **more
):
    about = {"kind": "Pod", "namespace": "team-a", "name": "train", "uid": uid, **more.pop("about", {})}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": time,
        "involvedObject": about,
        **more,
    }


def test_event_of_the_pod_says_why_it_does_not_start():
    found = start_failures(pod(statuses=[waiting()]), [event(count=7)])
    assert found == (StartFailure("FailedPrepareDynamicResources", NOT_REGISTERED, "", 7),)


def test_series_of_events_is_counted():
    (found,) = start_failures(pod(), [event(series={"count": 12})])
    assert found.events == 12


def test_events_of_an_earlier_pod_of_that_name_are_skipped():
    assert start_failures(pod(), [event(uid="u-0")]) == ()


def test_latest_event_comes_first():
    events = [event(message="a", time="2026-11-30T10:00:00Z"), event(message="b", time="2026-11-30T10:01:00Z")]
    assert [each.message for each in start_failures(pod(), events)] == ["b", "a"]


def test_preparation_that_failed_before_the_sandbox_was_made_is_over():
    ready = [{"type": "PodReadyToStartContainers", "status": "True"}]
    assert start_failures(pod(statuses=[waiting()], conditions=ready), [event()]) == ()


def test_failure_of_a_container_that_runs_now_is_over():
    about = {"fieldPath": "spec.containers{main}"}
    assert start_failures(pod("Running", [running()]), [event("Failed", "Error: x", about=about)]) == ()


def test_event_and_status_of_a_container_say_the_same_once():
    about = {"fieldPath": "spec.containers{main}"}
    found = start_failures(
        pod(statuses=[waiting("CreateContainerError", message="x")]), [event("Failed", "Error: x", about=about)]
    )
    assert found == (StartFailure("CreateContainerError", "x", "main"),)


def test_error_of_the_last_start_counts_while_the_container_waits_for_the_next():
    status = waiting("CrashLoopBackOff", message="back-off 5m0s")
    status["lastState"] = {"terminated": {"reason": "StartError", "message": "nvidia-container-cli: device error"}}
    assert start_failures(pod("Running", [status]), []) == (
        StartFailure("StartError", "nvidia-container-cli: device error", "main"),
    )


def test_rejected_pod_says_why():
    found = start_failures(
        pod("Failed", reason="UnexpectedAdmissionError", message="Pod was rejected: Allocate failed due to x"), []
    )
    assert found == (StartFailure("UnexpectedAdmissionError", "Allocate failed due to x"),)


def test_pod_that_ran_and_failed_has_no_start_failure():
    assert start_failures(pod("Failed", reason="Evicted", message="node pressure"), [event()]) == ()


def test_pod_that_creates_its_containers_has_no_failure():
    creating = pod(statuses=[waiting()])
    assert start_failures(creating, []) == ()
    assert waiting_containers(creating) == ("main",)


def test_only_bound_pods_can_be_stuck():
    assert is_not_running(pod())
    assert is_not_running(pod("Running", [waiting("CrashLoopBackOff")]))
    assert not is_not_running(pod("Running", [running()]))
    assert not is_not_running(pod(node=""))


def test_normal_events_and_those_of_other_objects_are_not_read():
    assert is_read_event(event("OutOfnvidia.com/gpu"))
    assert not is_read_event({**event(), "type": "Normal"})
    assert not is_read_event(event(about={"kind": "Node"}))
    assert not is_read_event(event("FailedScheduling"))


HEALTH = [
    {
        "name": "nvidia.com/gpu",
        "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}, {"resourceID": "GPU-2", "health": "Healthy"}],
    },
    {"name": "claim:gpu/big", "resources": [{"resourceID": "gpu.nvidia.com/node-1/gpu-0", "health": "Unknown"}]},
    {
        "name": "claim:nic",
        "resources": [{"resourceID": "dra.net/node-1/nic-0", "health": "Unhealthy", "message": "link down"}],
    },
]


def test_devices_that_are_unhealthy_are_found_and_unknown_health_is_none():
    assert unhealthy_devices(pod("Running", [running(allocatedResourcesStatus=HEALTH)])) == (
        DeviceHealth("main", "nvidia.com/gpu", "GPU-1", ""),
        DeviceHealth("main", "claim:nic", "dra.net/node-1/nic-0", "link down"),
    )


def test_reduced_statuses_say_the_same():
    status = {**waiting("CrashLoopBackOff"), "allocatedResourcesStatus": HEALTH, "image": "x", "restartCount": 9}
    status["lastState"] = {"terminated": {"reason": "StartError", "message": "x", "exitCode": 128}}
    whole = pod("Running", [status, running("other")])
    small = pod("Running", reduced_container_statuses(whole["status"]["containerStatuses"]))
    assert start_failures(small, []) == start_failures(whole, [])
    assert unhealthy_devices(small) == unhealthy_devices(whole)
    assert "GPU-2" not in str(small)
    assert "image" not in str(small)


def test_statuses_of_healthy_containers_are_nothing():
    healthy = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-2", "health": "Healthy"}]}]
    assert reduced_container_statuses([running(allocatedResourcesStatus=healthy)]) == []


def test_malformed_status_is_skipped():
    assert (
        unhealthy_devices({"status": {"containerStatuses": [None, {"allocatedResourcesStatus": [{"resources": 1}]}]}})
        == ()
    )
    assert reduced_container_statuses({"a": 1}) == []
