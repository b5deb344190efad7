"""Mounts of GPUs, of their driver, and of the sockets that hand out GPUs."""

import pytest

from policies.rules.settings import Access, GPUAdmissionPolicy

ASK = "request nvidia.com/gpu: 1 in resources.limits, or remove the mount"
SOCKETS = "sockets by which the kubelet hands out devices"
CDI = "CDI specs, by which container runtimes inject GPUs"
GPU = {"limits": {"nvidia.com/gpu": 1}}
CLUSTER_POLICY = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  hostPaths: {driverInstallDir: /srv/driver/, kubeletRootDir: /data/kubelet}
  toolkit: {installDir: /srv/toolkit}
  devicePlugin: {mps: {root: /srv/mps}}"""


def pod(path, *, resources=None, mounted=True, **mount):
    mounts = [{"name": "node", "mountPath": "/x", **mount}] if mounted else []
    container = {"name": "a", "volumeMounts": mounts, "resources": resources or {}}
    return {"containers": [container], "volumes": [{"name": "node", "hostPath": {"path": path}}]}


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/dev/nvidia0", "the device nodes of its GPUs"),
        ("/dev/nvidiactl", "the device nodes of its GPUs"),
        ("/dev/nvidia-uvm", "the device nodes of its GPUs"),
        ("/dev/nvidia-caps/nvidia-cap1", "the device nodes of its GPUs"),
        ("/dev/nvidia-caps-imex-channels", "the device nodes of its GPUs"),
        ("/dev/char/195:0", "links to the device nodes of its GPUs"),
        ("/proc/driver/nvidia", "the interface of the driver of its GPUs"),
        ("/proc/driver/nvidia/gpus", "the interface of the driver of its GPUs"),
        ("/run/nvidia", "the driver of its GPUs, with their device nodes"),
        ("/run/nvidia/driver", "the driver of its GPUs, with their device nodes"),
        ("/run/nvidia/driver/dev/nvidia0", "the driver of its GPUs, with their device nodes"),
        ("/usr/local/nvidia/lib64", "NVIDIA's container toolkit or driver"),
        ("/home/kubernetes/bin/nvidia", "the driver of its GPUs"),
        ("/opt/nvidia", "the driver of its GPUs"),
    ],
)
def test_gpus_and_driver_without_a_request_are_reported(findings_of, path, what):
    assert findings_of(pod(path)) == [
        (
            f'GA604 deny spec.containers[0].volumeMounts[0]: container "a" requests no GPU and mounts {path} of the node: '
            f"{what}; {ASK}"
        )
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-caps",
        "/dev/nvidia0x",
        "/dev/char/195:255",
        "/dev/char/195:254",
        "/proc/driver/nvidia",
        "/run/nvidia/driver/dev/null",
        "/usr/local/nvidia/lib64",
        "/dev",
        "/",
    ],
)
def test_driver_beside_a_request_is_nothing(rules, path):
    assert rules(pod(path, resources=GPU)) == []


@pytest.mark.parametrize("mode", ["warn", "deny"])
@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/dev/nvidia0", "it may be another pod's GPU"),
        ("/dev/nvidia15", "it may be another pod's GPU"),
        ("/dev/char/195:0", "it may be another pod's GPU"),
        ("/run/nvidia/driver/dev/nvidia3", "it may be another pod's GPU"),
        ("/run/nvidia/driver/dev", "other pods' GPUs may be among its device nodes"),
        ("/run/nvidia/driver", "other pods' GPUs may be among its device nodes"),
        ("/run/nvidia", "other pods' GPUs may be among its device nodes"),
    ],
)
def test_particular_gpus_beside_a_request_are_warned_about_in_every_mode(findings_of, path, what, mode):
    settings = GPUAdmissionPolicy(access=Access(mode=mode))
    assert findings_of(pod(path, resources=GPU), settings=settings) == [
        (
            f'GA604 warn spec.containers[0].volumeMounts[0]: container "a" requests a GPU and mounts {path} of the node: '
            f"{what}; remove the mount: the GPU that it requests comes without one"
        )
    ]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/dev//nvidia0", "/dev/nvidia0"),
        ("/dev/../dev/nvidia0", "/dev/nvidia0"),
        ("/dev/./nvidia0/", "/dev/nvidia0"),
        ("//dev/nvidia0", "/dev/nvidia0"),
        ("dev/nvidia0", "/dev/nvidia0"),
        ("/var/run/nvidia/driver", "/run/nvidia/driver"),
        ("/proc/1/root/dev/nvidia0", "/dev/nvidia0"),
        ("/proc/self/root/proc/1/root/var/run/nvidia", "/run/nvidia"),
        ("/proc/self/cwd/dev/nvidia0", "/dev/nvidia0"),
        ("/proc/1/cwd/dev/nvidia0", "/dev/nvidia0"),
        ("/proc/1/task/1/cwd/dev/nvidia0", "/dev/nvidia0"),
        ("/proc/thread-self/cwd/proc/1/root/dev/nvidia0", "/dev/nvidia0"),
        ("/proc/self/cwd/../../dev/nvidia0", "/dev/nvidia0"),
    ],
)
def test_path_counts_as_the_node_resolves_it(found, path, shown):
    (finding,) = found(pod(path))
    assert f"mounts {shown} of the node" in finding.message


@pytest.mark.parametrize(
    ("path", "mount", "expected"),
    [
        ("/", {"subPath": "dev/nvidia0"}, ["GA604"]),
        ("/dev", {"subPath": "nvidia0"}, ["GA604"]),
        ("/dev", {"subPath": "null"}, []),
        ("/var/lib/kubelet", {"subPath": "device-plugins"}, ["GA605"]),
        ("/var/lib/kubelet", {"subPath": "pod-resources"}, []),
        ("/var", {"subPath": "run/cdi"}, ["GA605"]),
        ("/", {"subPathExpr": "dev/$(DEVICE)"}, ["GA604"]),
        ("/proc", {"subPath": "1/cwd/dev/nvidia0"}, ["GA604"]),
        ("/proc/self/cwd", {"subPath": "dev/nvidia0"}, ["GA604"]),
        ("/dev", {"subPathExpr": "$(UNKNOWN)"}, []),
        ("/dev/nvidia-caps", {"subPathExpr": "x-$(UNKNOWN)"}, ["GA604"]),
        ("/var/log/pods", {"subPathExpr": "$(POD_NAME)"}, []),
        ("/dev", {"subPath": None, "subPathExpr": ""}, []),
    ],
    ids=str,
)
def test_part_of_a_volume_counts(rules, path, mount, expected):
    spec = pod(path, **mount)
    spec["containers"][0]["env"] = [
        {"name": "DEVICE", "value": "nvidia0"},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    assert rules(spec) == expected


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/etc/cdi", CDI),
        ("/var/run/cdi", CDI),
        ("/run/cdi/nvidia.yaml", CDI),
        ("/run/nvidia/mps", "the pipes of the MPS daemons that share its GPUs"),
        ("/var/lib/kubelet/device-plugins", f"the {SOCKETS}"),
        ("/var/lib/kubelet/device-plugins/nvidia-gpu.sock", f"the {SOCKETS}"),
        ("/var/lib/kubelet/plugins/gpu.nvidia.com", "the socket and the state of NVIDIA's DRA driver"),
        ("/var/lib/kubelet/plugins/compute-domain.nvidia.com", "the socket and the state of NVIDIA's DRA driver"),
        ("/var/lib/k0s/kubelet/device-plugins", f"the {SOCKETS}"),
        ("/var/snap/microk8s/common/var/lib/kubelet/device-plugins", f"the {SOCKETS}"),
    ],
)
@pytest.mark.parametrize("resources", [None, GPU], ids=["without a request", "with a request"])
def test_what_gpus_are_handed_out_by_is_reported(findings_of, path, what, resources):
    shown = path.removeprefix("/var") if path.startswith("/var/run") else path
    assert findings_of(pod(path, resources=resources)) == [
        (
            f'GA605 deny spec.containers[0].volumeMounts[0]: container "a" mounts {shown} of the node: {what}; '
            f"remove the mount"
        )
    ]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/var/lib/kubelet", f"the kubelet's directory, and in it the {SOCKETS}"),
        ("/var/lib/kubelet/plugins", f"the directories of all plugins, and in them {SOCKETS}"),
        ("/var/lib/kubelet/plugins_registry", "the sockets by which plugins register with the kubelet"),
    ],
)
def test_what_csi_drivers_mount_is_audited(findings_of, path, what):
    assert findings_of(pod(path)) == [
        (
            f'GA605 audit spec.containers[0].volumeMounts[0]: container "a" mounts {path} of the node: {what}; '
            f"remove the mount"
        )
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/run/containerd/containerd.sock",
        "/var/run/containerd",
        "/run/k3s/containerd/containerd.sock",
        "/run/k0s/containerd.sock",
        "/var/snap/microk8s/common/run/containerd.sock",
        "/run/crio/crio.sock",
        "/run/docker.sock",
        "/run/docker/containerd/containerd.sock",
        "/run/cri-dockerd.sock",
        "/run/podman/podman.sock",
        "/run/nri/nri.sock",
    ],
)
@pytest.mark.parametrize("resources", [None, GPU], ids=["without a request", "with a request"])
def test_sockets_of_container_runtimes_are_audited(findings_of, path, resources):
    shown = path.removeprefix("/var") if path.startswith("/var/run") else path
    assert findings_of(pod(path, resources=resources)) == [
        (
            f'GA605 audit spec.containers[0].volumeMounts[0]: container "a" mounts {shown} of the node: the sockets of '
            f"its container runtime, which starts containers with any device; remove the mount"
        )
    ]


@pytest.mark.parametrize("path", ["/dev/vfio", "/dev/vfio/12", "/dev/vfio/devices/vfio0"])
@pytest.mark.parametrize("resources", [None, GPU], ids=["without a request", "with a request"])
def test_devices_of_virtual_machines_are_audited(findings_of, path, resources):
    assert findings_of(pod(path, resources=resources)) == [
        (
            f'GA604 audit spec.containers[0].volumeMounts[0]: container "a" mounts {path} of the node: the device '
            f"nodes of GPUs and other devices that it gives to virtual machines; remove the mount"
        )
    ]


OPEN_FILES = [
    "/proc/4711/fd",
    "/proc/4711/fd/3",
    "/proc/self/fd/3/nvidia0",
    "/proc/1/task/1/fd/3",
    "/proc/1/fd/3/../../../../x",
    "/proc/1/map_files/7f0-7f1",
    "/proc/1/exe",
    "/proc/1/cwd/proc/1/fd/3",
]


@pytest.mark.parametrize("path", [*OPEN_FILES, "/dev/fd/3", "/dev/stdin"])
def test_files_that_a_process_has_open_count_as_gpus(found, path):
    (finding,) = found(pod(path))
    assert (finding.rule.id, str(finding.severity)) == ("GA604", "deny")
    assert finding.message.endswith("of the node: a link to a file of a process, which may be the device node of a GPU")


@pytest.mark.parametrize("path", OPEN_FILES)
def test_files_that_a_process_has_open_may_be_other_gpus(findings_of, path):
    (text,) = findings_of(pod(path, resources=GPU))
    assert text.startswith("GA604 warn ")
    assert "it may be another pod's GPU" in text


@pytest.mark.parametrize(
    ("read_only", "expected"), [(True, []), (False, ["GA605"]), (None, ["GA605"]), ("true", ["GA605"])]
)
def test_cdi_specs_may_be_read(rules, read_only, expected):
    assert rules(pod("/etc/cdi", readOnly=read_only)) == expected


def test_socket_is_reported_though_its_folder_is_mounted_read_only(rules):
    assert rules(pod("/var/lib/kubelet/device-plugins", readOnly=True)) == ["GA605"]


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/kubelet/pod-resources",
        "/var/lib/kubelet/pods",
        "/var/lib/kubelet/plugins/ebs.csi.aws.com",
        "/var/lib/kubelet/plugins/kubernetes.io/csi",
        "/var/lib/kubelet-data",
        "/etc/cdi.d",
        "/run/nvidia/validations",
        "/opt/nvidia-tools",
        "/dev/nvme0n1",
        "/dev/char/10:200",
        "/dev/dri",
        "/proc/driver",
        "/proc/1",
        "/proc/1/ns/net",
        "/proc/self/fdinfo",
        "/proc/self/cwd",
        "/run/containerd-x",
        "/run/docker.pid",
        "/dev/vfiox",
        "/dev",
        "/",
        "/run",
        "/var/run",
        "/var/lib",
        "",
    ],
)
def test_another_path_alone_is_nothing(rules, path):
    assert rules(pod(path)) == []


def test_volume_without_a_mount_is_ignored(rules):
    assert rules(pod("/dev/nvidia0", mounted=False)) == []


def test_mount_of_another_volume_is_nothing(rules):
    assert rules(pod("/dev/nvidia0", name="other")) == []


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/srv/driver", "GA604"),
        ("/srv/toolkit/bin", "GA604"),
        ("/data/kubelet/device-plugins", "GA605"),
        ("/var/lib/kubelet/device-plugins", "GA605"),
        ("/srv/mps", "GA605"),
    ],
)
def test_places_that_the_cluster_policy_moves_are_known(rules, path, rule):
    assert rules(pod(path), cluster=CLUSTER_POLICY) == [rule]


@pytest.mark.parametrize("root", ["/", "", "//", 1, None])
def test_driver_at_the_root_of_the_node_is_no_place(rules, root):
    policy = f"""
    {{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {{name: c}},
     spec: {{hostPaths: {{driverInstallDir: {root!r}}}}}}}""".replace("None", "null")
    assert rules(pod("/srv/driver"), cluster=policy) == []
    assert rules(pod("/"), cluster=policy) == []


@pytest.mark.parametrize(
    "volume", ["nothing", {"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "a"}}], ids=str
)
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/var/run/nvidia-container-devices/all", ["GA606"]),
        ("/var/run/nvidia-container-devices/cdi/nvidia.com/gpu/0", ["GA606"]),
        ("/var/run//nvidia-container-devices/0/", ["GA606"]),
        ("/var/run/nvidia-container-devicesall", ["GA606"]),
        ("/run/nvidia-container-devices/GPU-1", ["GA606"]),
        ("/var/run/nvidia-container-devices", []),
        ("/x/nvidia-container-devices/all", []),
        (None, []),
    ],
)
def test_device_list_by_mounts_is_reported(rules, volume, target, expected):
    volume = {"hostPath": {"path": "/dev/null"}} if volume == "nothing" else volume
    container = {"name": "a", "volumeMounts": [{"name": "n", "mountPath": target}]}
    assert rules({"containers": [container], "volumes": [{"name": "n", **volume}]}) == expected


def test_device_list_by_mounts_reads_well(findings_of):
    mounts = [{"name": "n", "mountPath": "/var/run/nvidia-container-devices/all"}]
    assert findings_of({"containers": [{"name": "a", "resources": GPU, "volumeMounts": mounts}]}) == [
        (
            'GA606 deny spec.containers[0].volumeMounts[0].mountPath: container "a" mounts something at '
            "/var/run/nvidia-container-devices/all: where NVIDIA's container runtime accepts device lists as volume "
            f"mounts, it gives the container what the path names; {ASK}"
        )
    ]
