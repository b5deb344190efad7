"""Configurations that are added to a ConfigMap: what it had stays, and reviews find nothing."""

from copy import deepcopy

import pytest

from policies.analyses.generate.documents import GenerationError, Target
from policies.analyses.generate.node_configurations import generate_mig, generate_sharing
from policies.nvidia.mig_products import product_named
from policies.nvidia.products import KNOWN_PRODUCTS
from testbed import libyaml
from tests.generate.applied_objects import commands, findings

OPERATOR = Target("gpu-operator")
STORED = {
    "uid": "5f0c",
    "resourceVersion": "17",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "managedFields": [{}],
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "gpu"},
}


def stored(document):
    """An object as the API server has it."""
    found = deepcopy(document)
    found["metadata"] |= STORED
    return found


def configs(document):
    return libyaml.load(document["data"]["config.yaml"])["mig-configs"]


def test_all_products_fit_into_one_config_map_of_the_device_plugin():
    target, replicas = OPERATOR, 2
    for product in KNOWN_PRODUCTS:
        document = generate_sharing("time-slicing", product, replicas, target).document
        target = Target("elsewhere", stored(document))
    assert len(document["data"]) == len(KNOWN_PRODUCTS) + 1
    assert document["metadata"]["namespace"] == "gpu-operator"
    assert findings(document) == []


def test_all_products_fit_into_one_config_map_of_the_mig_manager():
    target, wanted = OPERATOR, {}
    for label in KNOWN_PRODUCTS:
        product = product_named(label)
        if product and product.name not in wanted:
            wanted[product.name] = f"{product.profiles()[0]}=3,{product.profiles()[-1]}=1"
            document = generate_mig(label, wanted[product.name], 2, target).document
            target = Target("elsewhere", stored(document))
    names = {",".join(entry.get("mig-devices", "")) for entries in configs(document).values() for entry in entries}
    assert len(names) > 8
    assert findings(document) == []


def test_what_the_api_server_adds_is_left_out():
    document = generate_sharing("time-slicing", "T4", 4, OPERATOR).document
    added = generate_sharing("mps", "L4", 2, Target("elsewhere", stored(document))).document
    assert added["metadata"] == {**document["metadata"], "annotations": {"team": "gpu"}}
    assert list(added["data"]) == ["tesla-t4", "whole-gpus", "l4"]


def test_lines_of_the_file_stay_as_they_are():
    text = "# ours\nversion: v1\nmig-configs:\n\n    # nothing\n    all-disabled:\n    - {devices: all, mig-enabled: false}\n"
    existing = {"kind": "ConfigMap", "metadata": {"name": "ours"}, "data": {"config.yaml": text, "other": "x"}}
    document = generate_mig("A30", "1g.6gb=1", None, Target("nvidia", existing)).document
    added = """\
    1x1g.6gb:
    - devices: all
      mig-enabled: true
      mig-devices:
        "1g.6gb": 1
"""
    before, after = text.split("    all-disabled")
    assert document["data"] == {"config.yaml": f"{before}{added}    all-disabled{after}", "other": "x"}
    assert document["metadata"] == {
        "name": "ours",
        "namespace": "nvidia",
        "labels": {"gpu-admission.io/config": "mig-parted"},
    }


def test_shipped_configuration_is_added_where_a_config_map_replaces_them():
    first = generate_mig("H100", "1g.10gb=3", None, OPERATOR).document
    generated = generate_mig("A30", "1g.6gb=4", None, Target("gpu-operator", first))
    assert configs(generated.document)["4x1g.6gb"][0]["mig-devices"] == {"1g.6gb": 4}


def test_clusterpolicy_names_the_existing_config_map_and_keeps_its_default():
    existing = {"kind": "ConfigMap", "metadata": {"name": "ours"}, "data": {"any": "version: v1\n"}}
    patch, _ = commands(generate_sharing("time-slicing", "T4", 4, Target("gpu-operator", existing)))
    assert patch[-1] == '{"spec":{"devicePlugin":{"config":{"name":"ours"}}}}'


