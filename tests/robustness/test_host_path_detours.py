"""Host paths: detours through processes do not hide a GPU or its sockets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.access import validate
from policies.rules.request import Request
from policies.rules.settings import Access, GPUAdmissionPolicy
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
NOWHERE = ManifestsView([])

PROCESSES = st.sampled_from(["1", "self", "thread-self", "4711"])
THREADS = st.sampled_from(["", "/task/1", "/task/4711"])
ROOTS = st.sampled_from(["root", "cwd"])
NOISE = st.sampled_from(["", "/", "/.", "/..", "/../..", "/x/..", "/var/.."])
DETOURS = st.lists(st.builds("/proc/{}{}/{}{}".format, PROCESSES, THREADS, ROOTS, NOISE), max_size=4).map("".join)
PLACES = st.sampled_from(
    [
        ("/dev/nvidia0", "GA604"),
        ("/proc/driver/nvidia", "GA604"),
        ("/run/nvidia/driver", "GA604"),
        ("/proc/1/fd/3", "GA604"),
        ("/dev/vfio/1", "GA604"),
        ("/var/run/cdi", "GA605"),
        ("/var/lib/kubelet/device-plugins", "GA605"),
        ("/run/containerd/containerd.sock", "GA605"),
    ]
)


def pod(path, sub_path):
    mount = {"name": "node", "mountPath": "/x", **({"subPath": sub_path} if sub_path else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod"},
        "spec": {
            "containers": [{"name": "a", "volumeMounts": [mount]}],
            "volumes": [{"name": "node", "hostPath": {"path": path}}],
        },
    }


@given(detours=DETOURS, place=PLACES, data=st.data())
def test_every_way_through_processes_to_a_gpu_is_found(detours, place, data):
    target, rule = place
    steps = f"{detours}{target}".split("/")
    cut = data.draw(st.integers(1, len(steps)), label="steps in the volume's path")
    # The kubelet refuses a sub-path that goes up, and the API server a volume's path that does.
    if ".." in steps[cut:]:
        cut = len(steps)

    request = Request(pod("/".join(steps[:cut]) or "/", "/".join(steps[cut:])), namespace="team-a")
    assert [finding.rule.id for finding in validate(request, NOWHERE, DENY)] == [rule]
