"""Quotas: a GPUQuota with a limit for each amount."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.analyses.generate.documents import Generated, GenerationError, Step, read_products, slug
from policies.analyses.generate.wanted_profiles import check_profile, ordered_counts, read_wanted
from policies.kubernetes.names import QUOTA_LABEL
from policies.kubernetes.phrases import shown
from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.quota.limits.quota import API_VERSION, ENFORCED, QUOTA_NAME, QuotaError, parse_quota

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["Mode", "QuotaWords", "generate_quota"]

Mode = Literal["Enforce", "Warn"]


@dataclass(frozen=True, slots=True)
class QuotaWords:
    """The limits of a namespace as text; empty for what is not limited."""

    gpus: str = ""
    """Of all products."""
    products: Sequence[str] = ()
    """GPUs of some products: `H100*=8`."""
    mig: str = ""
    """MIG devices: `1g.10gb=4`."""
    memory: str = ""


def generate_quota(namespace: str, words: QuotaWords, mode: Mode) -> Generated:
    """The GPUQuota of a namespace.

    Raises:
        GenerationError: An amount cannot be read, or nothing is limited.
    """
    limits = list(_limits(words))
    if not limits:
        raise GenerationError("", "no limit is given; set --gpus, --product, --mig or --memory")
    spec = {"limits": limits, "mode": mode}
    metadata = {"name": QUOTA_NAME, "namespace": namespace}
    document: Object = {"apiVersion": API_VERSION, "kind": "GPUQuota", "metadata": metadata, "spec": spec}
    try:
        parse_quota(document)
    except QuotaError as error:
        path, sentence = error.problems[0]
        raise GenerationError(_option_of(limits, path), sentence) from None
    effect = "are refused" if mode == "Enforce" else "are admitted with a warning"
    label = f"kubectl label namespace {namespace} {QUOTA_LABEL}={ENFORCED}"
    steps = (Step("To refuse pods with GPUs also while no limit can be checked, label the namespace.", (label,)),)
    remark = f"Pods and claims of {namespace} that exceed a limit {effect}. Each limit is checked by itself."
    return Generated((remark,), document, steps if mode == "Enforce" else ())


def _limits(words: QuotaWords) -> Iterator[dict[str, Any]]:
    if words.gpus:
        yield {"name": "gpus", "gpus": _gpus(words.gpus)}
    for text in words.products:
        name, separator, amount = text.rpartition("=")
        if not separator:
            raise GenerationError(
                "--product", f'has {shown(text)}, which is not PRODUCT=GPUS; write one such as "H100*=8"'
            )
        patterns = read_products(name).patterns
        if patterns.excludes:
            raise GenerationError("--product", f"excludes {patterns.excludes[0]}; a limit only names what it counts")
        limit = slug(str(patterns)) or "products"
        yield {"name": limit, "selector": {"products": list(patterns.includes)}, "gpus": _gpus(amount.strip())}
    if words.mig:
        for profile, count in ordered_counts(read_wanted(words.mig, "--mig")):
            check_profile(profile, KNOWN_PRODUCTS, "--mig")
            yield {"name": slug(f"mig-{profile}"), "selector": {"profiles": [str(profile)]}, "devices": count}
    if words.memory:
        yield {"name": "memory", "memory": words.memory}


def _gpus(text: str) -> int | str:
    """A number, or a part of a GPU as text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else text


def _option_of(limits: Sequence[dict[str, Any]], path: Sequence[str | int]) -> str:
    """The option that a limit was made from."""
    index = next((step for step in path if isinstance(step, int)), 0)
    limit = limits[index]
    if "memory" in limit:
        return "--memory"
    if "devices" in limit:
        return "--mig"
    return "--product" if "selector" in limit else "--gpus"