def test_replaced_key_is_said():
    document = generate_sharing("time-slicing", "T4", 4, OPERATOR).document
    again = generate_sharing("time-slicing", "T4", 4, Target("", document))
    other = generate_sharing("time-slicing", "T4", 8, Target("", document))
    said = "The key tesla-t4 replaces another configuration."
    assert (said in again.remarks, said in other.remarks) == (False, True)


def test_configuration_that_is_there_is_not_added_again():
    first = generate_mig("H100", "1g.10gb=3", None, OPERATOR).document
    again = generate_mig("A100-80GB", "1g.10gb=3", None, Target("gpu-operator", first)).document
    assert again == first


def test_copy_of_the_operators_config_map_gets_a_name_of_its_own():
    first = generate_mig("H100", "1g.10gb=3", None, OPERATOR).document
    first["metadata"]["name"] = "default-mig-parted-config"
    document = generate_mig("A30", "1g.6gb=3", None, Target("gpu-operator", first)).document
    assert document["metadata"]["name"] == "custom-mig-config"


@pytest.mark.parametrize(
    ("data", "labels", "error"),
    [
        ({}, {}, "has no config.yaml with mig-configs in block style; correct it, or leave it out"),
        (
            {"config.yaml": "{version: v1, mig-configs: {}}"},
            {},
            "has no config.yaml with mig-configs in block style; correct it, or leave it out",
        ),
        (
            {"config.yaml": "mig-configs:\n  a: [\n"},
            {},
            "has no config.yaml with mig-configs in block style; correct it, or leave it out",
        ),
        ({"config.yaml": 1}, {}, "has data that is not text by keys; correct it first"),
        (
            {"config.yaml": "version: v1\nmig-configs:\n  1x1g.6gb:\n  - devices: all\n"},
            {},
            'has another configuration "1x1g.6gb"; rename that one first',
        ),
        (
            {"config.yaml": "version: v1\nmig-configs:\n  a:\n  - devices: all\n"},
            {"gpu-admission.io/config": "dcgm-metrics"},
            "is a ConfigMap for dcgm-metrics, not for mig-parted; name another one",
        ),
    ],
)
def test_config_map_that_cannot_be_added_to_is_refused(data, labels, error):
    existing = {"kind": "ConfigMap", "metadata": {"name": "ours", "labels": labels}, "data": data}
    with pytest.raises(GenerationError) as caught:
        generate_mig("A30", "1g.6gb=1", None, Target("gpu-operator", existing))
    assert (caught.value.option, str(caught.value)) == ("--add-to", error)


def test_config_map_of_the_device_plugin_takes_no_mig_configuration():
    first = generate_sharing("time-slicing", "T4", 4, OPERATOR).document
    with pytest.raises(GenerationError) as caught:
        generate_mig("A30", "1g.6gb=1", None, Target("gpu-operator", first))
    assert str(caught.value) == "is a ConfigMap for device-plugin, not for mig-parted; name another one"


def test_mig_file_takes_no_configuration_of_the_device_plugin():
    first = generate_mig("H100", "1g.10gb=3", None, OPERATOR).document
    with pytest.raises(GenerationError) as caught:
        generate_sharing("mps", "T4", 2, Target("gpu-operator", first))
    assert str(caught.value) == "is a ConfigMap for mig-parted, not for device-plugin; name another one"


@pytest.mark.parametrize("name", ["x'; reboot; '", "a\nb", "$(reboot)"])
def test_config_map_whose_name_a_shell_would_run_is_refused(name):
    with pytest.raises(GenerationError, match=r"^has the invalid name .*; correct it first$") as caught:
        generate_sharing("mps", "T4", 2, Target("gpu-operator", {"kind": "ConfigMap", "metadata": {"name": name}}))
    assert caught.value.option == "--add-to"
