"""Places on a node of GPUs, their driver, and the software that hands them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.access.host_paths import ancestors, is_within, normalised_path
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.view import ClusterView

__all__ = ["OPEN_FILES", "NodePlace", "NodePlaces", "node_places"]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A place on a node."""

    path: str
    what: str
    """A description for messages."""
    reach: str = "below"
    """Its paths: those `below` it, those that `begin` with it, or it `alone`."""
    harmless_read_only: bool = False
    """True if a read-only mount of it gives nothing."""
    common: bool = False
    """True if much software that does not use GPUs mounts it."""
    holds_device_nodes: bool = False
    """True if one of its folders has the device nodes of all GPUs."""

    def covers(self, path: str) -> bool:
        """True if a normalised path belongs to the place."""
        if self.reach == "begin":
            return path.startswith(self.path)
        return path == self.path or (self.reach == "below" and is_within(path, self.path))


@dataclass(frozen=True, slots=True)
class NodePlaces:
    """The places of the nodes of a cluster."""

    gpus: tuple[NodePlace, ...]
    """Places that give a container GPUs or their driver."""
    distribution: tuple[NodePlace, ...]
    """Places through which GPUs are handed out."""
    parents: Mapping[str, NodePlace]
    """The folders above these places, each with one of the places in it."""


_GPUS = (
    NodePlace("/dev/nvidia", "the device nodes of its GPUs", reach="begin"),
    NodePlace("/dev/char/195:", "links to the device nodes of its GPUs", reach="begin"),
    NodePlace("/proc/driver/nvidia", "the interface of the driver of its GPUs", reach="begin"),
    NodePlace("/run/nvidia", "the driver of its GPUs, with their device nodes", reach="alone", holds_device_nodes=True),
    NodePlace("/run/nvidia/driver", "the driver of its GPUs, with their device nodes", holds_device_nodes=True),
    NodePlace("/usr/local/nvidia", "NVIDIA's container toolkit or driver"),
    NodePlace("/home/kubernetes/bin/nvidia", "the driver of its GPUs"),
    NodePlace("/opt/nvidia", "the driver of its GPUs"),
    NodePlace("/dev/vfio", "the device nodes of GPUs and other devices that it gives to virtual machines", common=True),
)
"""Sources: gpu-operator controllers/object_controls.go (DefaultDriverInstallDir, DefaultToolkitInstallDir) and assets;
dra-driver-nvidia-gpu demo/clusters/gke (`/opt/nvidia`); GKE's driver installer (`/home/kubernetes/bin/nvidia`); Linux
Documentation/admin-guide/devices.txt (195 is the character device of NVIDIA's driver) and driver-api/vfio.rst."""

OPEN_FILES = NodePlace("/proc", "a link to a file of a process, which may be the device node of a GPU")
"""The place of paths through `/proc/<pid>/fd` and similar links, whose targets only the process knows."""

_CDI = "CDI specs, by which container runtimes inject GPUs"
_MPS = "the pipes of the MPS daemons that share its GPUs"
_RUNTIME = "the sockets of its container runtime, which starts containers with any device"
_DISTRIBUTION = (
    NodePlace("/etc/cdi", _CDI, harmless_read_only=True),
    NodePlace("/run/cdi", _CDI, harmless_read_only=True),
    NodePlace("/run/nvidia/mps", _MPS),
    *(
        NodePlace(path, _RUNTIME, common=True)
        for path in (
            "/run/containerd",
            "/run/k3s/containerd",
            "/run/k0s/containerd.sock",
            "/var/snap/microk8s/common/run/containerd.sock",
            "/run/crio",
            "/run/docker.sock",
            "/run/docker",
            "/run/cri-dockerd.sock",
            "/run/podman",
            "/run/nri",
        )
    ),
)
"""Sources: tags.cncf.io/container-device-interface pkg/cdi/spec-dirs.go; gpu-operator DefaultMPSRoot; for container
runtimes kubeadm app/constants (CRISocketContainerd, CRISocketCRIO, CRISocketDocker), and the documentation of K3s, k0s,
MicroK8s, Docker, Podman and containerd's NRI."""

_KUBELETS = ("/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet")
"""The directories of the kubelets of Kubernetes, k0s and MicroK8s."""


def node_places(view: ClusterView) -> NodePlaces:
    """The usual places, and those that the ClusterPolicy moves; called by `derive`."""
    gpus, distribution = list(_GPUS), list(_DISTRIBUTION)
    kubelets = list(_KUBELETS)
    policies = view.list("ClusterPolicy")
    for policy in () if policies is UNKNOWN else policies:
        if moved := _moved_path(policy, "hostPaths", "driverInstallDir"):
            gpus.append(NodePlace(moved, "the driver of its GPUs", holds_device_nodes=True))
        if moved := _moved_path(policy, "toolkit", "installDir"):
            gpus.append(NodePlace(moved, "NVIDIA's container toolkit"))
        if moved := _moved_path(policy, "hostPaths", "kubeletRootDir"):
            kubelets.append(moved)
        if moved := _moved_path(policy, "devicePlugin", "mps", "root"):
            distribution.append(NodePlace(moved, _MPS))
    distribution += (place for kubelet in dict.fromkeys(kubelets) for place in _of_kubelet(kubelet))
    places = (*gpus, *distribution)
    parents: dict[str, NodePlace] = {}
    for place in places:
        for parent in ancestors(place.path):
            if not any(other.covers(parent) for other in places):
                parents.setdefault(parent, place)
    return NodePlaces(tuple(gpus), tuple(distribution), parents)


def _moved_path(policy: object, *steps: str) -> str:
    value = lookup(policy, ("spec", *steps))
    path = normalised_path(value) if isinstance(value, str) and value else "/"
    return "" if path == "/" else path


def _of_kubelet(root: str) -> tuple[NodePlace, ...]:
    """The places in a kubelet's directory.

    Sources: k8s.io/kubelet pkg/apis/deviceplugin/v1beta1/constants.go; dra-driver-nvidia-gpu cmd/*/main.go.
    """
    sockets = "sockets by which the kubelet hands out devices"
    return (
        NodePlace(root, f"the kubelet's directory, and in it the {sockets}", reach="alone", common=True),
        NodePlace(f"{root}/device-plugins", f"the {sockets}"),
        NodePlace(
            f"{root}/plugins", f"the directories of all plugins, and in them {sockets}", reach="alone", common=True
        ),
        NodePlace(f"{root}/plugins/gpu.nvidia.com", "the socket and the state of NVIDIA's DRA driver"),
        NodePlace(f"{root}/plugins/compute-domain.nvidia.com", "the socket and the state of NVIDIA's DRA driver"),
        NodePlace(f"{root}/plugins_registry", "the sockets by which plugins register with the kubelet", common=True),
    )
