"""The example cluster is one that could exist: within Kubernetes' limits, and in agreement with itself."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from policies.kubernetes.names import is_dns_label, is_label_value
from policies.kubernetes.quantities import parse_quantity
from testbed import libyaml

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
FILES = {
    "DeviceClass": "deviceclasses.yaml",
    "Namespace": "namespaces.yaml",
    "Node": "nodes.yaml",
    "ResourceSlice": "resourceslices.yaml",
}

# k8s.io/api/resource/v1 types.go and apis/resource/validation: what the API server accepts in a ResourceSlice.
MAX_DEVICES = 128
MAX_ATTRIBUTES_AND_CAPACITIES = 32
MAX_VALUE = 64
MAX_DRIVER = 63
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")

# dra-driver-nvidia-gpu v0.4.1, deployments/helm/dra-driver-nvidia-gpu/templates/deviceclass-*.yaml.
SHIPPED_SELECTORS = {
    "compute-domain-daemon.nvidia.com": "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'daemon'",
    "compute-domain-default-channel.nvidia.com": "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel' && device.attributes['compute-domain.nvidia.com'].id == 0",
    "gpu.nvidia.com": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    "mig.nvidia.com": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",
    "vfio.gpu.nvidia.com": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'",
}


@cache
def document(file):
    (only,) = libyaml.load_all((CLUSTER / file).read_text())
    return only


def items(kind):
    return document(FILES[kind])["items"]


def name(item):
    return item["metadata"]["name"]


def labels(item):
    return item["metadata"]["labels"]


def node_of(item):
    return next(node for node in items("Node") if name(node) == item["spec"]["nodeName"])


def gpu_slices():
    return [item for item in items("ResourceSlice") if item["spec"]["driver"] == "gpu.nvidia.com"]


def devices():
    return [device for item in items("ResourceSlice") for device in item["spec"]["devices"]]


def mig_devices():
    return [device for item in gpu_slices() for device in item["spec"]["devices"] if attribute(device, "type") == "mig"]


def attribute(device, key):
    (value,) = device["attributes"][key].values()
    return value


def plugin_gpus(node):
    resources = {**node["status"]["capacity"], **node["status"]["allocatable"]}
    return {key: int(amount) for key, amount in resources.items() if key.startswith("nvidia.com/")}


@pytest.mark.parametrize(("kind", "file"), FILES.items())
def test_file_is_one_list_of_its_kind(kind, file):
    assert (document(file)["apiVersion"], document(file)["kind"]) == ("v1", "List")
    assert {item["kind"] for item in items(kind)} == {kind}


def test_server_version_is_kubernetes_1_36():
    version = document("version.yaml")

    assert "kind" not in version
    assert (version["serverVersion"]["major"], version["serverVersion"]["minor"]) == ("1", "36")


def test_names_and_uids_are_unique():
    everything = [item for kind in FILES for item in items(kind)]

    assert [key for key, count in Counter((item["kind"], name(item)) for item in everything).items() if count > 1] == []
    assert [uid for uid, count in Counter(item["metadata"]["uid"] for item in everything).items() if count > 1] == []


@pytest.mark.parametrize("item", items("ResourceSlice"), ids=name)
def test_slice_obeys_the_limits_of_the_api(item):
    spec = item["spec"]

    assert len(name(item)) <= 253
    assert SUBDOMAIN.fullmatch(name(item))
    assert len(spec["driver"]) <= MAX_DRIVER
    assert SUBDOMAIN.fullmatch(spec["driver"])
    assert 0 < len(spec["devices"]) <= MAX_DEVICES
    assert len({device["name"] for device in spec["devices"]}) == len(spec["devices"])


@pytest.mark.parametrize("item", items("ResourceSlice"), ids=name)
def test_slice_is_the_whole_pool_of_its_node(item):
    node = node_of(item)

    assert item["spec"]["pool"] == {"name": name(node), "generation": 1, "resourceSliceCount": 1}
    assert item["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "controller": True, "kind": "Node", "name": name(node), "uid": node["metadata"]["uid"]}
    ]


def test_every_pool_has_one_slice():
    assert set(
        Counter((item["spec"]["driver"], item["spec"]["nodeName"]) for item in items("ResourceSlice")).values()
    ) == {1}


def test_device_names_are_dns_labels():
    assert [device["name"] for device in devices() if not is_dns_label(device["name"])] == []


def test_attribute_and_capacity_names_are_qualified_identifiers():
    keys = {key for device in devices() for key in (*device["attributes"], *device.get("capacity", {}))}
    parts = [key.rpartition("/") for key in sorted(keys)]

    assert [identifier for _, _, identifier in parts if not IDENTIFIER.fullmatch(identifier)] == []
    assert {domain for domain, _, _ in parts} == {"", "resource.kubernetes.io"}


def test_device_has_at_most_32_attributes_and_capacities():
    sizes = {device["name"]: len(device["attributes"]) + len(device.get("capacity", {})) for device in devices()}

    assert {device: size for device, size in sizes.items() if size > MAX_ATTRIBUTES_AND_CAPACITIES} == {}


def test_attribute_has_one_value_of_its_type():
    values = [value for device in devices() for value in device["attributes"].values()]
    types = {"string": str, "version": str, "int": int}

    assert [value for value in values if len(value) != 1] == []
    assert [value for value in values for key, one in value.items() if type(one) is not types[key]] == []


def test_texts_are_at_most_64_characters():
    texts = [text for device in devices() for value in device["attributes"].values() for text in value.values()]

    assert [text for text in texts if isinstance(text, str) and len(text) > MAX_VALUE] == []


def test_versions_are_strict_semantic_versions():
    versions = {
        value["version"] for device in devices() for value in device["attributes"].values() if "version" in value
    }

    assert "580.95.5" in versions
    assert [version for version in versions if not SEMVER.fullmatch(version)] == []


def test_mig_device_name_tells_profile_and_first_memory_slice():
    profile_ids = {"1g.10gb": 19, "2g.20gb": 14, "3g.40gb": 9}

    for device in mig_devices():
        profile = attribute(device, "profile")
        first = min(int(key.removeprefix("memorySlice")) for key in device["capacity"] if key.startswith("memorySlice"))
        end = f"-mig-{profile.replace('.', '')}-{profile_ids[profile]}-{first}"
        assert re.fullmatch(r"gpu-\d+", device["name"].removesuffix(end)), device["name"]


def test_mig_devices_of_one_gpu_share_no_memory_slice():
    taken = Counter(
        (attribute(device, "parentUUID"), key)
        for device in mig_devices()
        for key in device["capacity"]
        if key.startswith("memorySlice")
    )

    assert [key for key, count in taken.items() if count > 1] == []
    assert {key for _, key in taken} <= {f"memorySlice{index}" for index in range(8)}


@pytest.mark.parametrize("node", items("Node"), ids=name)
def test_label_values_are_legal(node):
    assert {key: value for key, value in labels(node).items() if not is_label_value(value)} == {}


@pytest.mark.parametrize("node", items("Node"), ids=name)
def test_gpu_nodes_alone_are_tainted(node):
    taints = node["spec"].get("taints", [])
    expected = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]

    assert taints == (expected if "nvidia.com/gpu.present" in labels(node) else [])


def test_no_node_hands_out_gpus_by_device_plugin_and_dra():
    by_plugin = {name(node) for node in items("Node") if plugin_gpus(node)}
    by_dra = {item["spec"]["nodeName"] for item in gpu_slices()}

    assert by_plugin == {"gpu-a100-40gb-01", "gpu-t4-01", "gpu-t4-02"}
    assert by_dra == {"gpu-a100-01", "gpu-a100-mig-01", "gpu-a100-mig-02", "gpu-h100-01", "gpu-h100-02"}


def test_device_plugin_offers_what_the_labels_count():
    for node in items("Node"):
        if offered := plugin_gpus(node):
            expected = int(labels(node)["nvidia.com/gpu.count"]) * int(labels(node)["nvidia.com/gpu.replicas"])
            assert offered == {"nvidia.com/gpu": expected}, name(node)


def test_device_plugin_is_kept_away_from_dra_nodes():
    for node in items("Node"):
        by_dra = any(item["spec"]["nodeName"] == name(node) for item in gpu_slices())
        if "nvidia.com/gpu.present" in labels(node):
            assert labels(node)["nvidia.com/gpu.deploy.device-plugin"] == ("false" if by_dra else "true"), name(node)


@pytest.mark.parametrize("item", gpu_slices(), ids=name)
def test_slice_agrees_with_the_labels_of_its_node(item):
    node_labels = labels(node_of(item))
    of_slice = item["spec"]["devices"]
    version = ".".join(str(int(part)) for part in node_labels["nvidia.com/cuda.driver-version.full"].split("."))
    gpus = {attribute(device, "uuid" if attribute(device, "type") == "gpu" else "parentUUID") for device in of_slice}

    assert {attribute(device, "productName").replace(" ", "-") for device in of_slice} == {
        node_labels["nvidia.com/gpu.product"]
    }
    assert {attribute(device, "driverVersion") for device in of_slice} == {version}
    assert {attribute(device, "architecture").lower() for device in of_slice} == {node_labels["nvidia.com/gpu.family"]}
    assert len(gpus) == int(node_labels["nvidia.com/gpu.count"])


@pytest.mark.parametrize("item", gpu_slices(), ids=name)
def test_whole_gpus_have_the_memory_of_the_label(item):
    node_labels = labels(node_of(item))
    memories = {
        parse_quantity(device["capacity"]["memory"]["value"])
        for device in item["spec"]["devices"]
        if attribute(device, "type") == "gpu"
    }

    assert memories <= {int(node_labels["nvidia.com/gpu.memory"]) * 2**20}


@pytest.mark.parametrize("item", gpu_slices(), ids=name)
def test_mig_devices_are_those_that_the_labels_count(item):
    node_labels = labels(node_of(item))
    published = Counter(
        (attribute(device, "profile"), parse_quantity(device["capacity"]["memory"]["value"]) // 2**20)
        for device in item["spec"]["devices"]
        if attribute(device, "type") == "mig"
    )
    counted = {
        (match[1], int(node_labels[f"nvidia.com/mig-{match[1]}.memory"])): int(count)
        for key, count in node_labels.items()
        if (match := re.fullmatch(r"nvidia\.com/mig-(.+)\.count", key))
    }

    assert published == counted


def test_class_selectors_are_those_that_the_driver_ships():
    assert {
        name(item): [selector["cel"]["expression"] for selector in item["spec"]["selectors"]]
        for item in items("DeviceClass")
    } == {class_name: [expression] for class_name, expression in SHIPPED_SELECTORS.items()}


def test_gpu_class_alone_stands_for_the_extended_resource():
    assert {
        name(item): item["spec"]["extendedResourceName"]
        for item in items("DeviceClass")
        if "extendedResourceName" in item["spec"]
    } == {"gpu.nvidia.com": "nvidia.com/gpu"}


def test_namespaces_carry_their_name_as_label():
    assert [
        name(item) for item in items("Namespace") if labels(item)["kubernetes.io/metadata.name"] != name(item)
    ] == []


def test_namespaces_cover_every_answer_to_conversion():
    assert {name(item): labels(item).get("gpu-admission.io/dra") for item in items("Namespace")} == {
        "default": None,
        "gpu-operator": None,
        "kube-system": None,
        "team-a": "enabled",
        "team-legacy": None,
        "team-preview": "preview",
    }
