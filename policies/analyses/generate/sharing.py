"""Time-slicing and MPS: a ConfigMap of the device plugin by which several pods share a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from policies.analyses.generate.documents import (
    Generated,
    GenerationError,
    Step,
    cluster_policy_command,
    node_label_command,
    read_products,
    slug,
)
from policies.configuration.config_maps.device_plugin.replicas import (
    MANY_SLICES,
    MOST_CLIENTS,
    MOST_CLIENTS_BEFORE_TURING,
)
from policies.kubernetes.phrases import format_list
from policies.nvidia.identifiers import GPU_RESOURCE, PLUGIN_CONFIG_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.generate.documents import Target

__all__ = ["Strategy", "generate_sharing"]

Strategy = Literal["time-slicing", "mps"]

_BEFORE_TURING = re.compile(r"Tesla-[PV]\d.*")
"""Pascal and Volta, the only known products with a compute capability below 7.5."""
_FEWEST = 2
_DEFAULT = "whole-gpus"
"""The key for nodes without the label, whose GPUs are not shared."""
_NOTHING = "version: v1\n"
_SHARING = """\
version: v1
sharing:
  {field}:
    failRequestsGreaterThanOne: true
    resources:
    - name: {resource}
      replicas: {replicas}
"""
_FIELDS: dict[Strategy, str] = {"time-slicing": "timeSlicing", "mps": "mps"}


def generate_sharing(strategy: Strategy, product: str, replicas: int, target: Target) -> Generated:
    """The ConfigMap, the fields of the ClusterPolicy that name it, and the label of the nodes.

    Args:
        strategy: How the pods share a GPU.
        product: A list of products, as `read_products` reads it.
        replicas: How many pods share a GPU.
        target: The ConfigMap.

    Raises:
        GenerationError: The product is unknown, or its GPUs cannot serve so many pods.
    """
    choice = read_products(product)
    _check_replicas(strategy, replicas, choice.labels)
    key = slug(str(choice.patterns)) or "all"
    text = _SHARING.format(field=_FIELDS[strategy], resource=GPU_RESOURCE, replicas=replicas)
    others = {} if target.existing else {_DEFAULT: _NOTHING}
    document = target.config_map(f"{strategy}-config", "device-plugin", {key: text, **others})
    config = {"name": document["metadata"]["name"], **({"default": _DEFAULT} if _DEFAULT in document["data"] else {})}
    shared = [*choice.labels, *(f"{label}-SHARED" for label in choice.labels)]
    return Generated(
        (
            f"{replicas} pods share each {format_list(choice.labels)}, and each requests {GPU_RESOURCE}: 1.",
            *_remarks(strategy, replicas),
            *([f"The key {key} replaces another configuration."] if target.replaces(key, text) else []),
        ),
        document,
        (
            Step(
                "Apply the ConfigMap, then name it in the ClusterPolicy. The ClusterPolicy names only one: if it names "
                "another already, add to that one with --add-to.",
                (cluster_policy_command({"devicePlugin": {"config": config}}),),
            ),
            Step(
                "Then select the configuration on the nodes. Label the node group as well, for nodes that come later.",
                (node_label_command(shared, PLUGIN_CONFIG_LABEL, key),),
            ),
        ),
    )


def _check_replicas(strategy: Strategy, replicas: int, labels: Sequence[str]) -> None:
    older = [label for label in labels if _BEFORE_TURING.fullmatch(label)]
    if replicas < _FEWEST:
        raise GenerationError("--replicas", f"is {replicas}; sharing needs at least {_FEWEST}")
    if strategy == "time-slicing" and replicas > MANY_SLICES:
        text = f"is {replicas}; so many pods rarely fit into the memory of one GPU, which time-slicing does not divide"
        raise GenerationError("--replicas", f"{text}; write {MANY_SLICES} or fewer")
    if strategy == "mps" and replicas > MOST_CLIENTS:
        raise GenerationError(
            "--replicas",
            f"is {replicas}; no GPU serves more than {MOST_CLIENTS} MPS clients; write {MOST_CLIENTS} or fewer",
        )
    if strategy == "mps" and older and replicas > MOST_CLIENTS_BEFORE_TURING:
        serve = f"GPUs before Turing serve {MOST_CLIENTS_BEFORE_TURING} MPS clients: {format_list(older)}"
        text = f"is {replicas}, and {serve}; write {MOST_CLIENTS_BEFORE_TURING} or fewer"
        raise GenerationError("--replicas", text)


def _remarks(strategy: Strategy, replicas: int) -> tuple[str, ...]:
    if strategy == "time-slicing":
        return ("The pods take turns. Nothing limits the memory of a pod: if one allocates too much, others fail.",)
    share = f"Each gets 1/{replicas} of the memory and of the threads of its GPU."
    mixed = "MPS needs a mig.strategy other than mixed in the ClusterPolicy, and GPUs that MIG does not divide."
    if replicas <= MOST_CLIENTS_BEFORE_TURING:
        return share, mixed
    return (
        share,
        mixed,
        (
            f"Only GPUs since Turing serve more than {MOST_CLIENTS_BEFORE_TURING} pods: review it with --cluster or --live, "
            "because a review without nodes warns."
        ),
    )
