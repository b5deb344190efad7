"""What a pod gets on a node, modelled without our rules: kubelet, device plugin, container toolkit, mounts.

Of our code it uses the allocator only, which agrees with Kubernetes' own.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from policies.devices.allocation.reading import AllocationError
from tests.allocations import allocate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["Cluster", "gpus_behind_the_scheduler"]

_DRIVER = "gpu.nvidia.com"
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_PLUGIN = re.compile(r"nvidia\.com/(gpu|mig-.+?)(\.shared)?")
_AMOUNTS = {"0": 0, 0: 0, "1": 1, 1: 1, "2": 2, "1000m": 1, "1e0": 1}
_CUDA_IMAGES = ("train:1", "nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04")
_FEATURES = (
    "DRAPrioritizedList",
    "DRAAdminAccess",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAConsumableCapacity",
)


class Cluster:
    """The nodes, devices and classes that are really there when the pod starts."""

    def __init__(self, nodes: Iterable[Object], slices: Iterable[Object], classes: Iterable[Object]) -> None:
        self._nodes = list(nodes)
        self._slices = list(slices)
        self._classes = list(classes)

    def gpus_of_claim(self, spec: Object) -> int:
        """The most GPUs that a claim is given on any node."""
        claim = {"metadata": {"name": "claim", "namespace": "team-a", "uid": "claim"}, "spec": spec}
        most = 0
        for node in self._nodes:
            try:
                allocations = allocate(
                    claims=[claim], node=node, slices=self._slices, classes=self._classes, features=_FEATURES
                )
            except AllocationError:
                continue
            for allocation in allocations or ():
                results = allocation["devices"].get("results", [])
                most = max(most, sum(result["driver"] == _DRIVER for result in results))
        return most

    def gpus_of_resources(self, pod: Object) -> int:
        """The most GPUs that the pod's extended resources give: by the device plugin, or by classes that stand for them."""
        needed: dict[str, int] = {}
        together: dict[str, int] = {}
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            # Sidecars start in the order of the init containers and stay.
            stays = container in pod["spec"]["containers"] or container.get("restartPolicy") == "Always"
            for name, amount in _extended(container):
                if stays:
                    together[name] = together.get(name, 0) + amount
                needed[name] = max(needed.get(name, 0), together.get(name, 0) + (0 if stays else amount))
        names = {name for name in (*needed, *together) if self._is_allocated(name, pod)}
        return sum(self._gpus_of(name, max(needed.get(name, 0), together.get(name, 0))) for name in names)

    def can_start(self, pod: Object) -> bool:
        """True if the node that a pod names exists, or if it names none."""
        return pod["spec"].get("nodeName") in (None, *(each["metadata"]["name"] for each in self._nodes))

    def _is_allocated(self, name: str, pod: Object) -> bool:
        """True if a pod waits until it gets an extended resource; otherwise the kubelet starts it without.

        A pod that names its node passes no scheduler. The kubelet drops what its node does not have. The other scheduler
        knows device plugins, makes no claims, and ignores resources that no node has. The status of a pod names the
        resources for which its scheduler has made a claim.
        """
        made = pod.get("status", {}).get("extendedResourceClaimStatus", {}).get("requestMappings", ())
        if any(each["resourceName"] == name for each in made):
            return True
        if "nodeName" in pod["spec"]:
            found = (each for each in self._nodes if each["metadata"]["name"] == pod["spec"]["nodeName"])
            return any(name in each["status"]["allocatable"] for each in found)
        return pod["spec"]["schedulerName"] == "default-scheduler" or _PLUGIN.fullmatch(name) is not None

    def can_give_gpu(self, container: Object, pod: Object, claims: Mapping[str, Object]) -> bool:
        """True if a container is given a GPU on a node that has nothing else.

        Args:
            container: of the pod.
            pod: with the way that it takes to its node.
            claims: the specs of the pod's claims, by their names in the pod; what is missing can be anything.
        """
        alone = Cluster(
            self._nodes, [each for each in self._slices if each["spec"]["driver"] == _DRIVER], self._classes
        )
        extended = [(name, min(amount, 1)) for name, amount in _extended(container) if self._is_allocated(name, pod)]
        if any(alone._gpus_of(name, amount) for name, amount in extended):
            return True
        names = [each["name"] for each in container.get("resources", {}).get("claims") or ()]
        return any(name not in claims or alone._can_have_gpu(claims[name]) for name in names)

    def _can_have_gpu(self, spec: Object) -> bool:
        """True if some request of a claim alone is given a GPU, by whichever of its alternatives."""
        wanted = [
            each
            for request in spec["devices"]["requests"]
            for each in request.get("firstAvailable") or [request["exactly"]]
        ]
        one = {"allocationMode": "ExactCount", "count": 1}
        return any(
            self.gpus_of_claim({"devices": {"requests": [{"name": "r", "exactly": {**_without_name(each), **one}}]}})
            for each in wanted
        )

    def _gpus_of(self, name: str, amount: int) -> int:
        if not amount:
            return 0
        if _PLUGIN.fullmatch(name):
            return amount
        standing = [
            each["metadata"]["name"]
            for each in self._classes
            if name in (each["spec"].get("extendedResourceName"), _IMPLICIT + each["metadata"]["name"])
        ]
        wanted = ({"deviceClassName": each, "allocationMode": "ExactCount", "count": amount} for each in standing)
        specs = ({"devices": {"requests": [{"name": "r", "exactly": each}]}} for each in wanted)
        return max(map(self.gpus_of_claim, specs), default=0)


