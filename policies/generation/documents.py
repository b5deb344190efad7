"""What is generated: an object or a fragment of one, and the steps that follow."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.product_choices import choose_products
from policies.nvidia.wishes import WishError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from policies.nvidia.product_choices import ProductChoice

__all__ = [
    "Generated",
    "GenerationError",
    "Step",
    "cluster_policy_command",
    "node_label_command",
    "read_products",
    "slug",
]


_LONGEST_SLUG = 40


class GenerationError(ValueError):
    """Nothing can be generated; the text is a sentence without a full stop, and says what to write."""

    def __init__(self, option: str, sentence: str) -> None:
        """Keep the option that is wrong, `--want`; empty if several are."""
        super().__init__(sentence)
        self.option = option


@dataclass(frozen=True, slots=True)
class Step:
    """What to do after the object is applied."""

    text: str
    lines: tuple[str, ...] = ()
    """Commands, or lines of YAML."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What one kind of `gpu-admission generate` prints."""

    remarks: tuple[str, ...]
    """Sentences about the object, each a line."""
    document: Object | None
    """None if the cluster has everything already, and only the steps are left."""
    steps: tuple[Step, ...] = ()


def read_products(text: str) -> ProductChoice:
    """The products that the text of `--product` means.

    Raises:
        GenerationError: No known product matches.
    """
    if not text.strip():
        raise GenerationError("--product", 'is empty; write a product such as "T4" or "H100*"')
    try:
        return choose_products(text)
    except WishError as error:
        raise GenerationError("--product", f"{error}; {error.remedy}") from None


def cluster_policy_command(spec: dict[str, Any]) -> str:
    """The command that changes fields of the ClusterPolicy, by the name that the Helm chart gives it."""
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge -p '{patch}'"


def node_label_command(labels: Sequence[str], key: str, value: str) -> str:
    """The command that labels all nodes with some products."""
    selector = f"={labels[0]}" if len(labels) == 1 else f" in ({','.join(labels)})"
    return f"kubectl label nodes -l '{PRODUCT_LABEL}{selector}' --overwrite {key}={value}"


def slug(text: str) -> str:
    """A text as part of a name: at most 40 lower-case letters, digits and single dashes; may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
