"""Places on a node of GPUs, their driver, and the software that hands them out; paths that pods mount."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.names import printable
from policies.kubernetes.objects import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.view import ClusterView


_LONGEST = 120
"""Characters of a path in messages."""

_PROCESS = "/proc/(?:[0-9]+|self|thread-self)(?:/task/[0-9]+)?"
_ROOT_OF_PROCESS = re.compile(f"{_PROCESS}/(?:root|cwd)")
_OPEN_FILE = re.compile(f"{_PROCESS}/(?:exe|(?:fd|map_files)/[^/]+)")
_OPEN_FILES = re.compile(rf"{_PROCESS}/(?:exe|fd|map_files)(?:/|\Z)")
PROCESS_ROOTS = f"(?:{_ROOT_OF_PROCESS.pattern})*"
"""The steps that lead to the root of the node, in the syntax of RE2 as well."""
_MOST_STEPS = 6
"""Steps of the longest path that these match, `/proc/1/task/1/fd/0`."""

_LINKS = {
    ("var", "run"): ("run",),
    ("dev", "fd"): ("proc", "self", "fd"),
    ("dev", "stdin"): ("proc", "self", "fd", "0"),
    ("dev", "stdout"): ("proc", "self", "fd", "1"),
    ("dev", "stderr"): ("proc", "self", "fd", "2"),
}
"""Links that every node has.

Sources: file-hierarchy(7) of systemd (`/var/run`); udev and Linux Documentation/admin-guide/devices.txt, "Recommended
links" (`/dev/fd` and the standard streams).
"""


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the node in a container."""

    path: FieldPath
    """Of the entry of `volumeMounts`."""
    source: str
    """The mounted path of the node: the volume's path with its sub-path, normalised."""
    read_only: bool

    @property
    def text(self) -> str:
        """The path on the node, for messages."""
        return shown_path(self.source)


def normalised_path(path: str) -> str:
    """The canonical form of a path such as `/dev//x/../nvidia0`, `/var/run/cdi/` or `/proc/1/root/dev`.

    Steps are resolved in order, as the kernel does: `..` after a link is the parent of its target.
    A path without a leading slash starts at the root, where container runtimes run.

    The root and the working directory of a process count as the root of the node. They are for PID 1, the kubelet and
    container runtimes, which systemd starts in `/`. Where another process works is unknown.

    Source: systemd.exec(5) WorkingDirectory; proc_pid_root(5), proc_pid_cwd(5).
    """
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            # Which folder an open file lies in is as unknown as the file.
            if not _match(_OPEN_FILE, steps):
                del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
            if _match(_ROOT_OF_PROCESS, steps):
                steps.clear()
            elif len(steps) == 2:
                steps = list(_LINKS.get((steps[0], steps[1]), steps))
    return "/" + "/".join(steps)


def leads_to_open_file(path: str) -> bool:
    """True if a path leads through files that a process has open or mapped, which can be any file."""
    return _OPEN_FILES.match(path) is not None


def _match(pattern: re.Pattern[str], steps: list[str]) -> bool:
    return len(steps) <= _MOST_STEPS and pattern.fullmatch("/" + "/".join(steps)) is not None


def shown_path(path: str) -> str:
    """A path for messages: on one line, shortened if it is long."""
    text = printable(path)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def is_within(path: str, folder: str) -> bool:
    """True if a normalised path is the folder or below it."""
    return path == folder or path.startswith(f"{folder}/")


def ancestors(path: str) -> tuple[str, ...]:
    """The folders above a normalised path, `/` first."""
    steps = path.split("/")
    return ("/", *("/".join(steps[:count]) for count in range(2, len(steps))))


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
    for policy in view.known_objects("ClusterPolicy"):
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


def paths_expression(places: Iterable[NodePlace]) -> str:
    """A regular expression of RE2 for the paths of places, without empty steps, `.` and `..`.

    It follows the links that `normalised_path` follows.
    """
    ends = {"below": "(?:/|$)", "begin": "", "alone": "$"}
    parts = (
        ("(?:/var)?" if is_within(each.path, "/run") else "") + re.escape(each.path) + ends[each.reach]
        for each in places
    )
    return f"^{PROCESS_ROOTS}(?:{'|'.join(parts)})"


def paths_of_open_files() -> str:
    """The same for `leads_to_open_file`."""
    return f"^{PROCESS_ROOTS}(?:{_PROCESS}/(?:exe|fd|map_files)|/dev/(?:fd|stdin|stdout|stderr))(?:/|$)"


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
