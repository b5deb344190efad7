"""What is generated: an object or a fragment of one, and the steps that follow."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import is_dns_subdomain
from policies.kubernetes.objects import name_of
from policies.kubernetes.phrases import shown
from policies.kubernetes.yaml import load_document
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.known_products import choose_products
from policies.nvidia.mig_configs import CONFIGS, FILE, configs_in, configs_of
from policies.nvidia.wishes import WishError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.nvidia.known_products import ProductChoice

__all__ = [
    "MIG_PARTED",
    "Generated",
    "GenerationError",
    "Step",
    "Target",
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


MIG_PARTED = "mig-parted"
"""The role of a ConfigMap of the MIG manager, a value of its label."""

_OPTION = "--add-to"
_LABEL = "gpu-admission.io/config"
_OF_THE_OPERATOR = "default-mig-parted-config"
"""The ConfigMap that the operator overwrites, so that a copy of it needs another name."""
_KEPT = ("labels", "annotations")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HEAD = re.compile(rf"^{CONFIGS}:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*?([ ]+)(?=[^\s#-])", re.MULTILINE)
"""The line that begins the configurations of a file in block style, and the indentation of the first one."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a configuration goes."""

    namespace: str
    """Of a new ConfigMap, and of one that names none."""
    existing: Object | None = None
    """The ConfigMap that the configuration is added to; None for a new one."""

    def name(self, default: str) -> str:
        """The name of the ConfigMap."""
        name = name_of(self.existing) if self.existing else ""
        return default if name in ("", _OF_THE_OPERATOR) else name

    def config_map(self, default: str, role: str, data: Mapping[str, str]) -> Object:
        """The ConfigMap with data, labelled so that it is reviewed in every namespace.

        Args:
            default: The name of a new ConfigMap.
            role: The value of the label.
            data: New data, which replaces that of the same keys.

        Raises:
            GenerationError: The existing one is for another component, or its name is invalid.
        """
        self._check_role(role)
        metadata = self._metadata()
        if not is_dns_subdomain(self.name(default)):
            raise GenerationError(_OPTION, f"has the invalid name {shown(self.name(default))}; correct it first")
        labels = {**metadata.get("labels", {}), _LABEL: role}
        own = {"name": self.name(default), "namespace": metadata.pop("namespace", "") or self.namespace}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**own, **metadata, "labels": labels}}
        return {**document, "data": {**self._data(), **data}}

    def replaces(self, key: str, text: str) -> bool:
        """True if a key exists with another text."""
        return self._data().get(key, text) != text

    def file_with(self, name: str, lines: Sequence[str], otherwise: str) -> str:
        """The file of the MIG manager with one more configuration; its other lines stay as they are.

        Args:
            name: The name of the configuration.
            lines: Its entries, without indentation.
            otherwise: The whole file of a new ConfigMap.

        Raises:
            GenerationError: The ConfigMap is for another component, has another configuration of this name, or has no file
                that can be added to.
        """
        if self.existing is None:
            return otherwise
        self._check_role(MIG_PARTED)
        text, configs = self._data().get(FILE), configs_of(self.existing)
        head = _HEAD.search(text) if text is not None else None
        if text is None or configs is None or head is None:
            raise GenerationError(_OPTION, f"has no {FILE} with {CONFIGS} in block style; correct it, or leave it out")
        indent = head[1]
        added = "".join(f"{indent}{line}\n" for line in (f"{name}:", *lines))
        if name in configs:
            same = configs_in(load_document(f"{CONFIGS}:\n{added}").value)[name]
            if configs[name] == same:
                return text
            raise GenerationError(_OPTION, f"has another configuration {shown(name)}; rename that one first")
        start = head.start(1)
        return f"{text[:start]}{added}{text[start:]}"

    def _check_role(self, role: str) -> None:
        """Refuse an existing ConfigMap that is for another component."""
        other = self._metadata().get("labels", {}).get(_LABEL, MIG_PARTED if FILE in self._data() else role)
        if other != role:
            raise GenerationError(_OPTION, f"is a ConfigMap for {other}, not for {role}; name another one")

    def _metadata(self) -> dict[str, Any]:
        """The existing metadata without what the API server or kubectl added."""
        metadata = self.existing.get("metadata") if self.existing else None
        if not isinstance(metadata, dict):
            return {}
        kept = {key: {**metadata[key]} for key in _KEPT if isinstance(metadata.get(key), dict)}
        kept.get("annotations", {}).pop(_APPLIED, None)
        namespace = {"namespace": metadata["namespace"]} if isinstance(metadata.get("namespace"), str) else {}
        return {**namespace, **{key: value for key, value in kept.items() if value}}

    def _data(self) -> dict[str, str]:
        """The existing data.

        Raises:
            GenerationError: It is not text by keys.
        """
        data = self.existing.get("data") if self.existing else None
        if data is None:
            return {}
        if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
            raise GenerationError(_OPTION, "has data that is not text by keys; correct it first")
        return data
