"""Random pods, claims, classes and namespaces that try to get a GPU.

What docs/access.md lists as invisible to a webhook is left out: variables of `envFrom`, PersistentVolumes, and what
privileged containers do by themselves. PodGroups have a model of their own in test_pod_groups.py.
"""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = [
    "ANNOTATIONS",
    "CLAIMS",
    "CLASSES",
    "EPHEMERAL",
    "IMAGES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SLICES",
    "TEMPLATES",
    "UNSCHEDULED_PODS",
]

PRODUCT = {"string": "NVIDIA H100 80GB HBM3"}
_GPU = 'device.driver == "gpu.nvidia.com"'
_TYPE = 'device.attributes["gpu.nvidia.com"].type'
_NIC = 'device.driver == "nic.example.com"'

_CLASSES = {
    "gpu.nvidia.com": ([f'{_GPU} && {_TYPE} == "gpu"'], "nvidia.com/gpu"),
    "mig.nvidia.com": ([f'{_GPU} && {_TYPE} == "mig"'], None),
    "vfio.gpu.nvidia.com": ([f'{_GPU} && {_TYPE} == "vfio"'], None),
    "compute-domain-default-channel.nvidia.com": (['device.driver == "compute-domain.nvidia.com"'], None),
    "fast": ([_GPU], "acme.com/accelerator"),
    "everything": ([], "acme.com/device"),
    "loose": (["true"], None),
    "not-nic": ([f"!({_NIC})"], None),
    "ends": (['device.driver.endsWith("nvidia.com")'], None),
    "listed": ([f'has(device.attributes["gpu.nvidia.com"].type) && {_TYPE} in ["gpu", "mig"]'], None),
    "a.compute-domain.nvidia.com": ([_GPU], None),
    "nic": ([_NIC], "example.com/nic"),
    "nic.gpu.nvidia.com": ([_NIC], None),
}


def _device_class(name, selectors, resource):
    spec = {"selectors": [{"cel": {"expression": text}} for text in selectors]} if selectors else {}
    if resource:
        spec["extendedResourceName"] = resource
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "creationTimestamp": "2026-07-06T13:00:57Z"},
        "spec": spec,
    }


_RESOURCES_OF_CLASSES = (None, "nvidia.com/gpu", "acme.com/accelerator", "example.com/nic")


def _classes(resources):
    """The classes, of which some stand for other extended resources, or for one that another class stands for too."""
    return tuple(
        _device_class(name, selectors, resources.get(name, resource))
        for name, (selectors, resource) in _CLASSES.items()
    )


CLASSES = st.dictionaries(st.sampled_from(sorted(_CLASSES)), st.sampled_from(_RESOURCES_OF_CLASSES), max_size=3).map(
    _classes
)


def _gpu(name, kind, **attributes):
    return {
        "name": name,
        "attributes": {
            "type": {"string": kind},
            "productName": PRODUCT,
            "uuid": {"string": f"GPU-{name}"},
            **attributes,
        },
        "capacity": {"memory": {"value": "81559Mi" if kind != "mig" else "9984Mi"}},
    }


def _slice(driver, node, devices):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


_OTHERS = [{"name": f"nic-{number}", "attributes": {"type": {"string": "nic"}}} for number in range(3)]
SLICES = (
    _slice(
        "gpu.nvidia.com",
        "node-1",
        [
            _gpu("gpu-0", "gpu"),
            _gpu("gpu-1", "gpu"),
            _gpu("gpu-2-mig-1g10gb-19-0", "mig", profile={"string": "1g.10gb"}, parentUUID={"string": "GPU-2"}),
            _gpu("gpu-vfio-3", "vfio"),
        ],
    ),
    _slice("nic.example.com", "node-1", _OTHERS),
    _slice("nic.example.com", "node-2", _OTHERS),
    _slice(
        "compute-domain.nvidia.com", "node-1", [{"name": "channel-0", "attributes": {"type": {"string": "channel"}}}]
    ),
)
NODES = tuple(
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"nodeInfo": {"containerRuntimeVersion": "cri-o://1.34.1"}, "allocatable": {"cpu": "8", **plugin}},
    }
    for name, labels, plugin in (
        (
            "node-1",
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2"},
            {"nvidia.com/gpu": "2"},
        ),
        ("node-2", {}, {}),
    )
)

POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"cdi": {"enabled": True, "nriPluginEnabled": True}},
}
"""Both plugins of NVIDIA's that follow annotations run: the one for NRI, and under CRI-O the container runtime."""

NAMESPACES = st.fixed_dictionaries(
    {},
    optional={
        "gpu-admission.io/dra": st.sampled_from(["enabled", "preview", "disabled", "x"]),
        "gpu-admission.io/dra-strategy": st.sampled_from(["template", "rename", "leave", "auto", "x"]),
        "gpu-admission.io/quota": st.sampled_from(["enforced", "x"]),
        "resource.kubernetes.io/admin-access": st.just("true"),
    },
).map(lambda labels: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}})

_EXPRESSIONS = st.sampled_from(
    [
        "true",
        _GPU,
        _NIC,
        f"{_NIC} || true",
        f'{_TYPE} == "gpu"',
        f"!({_NIC})",
        'device.driver.startsWith("gpu")',
        '"type" in device.attributes["gpu.nvidia.com"]',
        f'{_NIC} ? true : {_TYPE} != "vfio"',
    ]
)
_SELECTORS = st.lists(_EXPRESSIONS, max_size=2).map(lambda texts: [{"cel": {"expression": text}} for text in texts])
_WANTED = st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from([*_CLASSES, "missing"])},
    optional={
        "selectors": _SELECTORS,
        "count": st.integers(1, 2),
        "adminAccess": st.just(True),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
) | st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from([*_CLASSES]), "allocationMode": st.just("All")},
    optional={"selectors": _SELECTORS},
)


def _defaulted(wanted):
    """As the API server stores it."""
    mode = wanted.get("allocationMode", "ExactCount")
    return {**wanted, "allocationMode": mode, **({"count": wanted.get("count", 1)} if mode == "ExactCount" else {})}


def _subrequests(several):
    return {
        "firstAvailable": [
            {"name": f"s{number}", **{key: value for key, value in _defaulted(each).items() if key != "adminAccess"}}
            for number, each in enumerate(several)
        ]
    }


_REQUESTS = st.lists(
    st.one_of(
        _WANTED.map(lambda wanted: {"exactly": _defaulted(wanted)}),
        st.lists(_WANTED, min_size=1, max_size=3).map(_subrequests),
    ),
    min_size=1,
    max_size=2,
).map(lambda requests: [{"name": f"r{number}", **each} for number, each in enumerate(requests)])
_SPECS = _REQUESTS.map(lambda requests: {"devices": {"requests": requests}})


def _claim(name, spec):
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def _template(name, spec):
    metadata = {"name": name, "namespace": "team-a"}
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata}
    return {**document, "spec": {"spec": spec}}


CLAIMS = st.lists(_SPECS, max_size=2).map(
    lambda specs: [_claim(f"claim-{number}", spec) for number, spec in enumerate(specs)]
)
TEMPLATES = st.lists(_SPECS, max_size=2).map(
    lambda specs: [_template(f"template-{number}", spec) for number, spec in enumerate(specs)]
)

