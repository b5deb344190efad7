"""Keys of the labels and annotations of gpu-admission, and the type of its condition of pods."""

from __future__ import annotations

__all__ = [
    "DRA_LABEL",
    "IGNORE",
    "MANAGED",
    "PREFIX",
    "QUOTA_LABEL",
    "RECORD",
    "SCHEDULABLE",
    "STRATEGY_LABEL",
    "UNUSED_SINCE",
]

PREFIX = "gpu-admission.io/"
"""The prefix of every label and annotation of gpu-admission."""

DRA_LABEL = "gpu-admission.io/dra"
"""The label that opts a namespace into conversion, and with the value `disabled` a pod out of it."""

STRATEGY_LABEL = "gpu-admission.io/dra-strategy"
"""The label of a namespace that chooses the conversion strategy."""

QUOTA_LABEL = "gpu-admission.io/quota"
"""The label of a namespace that makes its quota fail closed."""

MANAGED = "gpu-admission.io/managed"
"""The label on everything that gpu-admission made or changed."""

IGNORE = "gpu-admission.io/ignore"
"""The annotation that waives findings on its object."""

RECORD = "gpu-admission.io/converted"
"""The annotation that records what a converted pod requested."""

UNUSED_SINCE = "gpu-admission.io/unused-since"
"""The annotation with the time since when no pod uses a template."""

SCHEDULABLE = "gpu-admission.io/Schedulable"
"""The type of the condition of pods that wait for GPUs. It is only ever `False`, and is removed when that is no longer true."""
