"""Node labels and resource names in place of device attributes."""

import pytest

A = 'device.attributes["gpu.nvidia.com"]'
WHERE = "selectors[0].cel.expression: "
DASHED = f'{A}.productName.replace(" ", "-")'
LABEL = "it is the label nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f'{A}.productName == "NVIDIA-H100-80GB-HBM3"',
            (
                f'"NVIDIA-H100-80GB-HBM3" is no productName that devices have: {LABEL}, which has dashes for blanks; write '
                f'{DASHED} == "NVIDIA-H100-80GB-HBM3"'
            ),
        ),
        (
            f'{A}.productName == "NVIDIA-A100-SXM4-40GB-SHARED"',
            (
                f'"NVIDIA-A100-SXM4-40GB-SHARED" is no productName that devices have: {LABEL} and a suffix, which has dashes for '
                f'blanks; write {DASHED} == "NVIDIA-A100-SXM4-40GB"'
            ),
        ),
        (
            f'{A}.productName in ["Tesla-T4"]',
            (
                f'"Tesla-T4" is no productName that devices have: {LABEL}, which has dashes for blanks; write '
                f'{DASHED} == "Tesla-T4"'
            ),
        ),
        (
            f'{A}.productName.startsWith("NVIDIA-H100")',
            (
                f'"NVIDIA-H100" is no productName that devices have: {LABEL}, which has dashes for blanks; write '
                f'{DASHED}.startsWith("NVIDIA-H100")'
            ),
        ),
        (
            f'{A}.architecture == "hopper"',
            '"hopper" is no architecture that devices have: case and blanks count; write "Hopper"',
        ),
        (
            f'{A}.brand == "nvidia"',
            '"nvidia" is no brand that devices have: case and blanks count; write "Nvidia"',
        ),
        (
            f'{A}.brand in ["GeForce RTX"]',
            '"GeForce RTX" is no brand that devices have: case and blanks count; write "GeForceRTX"',
        ),
        (
            f'"ada-lovelace" == {A}.architecture',
            '"ada-lovelace" is no architecture that devices have: case and blanks count; write "Ada Lovelace"',
        ),
        (
            f'{A}["architecture"] == "Ada"',
            '"Ada" is no architecture that devices have: case and blanks count; write "Ada Lovelace"',
        ),
        (
            f'{A}.architecture == "sm_90"',
            (
                '"sm_90" is no architecture that devices have: there are Kepler, Maxwell, Pascal, Volta, Turing, Ampere, '
                "Ada Lovelace, Hopper, Blackwell, Rubin; write one of these"
            ),
        ),
        (
            f'{A}.profile == "mig-1g.10gb.me"',
            '"mig-1g.10gb.me" is no profile that devices have: this is how resources and labels spell it; write "1g.10gb+me"',
        ),
        (
            f'{A}.profile == "small"',
            (
                '"small" is no profile that devices have: a profile is 1g.10gb or 1g.10gb+me; write a profile, as "nvidia-smi mig '
                '-lgip" lists them'
            ),
        ),
        (
            f'{A}.type == "GPU"',
            '"GPU" is no type that devices have: there are gpu, mig, vfio; write "gpu"',
        ),
        (
            f'{A}.type == "card"',
            '"card" is no type that devices have: there are gpu, mig, vfio; write one of these',
        ),
    ],
)
def test_label_is_reported_with_the_right_form(said, asking, text, expected):
    assert said("GA230", asking(text, device_class="mig.nvidia.com")) == [f"{WHERE}{expected}"]


@pytest.mark.parametrize(
    "text",
    [
        f'{A}.productName == "NVIDIA H100 80GB HBM3"',
        f'{A}.productName == "NVIDIA A100-SXM4-40GB"',
        f'{DASHED} == "NVIDIA-H100-80GB-HBM3"',
        f'{A}.productName.contains("H100")',
        f'{A}.productName.lowerAscii().matches("a100")',
        f'{A}.architecture in ["Hopper", "Ada Lovelace"]',
        f'{A}.architecture.lowerAscii() == "hopper"',
        f'{A}.architecture.startsWith("Ada")',
        f'{A}.profile == "1g.10gb+me"',
        f'{A}.profile.startsWith("1g.")',
        f'{A}.type == "vfio"',
        'device.attributes["other.example.com"].architecture == "hopper"',
    ],
)
def test_right_form_is_fine(said, asking, text):
    assert said("GA230", asking(text)) == []


def test_what_a_device_has_after_all_is_fine(said, asking, device_class, gpu, on_node):
    claim = asking(f'{A}.architecture == "Feynman"')
    assert len(said("GA230", claim)) == 1
    assert said("GA230", claim, device_class(), on_node("node-1", gpu(architecture="Feynman"))) == []