def _without_name(wanted: Object) -> Object:
    return {key: value for key, value in wanted.items() if key != "name"}


def gpus_behind_the_scheduler(container: Object, pod: Object, *, has_gpu: bool) -> Iterator[str]:
    """The ways in which a container reaches GPUs that no scheduler gave it, each as a sentence.

    Args:
        container: of the pod.
        pod: with the volumes.
        has_gpu: whether the container is given a GPU as well. The device plugin and NVIDIA's DRA driver then set
            NVIDIA_VISIBLE_DEVICES, unless the container does.
    """
    volumes = {each["name"]: each for each in pod["spec"].get("volumes") or ()}
    yield from _by_environment(container, pod, has_gpu=has_gpu)
    yield from _by_annotation(container, pod)
    for mount in container.get("volumeMounts") or ():
        yield from _by_mount(container, mount, volumes, _environment(container, pod))


def _extended(container: Object) -> Iterator[tuple[str, int]]:
    """The limits of extended resources, of which requests must be equal."""
    for name, amount in (container.get("resources", {}).get("limits") or {}).items():
        if "/" in name:
            yield name, _AMOUNTS[amount]


def _by_environment(container: Object, pod: Object, *, has_gpu: bool) -> Iterator[str]:
    variables = _environment(container, pod)
    devices = variables.get("NVIDIA_VISIBLE_DEVICES")
    if devices is None and pod["spec"].get("runtimeClassName") == "nvidia" and not has_gpu:
        if container["image"] in _CUDA_IMAGES:
            yield f"{container['name']}: {container['image']} sets NVIDIA_VISIBLE_DEVICES to all"
    elif devices is None:
        if "CUDA_VERSION" in variables and "NVIDIA_REQUIRE_CUDA" not in variables and not has_gpu:
            yield f"{container['name']}: CUDA_VERSION alone is an old image, which gets every GPU"
    elif devices not in ("", "void", "none"):
        yield f"{container['name']}: NVIDIA_VISIBLE_DEVICES={devices}"