_RESOURCES = st.dictionaries(
    st.sampled_from(
        [
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.10gb",
            "acme.com/accelerator",
            "acme.com/device",
            "example.com/nic",
            "example.com/other",
            *(f"deviceclass.resource.kubernetes.io/{name}" for name in (*_CLASSES, "missing")),
        ]
    ),
    st.sampled_from(["0", "1", "1", "2", "1000m"]),
    max_size=2,
)
_RESOURCES_OF_SCHEDULERS = st.sampled_from(
    ["acme.com/accelerator", "acme.com/device", *(f"deviceclass.resource.kubernetes.io/{name}" for name in _CLASSES)]
).map(lambda name: {name: "1"})
"""One resource for which a scheduler makes the claim."""
_REFERENCES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["pod-claim-0", "pod-claim-1"])}, optional={"request": st.sampled_from(["r0", "r1"])}
    ),
    max_size=2,
    unique_by=lambda reference: reference["name"],
)
_VALUES = st.sampled_from(["all", "0", "GPU-1", "none", "void", "", "$(A)", "$$(A)", "$(A)$(B)", "al$(L)", "0,1"])
_ENV = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": st.just("NVIDIA_VISIBLE_DEVICES"), "value": _VALUES}),
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["A", "B", "L", "D", "E"]),
                "value": st.sampled_from(["all", "none", "l", "", "dev", "e"]),
            }
        ),
        st.just({"name": "CUDA_VERSION", "value": "12.4"}),
        st.just({"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=12"}),
        st.sampled_from(
            [
                {"fieldRef": {"fieldPath": "metadata.annotations['devices']"}},
                {"configMapKeyRef": {"name": "all", "key": "devices"}},
                {"secretKeyRef": {"name": "all", "key": "devices", "optional": True}},
                {"fileKeyRef": {"volumeName": "files", "path": "env", "key": "devices"}},
                {"resourceFieldRef": {"resource": "limits.cpu"}},
            ]
        ).flatmap(
            lambda source: st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "A"]).map(
                lambda name: {"name": name, "valueFrom": source}
            )
        ),
    ),
    max_size=3,
)
_DETOURS = st.lists(
    st.sampled_from(["/proc/1/root", "/proc/self/cwd", "/proc/thread-self/root", "/proc/1/task/1/cwd", "/", "/."]),
    max_size=3,
).map("".join)
_TARGETS = st.sampled_from(
    [
        "/dev/nvidia0",
        "/dev/char/195:0",
        "/proc/1/fd/3",
        "/proc/self/task/1/fd/3",
        "/dev/fd/3",
        "/run/nvidia/driver/dev",
        "/var/run/nvidia/driver",
        "/var/lib",
        "/dev/null",
        "/",
    ]
)


