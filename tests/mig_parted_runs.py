"""Measured runs of NVIDIA's mig-parted on four mock GPUs a node, and a few facts of our own.

The runs lie beside the repository, and are missing in most checkouts.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from policies.nvidia.mig_parted import GPUModel
from policies.nvidia.mig_products import product_named

GPUS = 4
PREFIX = "unmarshal error: error unmarshaling JSON: while decoding JSON: "
"""The beginning of each parse error."""

_RUNS = Path(__file__).parents[2] / "shared" / "reference" / "nvidia" / "mig-parted-runs.json"


@dataclass(frozen=True)
class Hardware:
    """GPUs as mig-parted saw them, and the labels of such a node."""

    label: str
    memory: str
    device: str
    """The PCI id of the mock: that of H200 and B200 is not that of a real one."""

    @property
    def model(self):
        product = product_named(self.label)
        return GPUModel(product.geometries[0] if product else None, frozenset([self.device]))

    @property
    def labels(self):
        return {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": self.label,
            "nvidia.com/gpu.count": str(GPUS),
            "nvidia.com/gpu.memory": self.memory,
            "nvidia.com/mig.capable": "true" if product_named(self.label) else "false",
        }


HARDWARE = {
    "A100-SXM4-40GB": Hardware("NVIDIA-A100-SXM4-40GB", "40960", "20B0"),
    "A100-SXM4-80GB": Hardware("NVIDIA-A100-SXM4-80GB", "81920", "20B2"),
    "A30-PCIE-24GB": Hardware("NVIDIA-A30", "24576", "20B7"),
    "H100-SXM5-80GB": Hardware("NVIDIA-H100-80GB-HBM3", "81920", "2330"),
    "H200-SXM5-141GB": Hardware("NVIDIA-H200", "144384", "2333"),
    "B200-SXM5-180GB": Hardware("NVIDIA-B200", "184320", "2B00"),
    "NONE": Hardware("Tesla-T4", "15360", "1EB8"),
}


@dataclass(frozen=True)
class MIGPartedRun:
    """One layout on one kind of GPUs."""

    case: str
    document: list
    parse: str
    """The error with which mig-parted could not read it; empty if it could."""
    apply: str
    """The error with which it failed; empty if it did not."""
    devices: list | None
    """The MIG devices of each GPU afterwards, by profile."""
    modes: list | None
    """1 for each GPU with MIG enabled afterwards."""

    @property
    def hardware(self):
        return HARDWARE[self.case.partition("/")[0]]


def measured_runs(is_wanted=None):
    """The wanted runs, all by default, as parameters of a test, which is skipped where the runs are missing."""
    if not _RUNS.exists():
        return [pytest.param(None, marks=pytest.mark.skip("the measured runs are not beside the repository"))]
    runs = [
        MIGPartedRun(**{key: run[key] for key in MIGPartedRun.__annotations__}) for run in json.loads(_RUNS.read_text())
    ]
    return [pytest.param(run, id=run.case) for run in filter(is_wanted, runs)]
