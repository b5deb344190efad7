"""Seeded objects: generated pods, workloads and claims, and mutants of the material."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from testbed.differential.seeded_opt_in import NAMESPACES
from testbed.mutations import Mutator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


_CONVERTING = tuple(name for name in NAMESPACES if "enabled" in name)
_ODD_NAMESPACES = ("team-a", "team-preview", "team-legacy", "team-vision", "default", "kube-system", "gpu-operator")
_PRODUCTS = (
    *("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "Tesla-T4-SHARED", "NVIDIA-L40S", "NVIDIA-GB200"),
    *("H100*", "T4", "A100*,!*40GB*", "NVIDIA-H100-80GB-HMB3", "*"),
)
_RESOURCES = (
    *("nvidia.com/gpu",) * 6,
    *("nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb.shared"),
    *("nvidia.com/mig-9g.1gb", "nvidia.com/v1", "nvidia.com/gpumem", "nvidia.com/pgpu", "amd.com/gpu"),
)
_AMOUNTS: tuple[Any, ...] = (
    *(1,) * 8,
    *(2, 2, 4, 8, 16, 33, 0, -1),
    *("1", "2", "1000m", "0.5", "1Ki", "x", 1.5, None, [], "0"),
)
_EXPRESSIONS = (
    'device.driver == "gpu.nvidia.com"',
    'device.attributes["gpu.nvidia.com"].productName.contains("H100")',
    'has(device.attributes["gpu.nvidia.com"].profile) && device.attributes["gpu.nvidia.com"].profile == "1g.10gb"',
    'device.attributes["gpu.nvidia.com"].architecture == "Hopper"',
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.nvidia.com"].cudaComputeCapability.isGreaterThan(semver("8.6.0"))',
    'device.attributes["gpu.nvidia.com"].driverVersion >= "580"',
    'device.attributes["gpu.nvidia.com"].nothing == 1',
    'device.attributes["gpu.nvidia.com"]["uuid"].matches("GPU-.*[")',
    "device.allowMultipleAllocations",
    "true",
    "1 + 1",
    "device.driver ==",
    'device.driver.split(".").exists(x, x == "nvidia")',
    "[1, 2, 3].all(x, [1, 2, 3].all(y, [1, 2, 3].all(z, x + y + z > 0)))",
)
_WISHES = {
    "product": _PRODUCTS,
    "min-memory": ("40Gi", "80G", "10Gi", "1Ti", "x", "-1"),
    "max-memory": ("80Gi", "16Gi", "1"),
    "family": ("hopper", "ampere,hopper", "turing", "volta", "none"),
    "min-compute-capability": ("8.6", "9", "7.5", "12.0", "a"),
    "min-driver": ("580", "535.104", "999"),
    "min-cuda": ("12.4", "13", "14"),
    "sharing": ("exclusive", "shared", "any", "never"),
}
_PATHS = ("/dev/nvidia0", "/dev", "/", "/dev/nvidiactl", "/run/nvidia", "/usr/lib/nvidia", "/var/lib/kubelet", "/data")
_SIGNS = ("all", "none", "void", "", "0", "0,1", "GPU-8f6d", "MIG-1", "$(OTHER)", "ALL")
_WORKLOADS = (
    ("apps/v1", "Deployment", ("spec", "template"), ("spec", "replicas")),
    ("apps/v1", "StatefulSet", ("spec", "template"), ("spec", "replicas")),
    ("apps/v1", "DaemonSet", ("spec", "template"), ()),
    ("batch/v1", "Job", ("spec", "template"), ("spec", "parallelism")),
    (
        "batch/v1",
        "CronJob",
        ("spec", "jobTemplate", "spec", "template"),
        ("spec", "jobTemplate", "spec", "parallelism"),
    ),
    ("v1", "PodTemplate", ("template",), ()),
)


class SeededObjects:
    """Makes objects, all of them from one source of chance."""

    def __init__(self, random: Random, material: Sequence[dict[str, Any]], rules: Sequence[str]) -> None:
        self._random = random
        self._material = material
        self._by_kind: dict[str, list[dict[str, Any]]] = {}
        for each in material:
            self._by_kind.setdefault(each["kind"], []).append(each)
        self._rules = rules
        self._mutator = Mutator(random, material)
        self._made = 0

    def any_object(self, most_mutations: int = 4) -> dict[str, Any]:
        """An object that was generated or found, with a few mutations; it may be nonsense, but has a kind."""
        random = self._random
        generators = (
            self.pod,
            self.pod,
            self.pod,
            self.pod,
            self.workload,
            self.claim,
            self.template,
            self.device_class,
        )
        if random.random() < 0.55:
            made = random.choice(generators)()
        else:
            of_kind = self._by_kind[random.choice(list(self._by_kind))]
            made = json.loads(json.dumps(random.choice(random.choice([self._material, of_kind]))))
            self._rename(made)
        mutant = self._mutator.mutant(made, random.choice([0, 0, 0, 1, 1, 2, most_mutations]) if most_mutations else 0)
        if not isinstance(mutant, dict) or not isinstance(mutant.get("kind"), str):
            return made
        return mutant

    def former_object(self, given: dict[str, Any]) -> dict[str, Any]:
        """The object as it could have been before an update, with the same name."""
        before = self._mutator.mutant(given, self._random.choice([0, 1, 1, 3]))
        same: dict[str, Any] = {key: given[key] for key in ("apiVersion", "kind", "metadata") if key in given}
        return {**before, **same} if isinstance(before, dict) else given

    def pod(self) -> dict[str, Any]:
        """A pod of a kind that some rule is about."""
        random = self._random
        metadata: dict[str, Any] = {"name": self._name("pod"), "namespace": self.namespace()}
        spec: dict[str, Any] = {"containers": [self._container() for _ in range(random.choice([1, 1, 1, 2, 3]))]}
        annotations: dict[str, Any] = {}
        if random.random() < 0.25:
            spec["initContainers"] = [self._container() for _ in range(random.choice([1, 2]))]
            if random.random() < 0.5:
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if random.random() < 0.3:
            for key in random.sample(sorted(_WISHES), random.choice([1, 1, 2])):
                annotations[f"gpu-admission.io/{key}"] = random.choice(_WISHES[key])
        if random.random() < 0.1:
            annotations["cdi.k8s.io/gpu"] = random.choice(["nvidia.com/gpu=all", "nvidia.com/gpu=0", "vendor.com/x=1"])
        if random.random() < 0.1:
            waived = " because the GPUs arrive on Monday\n"
            annotations["gpu-admission.io/ignore"] = waived.join([*random.sample(list(self._rules), 3), ""])
        if annotations:
            metadata["annotations"] = annotations
        if random.random() < 0.12:
            metadata["labels"] = {"gpu-admission.io/dra": random.choice(["disabled", "enabled", ""]), "app": "x"}
        if random.random() < 0.15:
            spec["volumes"] = [{"name": "v", "hostPath": {"path": random.choice(_PATHS)}}]
            mounts = [{"name": "v", "mountPath": "/v", "readOnly": random.random() < 0.5}]
            spec["containers"][0]["volumeMounts"] = mounts
        if random.random() < 0.3:
            label = random.choice(["nvidia.com/gpu.product", "nvidia.com/gpu.family", "nvidia.com/gpu.count", "zone"])
            spec["nodeSelector"] = {label: random.choice([*_PRODUCTS, "hopper", "8"])}
        for chance, key, values in (
            (0.1, "runtimeClassName", ("nvidia", "nvidia-cdi", "kata")),
            (0.2, "schedulerName", ("default-scheduler", "kai-scheduler", "volcano", "")),
            (0.1, "nodeName", ("gpu-h100-01", "gpu-t4-01", "nowhere")),
            (0.1, "priorityClassName", ("batch", "system-node-critical")),
            (0.1, "hostPID", (True,)),
            (0.1, "serviceAccountName", ("default", "dcgm-exporter")),
            (0.1, "tolerations", ([{"key": "nvidia.com/gpu", "operator": "Exists"}], [{"operator": "Exists"}])),
            (0.05, "schedulingGroup", ({"podGroupName": "group"},)),
        ):
            if random.random() < chance:
                spec[key] = random.choice(values)
        if random.random() < 0.2:
            reference = random.choice(["resourceClaimName", "resourceClaimTemplateName"])
            spec["resourceClaims"] = [{"name": "gpu", reference: random.choice(["shared", "gpu", "gpu-template"])}]
            spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": random.choice(["gpu", "gpu", "x"])}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def workload(self) -> dict[str, Any]:
        """A workload with the pod template of such a pod."""
        random = self._random
        version, kind, template, count = random.choice(_WORKLOADS)
        pod = self.pod()
        labels = {"app": "x"}
        pod["metadata"].setdefault("labels", {}).update(labels)
        del pod["metadata"]["name"], pod["metadata"]["namespace"]
        made: dict[str, Any] = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": self._name("workload"), "namespace": self.namespace()},
        }
        _put(made, template, {"metadata": pod["metadata"], "spec": pod["spec"]})
        if count and random.random() < 0.6:
            _put(made, count, random.choice([0, 1, 2, 5, 40]))
        if version == "apps/v1":
            made["spec"]["selector"] = {"matchLabels": labels}
        return made

    def claim(self) -> dict[str, Any]:
        """A ResourceClaim."""
        metadata = {"name": self._random.choice(["shared", "gpu", self._name("claim")]), "namespace": self.namespace()}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": self._devices(),
        }

    def template(self) -> dict[str, Any]:
        """A ResourceClaimTemplate."""
        metadata = {
            "name": self._random.choice(["gpu-template", self._name("template")]),
            "namespace": self.namespace(),
        }
        spec = {"spec": self._devices()}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}

    def device_class(self) -> dict[str, Any]:
        """A DeviceClass."""
        random = self._random
        spec: dict[str, Any] = {"selectors": [self._selector() for _ in range(random.choice([0, 1, 2]))]}
        if random.random() < 0.3:
            spec["extendedResourceName"] = random.choice(["nvidia.com/gpu", "example.com/gpu"])
        metadata = {"name": random.choice(["gpu.nvidia.com", "mig.nvidia.com", self._name("class")])}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}

    def namespace(self) -> str:
        """The name of a namespace."""
        return self._random.choice([*NAMESPACES, *_CONVERTING * 4, *_ODD_NAMESPACES])

    def _name(self, stem: str) -> str:
        self._made += 1
        return f"{stem}-{self._made}"

    def _rename(self, found: dict[str, Any]) -> None:
        """Move most of the found objects into one of our namespaces."""
        metadata = found.get("metadata")
        if isinstance(metadata, dict) and "namespace" in metadata and self._random.random() < 0.7:
            metadata["namespace"] = self.namespace()

    def _container(self) -> dict[str, Any]:
        random = self._random
        self._made += 1
        container: dict[str, Any] = {"name": f"c{self._made}", "image": "registry.example/train:1"}
        if random.random() < 0.75:
            amounts: dict[str, Any] = {"nvidia.com/gpu": random.choice([1, 1, 2, 4])}
            if random.random() < 0.4:
                amounts = {random.choice(_RESOURCES): random.choice(_AMOUNTS) for _ in range(random.choice([1, 1, 2]))}
            container["resources"] = {"limits": amounts}
            if random.random() < 0.3:
                container["resources"]["requests"] = dict(amounts)
            elif random.random() < 0.1:
                container["resources"] = {"requests": amounts}
            if random.random() < 0.3:
                container["resources"].setdefault("requests", {})["cpu"] = random.choice(["1", "500m", "64"])
        if random.random() < 0.2:
            name = random.choice(["NVIDIA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "A"])
            container["env"] = [{"name": name, "value": random.choice(_SIGNS)}]
        if random.random() < 0.08:
            container["securityContext"] = {"privileged": True}
        return container

    def _devices(self) -> dict[str, Any]:
        random = self._random
        requests: list[dict[str, Any]] = []
        for number in range(random.choice([1, 1, 2])):
            exactly: dict[str, Any] = {
                "deviceClassName": random.choice(["gpu.nvidia.com", "gpu.nvidia.com", "mig.nvidia.com", "nothing"]),
                "count": random.choice([1, 1, 2, 8, 40]),
            }
            if random.random() < 0.6:
                exactly["selectors"] = [self._selector()]
            if random.random() < 0.1:
                exactly["adminAccess"] = True
            if random.random() < 0.1:
                exactly = {**exactly, "allocationMode": "All"}
                del exactly["count"]
            if random.random() < 0.2:
                requests.append({"name": f"r{number}", "firstAvailable": [{**exactly, "name": "a"}]})
            else:
                requests.append({"name": f"r{number}", "exactly": exactly})
        devices: dict[str, Any] = {"requests": requests}
        if random.random() < 0.2:
            attribute = random.choice(["gpu.nvidia.com/parentUUID", "resource.kubernetes.io/pcieRoot", "x"])
            devices["constraints"] = [{"matchAttribute": attribute, "requests": ["r0"]}]
        return {"devices": devices}

    def _selector(self) -> dict[str, Any]:
        random = self._random
        expression = random.choice(_EXPRESSIONS)
        if random.random() < 0.3:
            expression = f"({expression}) {random.choice(['&&', '||'])} {random.choice(_EXPRESSIONS)}"
        return {"cel": {"expression": expression}}


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        target = target.setdefault(step, {})
    target[path[-1]] = value