def _environment(container: Object, pod: Object) -> dict[str, str]:
    """The variables as the kubelet computes them: later ones win, and see those before them."""
    found: dict[str, str] = {}
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        if source is not None:
            path = source.get("fieldRef", {}).get("fieldPath", "")
            key = path.partition("['")[2].partition("']")[0]
            # What ConfigMaps, Secrets and files hold is the author's choice as well.
            elsewhere = "8" if "resourceFieldRef" in source else "all"
            found[entry["name"]] = (pod["metadata"].get("annotations") or {}).get(key, "") if path else elsewhere
        else:
            text = entry.get("value") or ""
            found[entry["name"]] = re.sub(r"\$\$|\$\(([^)]*)\)", lambda match: _substituted(match, found), text)
    return found


def _substituted(match: re.Match[str], known: Mapping[str, str]) -> str:
    if match.group() == "$$":
        return "$"
    return known.get(match.group(1), match.group())


_DEVICES: dict[str, Any] = {
    "nvidia0": "device",
    "nvidiactl": "control",
    "char": {"195:0": ("/dev/nvidia0",)},
    "null": "",
}
_PROCESS: dict[str, Any] = {"root": ("/",), "cwd": ("/",), "fd": {"3": ("/dev/nvidia0",)}, "exe": ("/bin/true",)}
_PROCESS["task"] = {"1": {"root": ("/",), "cwd": ("/",), "fd": {"3": ("/dev/nvidia0",)}}}
_NODE: dict[str, Any] = {
    "dev": {**_DEVICES, "fd": ("/proc/self/fd",)},
    "proc": {"1": _PROCESS, "self": ("/proc/1",), "thread-self": ("/proc/1/task/1",)},
    "run": {"nvidia": {"driver": {"dev": _DEVICES}}},
    "var": {"run": ("/run",), "lib": {}},
    "bin": {"true": ""},
}
"""A node's files: a mapping is a folder, a tuple a link, a text a file."""
_NARROW = (_NODE["dev"]["char"], _NODE["run"]["nvidia"], _NODE["run"]["nvidia"]["driver"], _DEVICES)
"""Folders that hold little but GPUs. Those above are mounted for many reasons."""


def _by_annotation(container: Object, pod: Object) -> Iterator[str]:
    for key, value in (pod["metadata"].get("annotations") or {}).items():
        name = container["name"]
        followed = key.startswith("cdi.k8s.io/") or key in (
            "nvidia.cdi.k8s.io",
            "nvidia.cdi.k8s.io/pod",
            f"nvidia.cdi.k8s.io/container.{name}",
        )
        if followed and "nvidia.com/gpu=" in value:
            yield f"{name}: annotation {key}: {value}"


def _by_mount(
    container: Object, mount: Object, volumes: dict[str, Object], variables: Mapping[str, str]
) -> Iterator[str]:
    if posixpath.normpath(mount["mountPath"]).startswith("/var/run/nvidia-container-devices/"):
        yield f"{container['name']}: a device list at {mount['mountPath']}"
    source = volumes.get(mount["name"], {}).get("hostPath")
    if source is None:
        return
    expanded = re.sub(r"\$\(([^)]*)\)", lambda match: _substituted(match, variables), mount.get("subPathExpr") or "")
    path = f"{source['path']}/{mount.get('subPath') or expanded}"
    found = resolved(path)
    if found == "device" or any(found is folder for folder in _NARROW[1:]):
        yield f"{container['name']}: {path} of the node"


def resolved(path: str) -> Any:
    """What the kernel finds at a path of the node; None if nothing is there."""
    trail: list[Any] = [_NODE]
    steps = path.split("/")[::-1]
    for _ in range(200):
        if not steps:
            return trail[-1]
        step = steps.pop()
        here = trail[-1]
        if step == "..":
            trail = trail[:-1] or [_NODE]
        elif step in ("", "."):
            continue
        elif not isinstance(here, dict) or step not in here:
            return None
        elif isinstance(here[step], tuple):
            (target,) = here[step]
            trail = [_NODE]
            steps += target.split("/")[::-1]
        else:
            trail.append(here[step])
    return None
