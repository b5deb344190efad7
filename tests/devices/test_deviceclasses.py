"""Devices that a DeviceClass selects, recognised in any wording; open selectors are not guessed."""

import subprocess
import sys

import pytest

from policies.devices.deviceclasses import extended_resource_name
from policies.devices.selected_types import selected_types
from policies.fleet.known_classes import KnownClasses

# dra-driver-nvidia-gpu deployments/helm/dra-driver-nvidia-gpu/templates/deviceclass-{gpu,mig,vfio}.yaml.
GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
VFIO = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'"


def device_type(device_class):
    return KnownClasses([device_class]).device_type("any")


def device_class(*expressions):
    return {
        "metadata": {"name": "any"},
        "spec": {"selectors": [{"cel": {"expression": expression}} for expression in expressions]},
    }


@pytest.mark.parametrize(("text", "expected"), [(GPU, "gpu"), (MIG, "mig")])
def test_shipped_text_is_recognised(text, expected):
    assert device_type(device_class(text)) == expected


@pytest.mark.parametrize(("text", "expected"), [(GPU, "gpu"), (MIG, "mig")])
def test_shipped_text_is_recognised_in_double_quotes(text, expected):
    assert device_type(device_class(text.replace("'", '"'))) == expected


@pytest.mark.parametrize(
    "text",
    [GPU + "\n", "  " + GPU, GPU.replace(" && ", "\n  && "), GPU.replace(" && ", " &&\n"), GPU.replace(" ", "\t")],
)
def test_shipped_text_is_recognised_whatever_the_white_space(text):
    assert device_type(device_class(text)) == "gpu"


PRODUCT = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L40S'"
OTHER = "device.driver == 'dra.example.com'"
EVERY = {"gpu", "mig", "vfio", "channel", "daemon", "other"}


@pytest.mark.parametrize(
    "text",
    [
        f"{GPU} && true",
        f"({GPU})",
        f"{GPU} && {PRODUCT}",
        f"{PRODUCT} && {GPU}",
        f"({GPU} && {PRODUCT}) || ({GPU} && !({PRODUCT}))",
        "device.driver == 'gpu.nvidia.com' ? device.attributes['gpu.nvidia.com'].type == 'gpu' : false",
        "device.attributes['gpu.nvidia.com'].type == 'gpu'",
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type in ['gpu', 'vgpu']",
    ],
)
def test_class_of_gpus_is_recognised_in_other_words(text):
    assert device_type(device_class(text)) == "gpu"


@pytest.mark.parametrize(
    "text",
    [
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].profile == '1g.5gb'",
        "'profile' in device.attributes['gpu.nvidia.com']",
        f"{MIG} && device.attributes['gpu.nvidia.com'].profile.startsWith('1g.')",
    ],
)
def test_class_of_mig_devices_is_recognised_by_what_only_they_have(text):
    assert device_type(device_class(text)) == "mig"


@pytest.mark.parametrize(
    "text",
    [
        VFIO,
        "",
        "true",
        "not CEL",
        "1 / 0 == 1",
        OTHER,
        PRODUCT,
        "device.driver == 'gpu.nvidia.com'",
        f"!({GPU})",
        GPU.replace("&&", "||"),
        GPU.replace("'gpu'", "'gpu '"),
        GPU.replace("'gpu.nvidia.com' ", "'gpuxnvidia.com' "),
        GPU.replace("== 'gpu'", "!= 'gpu'"),
        f"{GPU} || {MIG}",
        f"{GPU} || {PRODUCT}",
        f"{GPU} || {OTHER} || true",
        None,
        1,
    ],
)
def test_class_of_other_or_several_types_is_not_guessed_at(text):
    assert device_type(device_class(text)) is None


def test_selectors_of_a_class_must_all_match():
    assert device_type(device_class(GPU, GPU)) == "gpu"
    assert device_type(device_class(GPU, PRODUCT)) == "gpu"
    assert (
        device_type(device_class("device.driver == 'gpu.nvidia.com'", "!has(device.attributes['gpu.nvidia.com'].x)"))
        is None
    )
    assert device_type(device_class(GPU, MIG)) is None


@pytest.mark.parametrize(
    "document",
    [
        *({}, {"spec": None}, {"spec": {}}, {"spec": {"selectors": None}}, {"spec": {"selectors": []}}),
        *({"spec": {"selectors": [None]}}, {"spec": {"selectors": [{}]}}, {"spec": {"selectors": {"cel": GPU}}}),
        {"spec": {"selectors": [{"cel": {"expression": GPU}}, {}]}},
    ],
)
def test_class_of_another_shape_is_not_guessed_at(document):
    assert device_type(document) is None


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], EVERY),
        (["true"], EVERY),
        (["not CEL"], EVERY),
        ([PRODUCT], {"gpu", "mig", "vfio"}),
        ([VFIO], {"vfio"}),
        ([VFIO.replace("&&", " && true &&")], {"vfio"}),
        ([f"!({GPU})"], EVERY - {"gpu"}),
        (["device.driver == 'gpu.nvidia.com' || device.driver == 'compute-domain.nvidia.com'"], EVERY - {"other"}),
        (["device.attributes['compute-domain.nvidia.com'].type == 'channel'"], {"channel"}),
        (["device.attributes[device.driver].type == 'gpu'"], EVERY),
        (["device.attributes['resource.kubernetes.io'].numaNode == 0"], EVERY),
        (["device.attributes['example.com'].model == 'a'"], {"other"}),
        (["device.driver == 'gpu.nvidia.com' || 1 / 0 == 1"], {"gpu", "mig", "vfio"}),
        (["1 / 0 == 1 ? true : false"], set()),
        ([PRODUCT, f"!({GPU})", "!has(device.attributes['gpu.nvidia.com'].profile)"], {"mig", "vfio"}),
        ([OTHER], {"other"}),
        (["device.driver in ['fast.example.com', 'gpu.nvidia.com']"], {"gpu", "mig", "vfio", "other"}),
        (["'fast.example.com' == device.driver || device.driver == 'gpu.nvidia.com'"], EVERY - {"channel", "daemon"}),
        (["device.driver != 'gpu.nvidia.com'"], {"channel", "daemon", "other"}),
        (["device.driver != 'fast.example.com'"], EVERY),
        (["device.driver.endsWith('.nvidia.com')"], EVERY),
        (["device.driver.startsWith('fast.')"], {"other"}),
        (
            ["device.driver == 'gpu.nvidia.com' ? true : device.driver in ['a.example.com']"],
            EVERY - {"channel", "daemon"},
        ),
        ([f"device.driver in {[f'{letter}.example.com' for letter in 'abcdefghij']}"], {"other"}),
    ],
)
def test_types_that_selectors_leave_are_reported(texts, expected):
    assert selected_types(texts) == expected


def test_shipped_classes_are_known_without_the_cel_engine():
    document = device_class(GPU)
    program = (
        "import sys; from policies.fleet.known_classes import KnownClasses; "
        f"assert KnownClasses([{document!r}]).device_type('any') == 'gpu'; assert 'policies.cel' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"extendedResourceName": "nvidia.com/gpu"}, "nvidia.com/gpu"),
        ({"extendedResourceName": None}, None),
        ({"extendedResourceName": 1}, None),
        ({}, None),
        (None, None),
    ],
)
def test_extended_resource_name(spec, name):
    assert extended_resource_name({"spec": spec}) == name
