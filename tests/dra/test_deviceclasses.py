"""DeviceClasses: NVIDIA's shipped selectors are recognised, others are not guessed at."""

import pytest

from policies.dra.deviceclasses import device_type, extended_resource_name

# dra-driver-nvidia-gpu deployments/helm/dra-driver-nvidia-gpu/templates/deviceclass-{gpu,mig,vfio}.yaml.
GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
VFIO = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'"


def device_class(*expressions):
    return {"spec": {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}}


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


@pytest.mark.parametrize(
    "text",
    [
        VFIO,
        "",
        "true",
        "device.driver == 'gpu.nvidia.com'",
        GPU + " && true",
        f"({GPU})",
        f"!({GPU})",
        GPU.replace("&&", "||"),
        GPU.replace("'gpu'", "'gpu '"),
        GPU.replace("'gpu.nvidia.com' ", "'gpuxnvidia.com' "),
        GPU.replace("== 'gpu'", "!= 'gpu'"),
        None,
        1,
    ],
)
def test_other_text_is_not_guessed_at(text):
    assert device_type(device_class(text)) is None


@pytest.mark.parametrize(
    "document",
    [
        *({}, {"spec": None}, {"spec": {}}, {"spec": {"selectors": None}}, {"spec": {"selectors": []}}),
        *({"spec": {"selectors": [None]}}, {"spec": {"selectors": [{}]}}, {"spec": {"selectors": {"cel": GPU}}}),
        device_class(GPU, GPU),
        device_class(GPU, "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L40S'"),
    ],
)
def test_class_with_more_or_fewer_selectors_is_another_class(document):
    assert device_type(document) is None


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
