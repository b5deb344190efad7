"""Products: what the label `nvidia.com/gpu.product` says."""

from __future__ import annotations

from dataclasses import dataclass

from policies.caches import remember_short
from policies.nvidia.mig import MIGProfile

__all__ = ["Product"]


_SHARED = "-SHARED"
_MIG = "-MIG-"
_INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Product:
    """A value of `nvidia.com/gpu.product` taken apart.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm (`<product>[-MIG-<profile>][-SHARED]`, and
    `<product>-MIG-INVALID` on nodes whose MIG devices differ under the single strategy).
    """

    name: str
    """The GPU's name as labels spell it: `NVIDIA-A100-SXM4-40GB`."""
    profile: MIGProfile | None = None
    """The MIG profile that the node hands out as `nvidia.com/gpu` (single strategy)."""
    shared: bool = False
    invalid: bool = False

    @staticmethod
    def parse(label: str) -> Product:
        """Take a label value apart; what is no suffix belongs to the name."""
        return _parse(label)


@remember_short(4096)
def _parse(label: str) -> Product:
    """Remembered, because every wish is compared with every product that there is."""
    base = label.removesuffix(_SHARED)
    shared = base != label
    name, separator, suffix = base.rpartition(_MIG)
    if separator and suffix == _INVALID:
        return Product(name, shared=shared, invalid=True)
    profile = MIGProfile.from_label(suffix) if separator else None
    return Product(name, profile, shared) if profile else Product(base, shared=shared)