_PLACES = st.sampled_from(
    [
        "/x",
        "/x",
        "/var/run/nvidia-container-devices/all",
        "/var/run/nvidia-container-devices/cdi/nvidia.com/gpu/all",
        "/var/run//nvidia-container-devices/../nvidia-container-devices/0",
        "/run/nvidia-container-devices/all",
    ]
)
_OTHER_VOLUMES = st.sampled_from(
    [
        {"emptyDir": {}},
        {"projected": {"sources": [{"downwardAPI": {"items": []}}]}},
        {"downwardAPI": {"items": []}},
        {"configMap": {"name": "any"}},
        {"image": {"reference": "train:1"}},
        {"persistentVolumeClaim": {"claimName": "disk"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ]
)


@st.composite
def _of_node(draw):
    """One volume of the node, and a mount of it."""
    steps = f"{draw(_DETOURS)}{draw(_TARGETS)}".split("/")
    cut = draw(st.integers(1, len(steps)))
    mount = {"name": "node", "mountPath": draw(_PLACES)}
    part = "/".join(steps[cut:]).strip("/")
    if part:
        # The variables may have these values, or others.
        hidden = draw(st.sampled_from([None, None, "dev", "$(D)", "d$(E)v"]))
        mount |= {"subPath": part} if hidden is None else {"subPathExpr": part.replace("dev", hidden)}
    return [{"name": "node", "hostPath": {"path": "/".join(steps[:cut]) or "/"}}], [mount]


@st.composite
def _of_others(draw):
    """A volume that is not the node's, and a mount of it."""
    return [{"name": "other", **draw(_OTHER_VOLUMES)}], [{"name": "other", "mountPath": draw(_PLACES)}]


_VOLUMES = st.just(([], [])) | _of_node() | _of_others()
ANNOTATIONS = st.sampled_from(
    [
        {},
        {},
        {"devices": "all"},
        {"devices": "none"},
        {"nvidia.cdi.k8s.io/container.c0": "nvidia.com/gpu=all"},
        {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=0"},
        {"nvidia.cdi.k8s.io": "nvidia.com/gpu=0"},
        {"cdi.k8s.io/any": "nvidia.com/gpu=all"},
        {"cdi.k8s.io/any": "example.com/nic=0,runtime.nvidia.com/gpu=0"},
        {"cdi.k8s.io/nic": "example.com/nic=0"},
    ]
)
IMAGES = st.sampled_from(["train:1", "train:1", "busybox", "nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04"])
"""`train` is built from an image of NVIDIA's, as the last one is; both set NVIDIA_VISIBLE_DEVICES to all."""
_SECURITY = st.sampled_from(
    [{}, {}, {"securityContext": {"privileged": True}}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]
)


_BY_DEFAULT, _BY_OTHER = {"schedulerName": "default-scheduler"}, {"schedulerName": "other"}
_WITH_NODE = tuple({**_BY_DEFAULT, "nodeName": name} for name in ("node-1", "node-2", "nowhere"))
_WAYS = st.sampled_from([*[_BY_DEFAULT] * 6, _BY_OTHER, *_WITH_NODE])
"""The ways of a pod to its node."""


def _container(name, resources, references, env, mounts):
    container = {"name": name, "env": env, "volumeMounts": mounts, "resources": {}}
    if resources:
        # The API server copies limits to requests.
        container["resources"] |= {"limits": resources, "requests": dict(resources)}
    if references:
        container["resources"]["claims"] = references
    return container


@st.composite
def _pods(draw, resources=_RESOURCES, ways=_WAYS):
    listed = [
        {"name": f"pod-claim-{number}", field: name}
        for number, (field, name) in enumerate(
            draw(
                st.lists(
                    st.sampled_from(
                        [("resourceClaimName", f"claim-{number}") for number in range(2)]
                        + [("resourceClaimTemplateName", f"template-{number}") for number in range(2)]
                    ),
                    max_size=2,
                )
            )
        )
    ]
    known = {claim["name"] for claim in listed}
    volumes, mounts = draw(_VOLUMES)

    def container(name):
        references = [each for each in draw(_REFERENCES) if each["name"] in known]
        mounted = mounts if draw(st.booleans()) else []
        made = _container(name, draw(resources), references, draw(_ENV), mounted)
        if name.startswith("i") and draw(st.booleans()):
            made["restartPolicy"] = "Always"
        return {**made, "image": draw(IMAGES), **draw(_SECURITY)}

    metadata = {
        "name": "train",
        "namespace": "team-a",
        "uid": "uid-of-the-pod",
        "annotations": draw(ANNOTATIONS),
        "labels": draw(st.sampled_from([{}, {}, {"gpu-admission.io/dra": "disabled"}])),
    }
    spec = {
        "containers": [container(f"c{number}") for number in range(draw(st.integers(1, 2)))],
        "initContainers": [container(f"i{number}") for number in range(draw(st.integers(0, 2)))],
        "volumes": volumes,
        "resourceClaims": listed,
        "restartPolicy": "Never",
        **draw(st.sampled_from([{}, {}, {"runtimeClassName": "nvidia"}, {"hostPID": True}])),
        **draw(ways),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


PODS = _pods()
UNSCHEDULED_PODS = _pods(_RESOURCES_OF_SCHEDULERS, st.sampled_from([*_WITH_NODE[:2], _BY_OTHER]))
"""Pods whose containers all start without the devices that they request."""


@st.composite
def _ephemeral(draw):
    volumes, mounts = draw(_VOLUMES)
    debug = {"name": "debug", "image": "busybox", "env": draw(_ENV), "volumeMounts": mounts}
    before = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train",
            "namespace": "team-a",
            "uid": "uid-of-the-pod",
            "annotations": draw(st.sampled_from([{}, {"devices": "all"}])),
        },
        "spec": {"containers": [{"name": "c0", "image": "train:1"}], "volumes": volumes},
    }
    return before, {**before, "spec": {**before["spec"], "ephemeralContainers": [debug]}}


EPHEMERAL = _ephemeral()
