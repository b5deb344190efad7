"""Objects of a namespace: a GPUQuota, a claim or its template, and a pod with wishes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from policies.analyses.generate.documents import (
    Generated,
    GenerationError,
    Step,
    check_profile,
    ordered_counts,
    read_products,
    read_profile,
    read_wanted,
    slug,
)
from policies.conversion.constraints import NodeConstraints
from policies.conversion.gpu_slices import ANY_MIG, SHARE
from policies.conversion.record import UUID
from policies.conversion.templates import ExactRequest, PrioritizedRequest
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.names import PREFIX, QUOTA_LABEL, format_list, is_dns_label, shown
from policies.kubernetes.yaml_events import plain
from policies.nvidia.labels import Subject, device_predicate, profile_is
from policies.nvidia.predicates import all_of
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.nvidia.wish_words import as_sold
from policies.nvidia.wishes import Wish, WishError
from policies.quota.limits.quota import API_VERSION, ENFORCED, QUOTA_NAME, QuotaError, parse_quota

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object


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
        first = error.problems[0]
        raise GenerationError(_option_of(limits, first.path), f"{first.message}; {first.remedy}") from None
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


_MEMORY = ("min-memory", "gpu-memory")
_PRODUCT = "product"


def generate_wish(words: Mapping[str, str]) -> Generated:
    """The annotations, as a fragment of a pod or of a pod template.

    Args:
        words: Texts by the names of the annotations without `gpu-admission.io/`; empty ones are no wish.

    Raises:
        GenerationError: A text cannot be read, no GPU can meet all of them, or all are empty.
    """
    wish = read_wish(words)
    if not wish:
        raise GenerationError("", 'no wish is given; set an option such as --product "H100*"')
    given = {word: text.strip() for word, text in words.items() if text}
    if wish.products:
        given[_PRODUCT] = str(wish.products)
    fragment = {"metadata": {"annotations": {f"{PREFIX}{word}": text for word, text in given.items()}}}
    remarks = ["Add it to a pod, or to spec.template of a workload."]
    if wish.products is not None and wish.products.includes:
        remarks.append(f"Known products that match: {format_list(read_products(str(wish.products)).labels)}.")
    return Generated(
        (*remarks, *memory_remarks(words)),
        fragment,
        (Step("The pod still requests its GPUs by resources or by claims."),),
    )


def read_wish(words: Mapping[str, str]) -> Wish:
    """The wish that some texts say; a product as people write it becomes a pattern.

    Raises:
        GenerationError: A text cannot be read, or no GPU can meet all of them.
    """
    given = {word: text for word, text in words.items() if text}
    patterns = read_products(given.pop(_PRODUCT)).patterns if _PRODUCT in given else None
    for word, text in given.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            raise GenerationError(f"--{word}", f"{error}; {error.remedy}") from None
    wish = replace(Wish.of(given), products=patterns)
    if contradictions := wish.contradictions():
        raise GenerationError("", f"no GPU meets all options: {contradictions[0][1]}")
    return wish


def memory_remarks(words: Mapping[str, str]) -> list[str]:
    """A remark if a bound excludes GPUs that are sold with it, such as 80Gi for 80 GB; else nothing."""
    given = [text for word in _MEMORY if (text := words.get(word, "").strip())]
    return [
        f"GPUs that are sold with {sold.removesuffix('G')} GB can have less than {text}; {sold} includes them."
        for text in given
        if (sold := as_sold(text)) is not None
    ]


_API_VERSION = "resource.k8s.io/v1"
_REQUEST = "gpu"


@dataclass(frozen=True, slots=True)
class ClaimWords:
    """The devices of a claim as text, and the name of the object."""

    wish: Mapping[str, str]
    """Texts by the names of the annotations of wishes."""
    mig: str = ""
    """The profile of MIG devices; empty for whole GPUs."""
    count: int = 1
    name: str = "gpu"
    namespace: str = ""
    """Empty to leave it to kubectl."""
    is_template: bool = False


def generate_claim(words: ClaimWords) -> Generated:
    """The claim, and the lines of a pod that use it.

    Raises:
        GenerationError: A word cannot be read, or no GPU can meet all of them.
    """
    if not 1 <= words.count <= MOST_DEVICES:
        raise GenerationError("--count", f"is {words.count}; a claim has 1 to {MOST_DEVICES} devices")
    if not is_dns_label(words.name):
        text = f"is {shown(words.name)}; write at most 63 lower-case letters, digits and dashes"
        raise GenerationError("--name", text)
    request = _request(words)
    devices: dict[str, Any] = {"requests": [request.manifest()]}
    if isinstance(request, PrioritizedRequest) and words.count > 1:
        # The driver cannot prepare two shares of one GPU for a claim.
        devices["constraints"] = [{"requests": [f"{_REQUEST}/{SHARE.name}"], "distinctAttribute": UUID}]
    spec = {"devices": devices}
    kind = "ResourceClaimTemplate" if words.is_template else "ResourceClaim"
    metadata = {"name": words.name, **({"namespace": words.namespace} if words.namespace else {})}
    document: Object = {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": {"spec": spec} if words.is_template else spec,
    }
    whose = "Each pod gets its own claim." if words.is_template else "All pods that refer to it share its devices."
    return Generated((whose, *memory_remarks(words.wish)), document, (_pod_lines(words),))


def _request(words: ClaimWords) -> ExactRequest | PrioritizedRequest:
    """The request for the devices; for parts of GPUs by memory, a share or a MIG device."""
    wish = read_wish(words.wish)
    if wish.gpu_memory is not None and words.mig:
        raise GenerationError("--gpu-memory", f"is said by the profile {words.mig}; leave out --mig, or this option")
    if wish.gpu_memory is not None:
        conditions = NodeConstraints()
        parts = [each.request(each.name, words.count, wish, conditions) for each in (SHARE, ANY_MIG)]
        return PrioritizedRequest(_REQUEST, parts)
    if not words.mig:
        return ExactRequest(_REQUEST, GPU_CLASS, words.count, device_predicate(wish, Subject("gpu")))
    profile = read_profile(words.mig, "--mig")
    check_profile(profile, read_products(str(wish.products or "*")).labels, "--mig")
    predicate = all_of([profile_is(profile), device_predicate(wish, Subject("mig", profile))])
    return ExactRequest(_REQUEST, MIG_CLASS, words.count, predicate)


def _pod_lines(words: ClaimWords) -> Step:
    field = "resourceClaimTemplateName" if words.is_template else "resourceClaimName"
    name = words.name if isinstance(plain(words.name), str) else f'"{words.name}"'
    return Step(
        "In the spec of a pod, beside its other fields:",
        (
            "resourceClaims:",
            "- name: gpu",
            f"  {field}: {name}",
            "containers:",
            "- name: main",
            "  resources:",
            "    claims:",
            "    - name: gpu",
        ),
    )
