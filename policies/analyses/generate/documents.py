"""Generated documents: an object or a fragment of one, and the steps that follow."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import format_list, is_dns_subdomain, shown
from policies.kubernetes.objects import name_of
from policies.kubernetes.yaml import load_document
from policies.nvidia.identifiers import PRODUCT_LABEL, VENDOR_PREFIX
from policies.nvidia.mig import Geometry, MIGProfile
from policies.nvidia.mig_configs import CONFIGS, FILE, configs_in, configs_of
from policies.nvidia.mig_products import PRODUCTS, MIGProduct, product_named
from policies.nvidia.product_proposals import choose_products
from policies.nvidia.wishes import WishError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.nvidia.product_proposals import ProductChoice


_LONGEST_SLUG = 40


class GenerationError(ValueError):
    """Nothing can be generated; the text is a sentence without a full stop, and says what to write."""

    def __init__(self, option: str, sentence: str) -> None:
        """Keep the option that is wrong, `--want`; empty if several are."""
        super().__init__(sentence)
        self.option = option


@dataclass(frozen=True, slots=True)
class Step:
    """The steps after the object is applied."""

    text: str
    lines: tuple[str, ...] = ()
    """Commands, or lines of YAML."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The output of one kind of `gpu-admission generate`."""

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


_ITEM = re.compile(r"\s*([^=\s]+)\s*=\s*([0-9]{1,6})\s*", re.ASCII)
_EXAMPLE = 'write a list such as "1g.10gb=3,3g.40gb=1"'
_MOST = 7 * 16
"""More of one profile than any node has."""


@dataclass(frozen=True, slots=True)
class WantedDevices:
    """MIG devices of one product, by the names that its driver gives them."""

    geometry: Geometry
    counts: dict[MIGProfile, int]
    renamed: dict[MIGProfile, MIGProfile]
    """Names of another driver, with the name of this GPU."""


def read_wanted(text: str, option: str = "--want") -> dict[MIGProfile, int]:
    """Read `1g.10gb=3,3g.40gb=1`, also with the names of resources.

    Raises:
        GenerationError: It is no such list.
    """
    counts: dict[MIGProfile, int] = {}
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise GenerationError(option, f"has {shown(item.strip())}, which is not PROFILE=COUNT; {_EXAMPLE}")
        profile, count = read_profile(match.group(1), option), int(match.group(2))
        if profile in counts:
            raise GenerationError(option, f"has {profile} twice; write it once, with the sum")
        if not 1 <= count <= _MOST:
            raise GenerationError(option, f"has {count} of {profile}; write a number from 1 to {_MOST}")
        counts[profile] = count
    return counts


def read_profile(text: str, option: str) -> MIGProfile:
    """Read a profile as mig-parted or as a resource spells it.

    Raises:
        GenerationError: It is no profile, or one of compute instances that share a GPU instance.
    """
    bare = text.strip().lower().removeprefix(VENDOR_PREFIX).removeprefix("mig-")
    profile = MIGProfile.parse(bare) or MIGProfile.from_label(bare)
    if profile is None:
        raise GenerationError(option, f'has {shown(text)}, which is not a MIG profile; write one such as "1g.10gb"')
    if profile.shares_gpu_instance:
        whole = MIGProfile(profile.gpu_slices, profile.memory_gb, profile.attributes)
        raise GenerationError(option, f'has {profile}, which is a part of a GPU instance; write "{whole}"')
    return profile


def check_profile(profile: MIGProfile, labels: Iterable[str], option: str) -> None:
    """Refuse a profile that none of some products has.

    Raises:
        GenerationError: None of them has it, by this name or one of another driver.
    """
    found = list(dict.fromkeys(product for label in labels if (product := product_named(label))))
    if any(product.match(profile) for product in found):
        return
    has = _profiles_text(found)
    raise GenerationError(option, f"has {profile}, which none of these GPUs has{has and f': {has}'}")


def _profiles_text(products: Iterable[MIGProduct]) -> str:
    return "; ".join(f"{product.name} has {', '.join(product.profiles())}" for product in products)


def divisible_product(choice: ProductChoice, counts: Mapping[MIGProfile, int]) -> tuple[MIGProduct, tuple[str, ...]]:
    """The product that is meant, with the labels of its GPUs: the one that has all the wanted profiles.

    Raises:
        GenerationError: MIG divides none of the products, or several are possible.
    """
    labels: dict[str, list[str]] = {}
    for label in choice.labels:
        if product := product_named(label):
            labels.setdefault(product.name, []).append(label)
    found = [product for product in PRODUCTS if product.name in labels]
    if not found:
        can = ", ".join(product.name for product in PRODUCTS)
        raise GenerationError(
            "--product", f"is {format_list(choice.labels)}, which MIG does not divide; it divides {can}"
        )
    if len(found) > 1:
        exact = [product for product in found if all((m := product.match(each)) and m.exact for each in counts)]
        # Another driver may have other names for the profiles.
        similar = exact or [product for product in found if all(product.match(each) for each in counts)]
        if not similar:
            wanted = format_list([str(each) for each in counts])
            raise GenerationError(
                "--want", f"has {wanted}, which no single one of these GPUs has: {_profiles_text(found)}"
            )
        found = similar
    if len(found) > 1:
        which = " or ".join(f"{product.name} ({labels[product.name][0]})" for product in found)
        raise GenerationError("--product", f"can be {which}; write one of the names in brackets")
    return found[0], tuple(labels[found[0].name])


def wanted_devices(product: MIGProduct, counts: Mapping[MIGProfile, int]) -> WantedDevices:
    """The wanted devices by the names of a product, under the driver that has most of these names.

    Raises:
        GenerationError: The product does not have a profile.
    """
    geometries = [Geometry(memory, product.layout) for memory in product.memory]
    geometry = max(geometries, key=lambda each: sum((m := each.match(one)) is not None and m.exact for one in counts))
    named: dict[MIGProfile, int] = {}
    renamed: dict[MIGProfile, MIGProfile] = {}
    for profile, count in counts.items():
        match = geometry.match(profile)
        if match is None:
            has = ", ".join(str(each.profile) for each in geometry.matches)
            raise GenerationError("--want", f"has {profile}, which {product.name} does not have; its profiles: {has}")
        if match.profile != profile:
            renamed[profile] = match.profile
        named[match.profile] = named.get(match.profile, 0) + count
    return WantedDevices(geometry, named, renamed)


def ordered_counts(counts: Mapping[MIGProfile, int]) -> list[tuple[MIGProfile, int]]:
    """Devices with the large ones first."""
    return sorted(counts.items(), key=lambda item: (-item[0].gpu_slices, -item[0].memory_gb, item[0].attributes))


def counts_text(counts: Mapping[MIGProfile, int]) -> str:
    """Devices as `--want` has them: `3g.40gb=1,1g.10gb=3`."""
    return ",".join(f"{profile}={count}" for profile, count in ordered_counts(counts))
