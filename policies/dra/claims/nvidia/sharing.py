"""Sharing: the strategy by which the pods of a claim use one GPU, and settings that go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject

_STRATEGIES = ("TimeSlicing", "MPS")
_BLOCKS = {"timeSlicingConfig": "TimeSlicing", "mpsConfig": "MPS"}
"""The strategy that each block of settings is for."""


@CLAIMS.rule(
    "GA243",
    "Sharing must have one strategy and only the settings of that strategy",
    default=Severity.DENY,
    remedy="write strategy: TimeSlicing with timeSlicingConfig, or strategy: MPS with mpsConfig",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go and sharing.go",
)
def sharing_strategies(subject: Subject) -> Iterator[Problem]:
    """A GPU is time-sliced or under MPS. The driver refuses any other strategy, and the settings of the one not chosen.

    What both of its blocks say is compared only when devices are prepared, so a claim with both is stored, allocated,
    and never starts a pod.
    """
    for found in nvidia_configs(subject, "GpuConfig", "MigDeviceConfig"):
        if not isinstance(found.value("sharing"), dict):
            continue
        strategy = found.value("sharing", "strategy")
        if found.strategy in _STRATEGIES:
            yield from _unfit_blocks(found)
        elif strategy is None or isinstance(strategy, str):
            text = f"unknown GPU sharing strategy: {printable(strategy or '')}"
            text += f", supported GPU sharing strategies: {', '.join(_STRATEGIES)}"
            yield problem(found.at("sharing", "strategy"), text, _remedy(found))


def _unfit_blocks(found: NvidiaConfig) -> Iterator[Problem]:
    for block, strategy in _BLOCKS.items():
        if found.value("sharing", block) is None or found.strategy == strategy:
            continue
        is_meant = all(found.value("sharing", other) is None for other in _BLOCKS if other != block)
        path = found.at("sharing", block)
        remedy = f"remove {block}, or write strategy: {strategy}" if is_meant else f"remove {block}"
        if found.kind == "GpuConfig":
            name = f"{block[:1].upper()}{block[1:]}"
            yield problem(path, f"cannot use {name} with the '{found.strategy}' strategy", remedy)
        elif block == "mpsConfig":
            text = f"has no effect with the '{found.strategy}' strategy"
            yield problem(path, text, remedy, severity=Severity.WARN)


def _remedy(found: NvidiaConfig) -> str:
    guess = closest(found.strategy, _STRATEGIES)
    meant = [strategy for block, strategy in _BLOCKS.items() if found.value("sharing", block) is not None]
    if guess is None and len(meant) == 1:
        guess = meant[0]
    return f'write "{guess}"' if guess else "write TimeSlicing or MPS, or remove sharing"
