"""Replaces every word of a snapshot that is not public, consistently in all objects."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any
from uuid import UUID

from policies.conversion.templates import content_name
from policies.kubernetes.names import IGNORE
from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.nvidia.start_failures import known_text
from policies.rules.settings import DEFAULTS
from policies.rules.settings.choices import DRA_DRIVER_NAMESPACES
from policies.rules.settings.exemptions import NEVER_MATCHED
from webhook.cli.snapshots.public_words import PUBLIC_WORDS
from webhook.cli.snapshots.reductions import REDACTED

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource


_OF_KINDS = {
    "Namespace": "namespace",
    "Node": "node",
    "Pod": "pod",
    "NodePool": "nodepool",
    "ResourceClaim": "claim",
    "ResourceClaimTemplate": "template",
    "ResourceSlice": "slice",
    "PodGroup": "group",
}
"""The word that replaces names of a kind, before a number; those of other kinds become `name`."""
_OF_FIELDS = {
    "namespace": "namespace",
    "matchNames": "namespace",
    "nodeName": "node",
    "pool": "node",
    "resourceClaimName": "claim",
    "resourceClaimTemplateName": "template",
    "serviceAccountName": "account",
    "serviceAccount": "account",
    "podGroupName": "group",
    "image": "image",
    "repository": "image",
    "registry": "image",
    "kind": "Kind",
    "uid": "uid",
    "uuid": "uid",
    "labels": "label",
    "matchLabels": "label",
    "nodeSelector": "label",
    "env": "variable",
    "secret": "secret",
    "secretRef": "secret",
    "secretKeyRef": "secret",
    "imagePullSecrets": "secret",
    "configMap": "config",
    "configMapRef": "config",
    "configMapKeyRef": "config",
}
"""The same for the texts of fields, so that people see what a word was. The pools of NVIDIA's DRA driver are named after nodes."""
_SORTS = frozenset({"name", *_OF_KINDS.values(), *_OF_FIELDS.values()})
_PROSE = frozenset({"message", "summary", "description", "displayName", "ips", "hardwareAddress"})
"""Fields with sentences for people, and addresses. Of a message, the text of a known start failure is kept, with other names."""
_REASON = re.compile(r"because [^;\n]+")
"""The reason of a waiver, which is a sentence too."""
_ADDRESS = r"(?<![0-9-])(?<![0-9]\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\.?[0-9]|[a-zA-Z_-])"
"""An IPv4 address: registries and nodes have such names."""
_WORD = re.compile(rf"{_ADDRESS}|(?:[^\W_]|[^\x00-\x7f])+(?:[-_]+(?:[^\W_]|[^\x00-\x7f])+)*")
"""An address or a word; everything between words is kept, such as dots, slashes, quotes and wildcards."""
_HARDWARE = "|".join(
    {
        *(re.escape(part) for product in KNOWN_PRODUCTS for part in product.split("-")),
        *("MIG", "SHARED", "SXM[0-9]", r"[0-9]+(?:GB|gb)", r"[0-9]+[cg]", r"[0-9]+Q", "me", "gfx", "all"),
    }
)
_PUBLIC = re.compile(
    rf"(?:{_HARDWARE})(?:-(?:{_HARDWARE}))*"
    r"|v?[0-9]+(?:(?:alpha|beta)[0-9]+)?|[0-9]+(?:-[0-9]+)+"
    r"|[0-9]+(?:e[0-9]+|[num]|[kKMGTPE]i?B?|gb?|[cshd]|ms)"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}|[0-9]+Z"
    r"|[0-9]+(?:-[0-9]+)*-(?:distroless|grid|py|rc|rhcos|rhel|ubi|ubuntu)[0-9]*|gpu-operator-v[0-9]+"
    r"|GA[0-9]{3}|DCGM_[A-Z0-9_]+|(?:all-|mig-)[0-9]+g|nvidia[0-9]+|0x[0-9A-F]{8}"
)
"""Products, numbers, quantities, times, versions of NVIDIA's images, rules, metrics, MIG profiles, device files and device IDs."""
_DIGIT = "[0-9a-fA-F]"
_HEX = re.compile(
    rf"(GPU-|MIG-|MIG-GPU-|)({_DIGIT}{{8}}-{_DIGIT}{{4}}-{_DIGIT}{{4}}-{_DIGIT}{{4}}-{_DIGIT}{{12}}|{_DIGIT}{{32,}})"
    rf"|(gpu-)({_DIGIT}{{16}})"
)
"""UUIDs of objects and devices, digests, and names of our templates. They are replaced with others of their form."""
_FIRST_ADDRESS = IPv4Address("198.18.0.0")
"""Before the addresses that replace others; those for benchmarks are in no network."""
_HOST = re.compile(r"(?:.*-)?[0-9]{1,3}(?:-[0-9]{1,3}){3}")
"""A name with an address, as nodes of AWS have: `ip-10-1-2-3`."""
_ACCOUNT = re.compile(r"[0-9]{9,}")
"""The number of an account or a project in the name of an image; shorter numbers are versions and dates."""

_OF_CLAIM = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(.+)")
"""The name of a CDI device of NVIDIA's DRA driver: the uid of the claim and the device."""


class ReplacedNames:
    """Replaces every word that is not public, such as by `namespace-1`; equal words by the same."""

    def __init__(self) -> None:
        namespaces = (*DEFAULTS.configuration.operator_namespaces, *DRA_DRIVER_NAMESPACES, *NEVER_MATCHED)
        self._replacements = {word: word for word in (*PUBLIC_WORDS, *namespaces)}
        self._counts: Counter[str] = Counter()

    def rename(self, document: Object) -> Object:
        """An object of a snapshot with other names."""
        metadata = dict(document["metadata"])
        metadata.pop("generateName", None)
        kind, name = document.get("kind"), str(metadata.pop("name", ""))
        # The name comes first, so that it is replaced with the word of its kind.
        renamed_to = self._text(_OF_KINDS.get(str(kind), "name"), name)
        renamed = self._value("", {field: part for field, part in document.items() if field != "metadata"})
        if kind == "ResourceClaimTemplate" and name == content_name(document.get("spec")):
            renamed_to = self._replacements[name] = content_name(renamed["spec"])
        return {**renamed, "metadata": {"name": renamed_to, **self._value("metadata", metadata)}}

    def _value(self, field: str, value: Any) -> Any:
        if isinstance(value, str):
            if field == "message" and (text := known_text(value, partial(self._text, "name"), REDACTED)):
                return text
            return REDACTED if field in _PROSE and value else self._text(_OF_FIELDS.get(field, "name"), value)
        if isinstance(value, list):
            return [self._value(field, item) for item in value]
        if not isinstance(value, dict):
            return value
        if field == "annotations" and isinstance(waiver := value.get(IGNORE), str):
            value = {**value, IGNORE: _REASON.sub(f"because {REDACTED}", waiver)}
        sort = _OF_FIELDS.get(field, "name")
        return {
            self._text(sort, key): self._value(field if key == "name" else key, part) for key, part in value.items()
        }

    def resource(self, resource: Resource) -> Resource:
        """A resource with other names, as objects of a renamed kind have them."""
        return replace(
            resource,
            kind=self._text("Kind", resource.kind),
            plural=self._text("name", resource.plural),
            group=self._text("name", resource.group),
        )

    def namespace(self, name: str) -> str:
        """The other name of a namespace; empty for an empty one."""
        return self._text("namespace", name)

    def _text(self, sort: str, text: str) -> str:
        return self._replacements.get(text) or _WORD.sub(partial(self._word, sort), text)

    def _word(self, sort: str, found: re.Match[str]) -> str:
        word = found[0]
        if word not in self._replacements:
            # Pods, requests and devices are numbered: `train-0` belongs to `train`.
            base, dash, number = word.rpartition("-")
            is_chosen = _HEX.fullmatch(word) or _HOST.fullmatch(word) or (sort == "image" and _ACCOUNT.fullmatch(word))
            if not is_chosen and _PUBLIC.fullmatch(word):
                self._replacements[word] = word
            elif not is_chosen and (of_claim := _OF_CLAIM.fullmatch(word)):
                self._replacements[word] = f"{self._text(sort, of_claim[1])}-{self._text(sort, of_claim[2])}"
            elif not is_chosen and base and number.isdigit() and base not in _SORTS:
                self._replacements[word] = self._text(sort, base) + dash + number
            else:
                self._replacements[word] = self._replacement(sort, word)
        return self._replacements[word]

    def _replacement(self, sort: str, word: str) -> str:
        if digits := _HEX.fullmatch(word):
            self._counts["hex"] += 1
            prefix, replaced = digits[1] or digits[3] or "", digits[2] or digits[4]
            number = f"{self._counts['hex']:0{len(replaced.replace('-', ''))}x}"
            return prefix + (str(UUID(number)) if "-" in replaced else number)
        if "." in word:
            self._counts["address"] += 1
            return str(_FIRST_ADDRESS + self._counts["address"])
        self._counts[sort] += 1
        # Identifiers of CEL have no dashes.
        return f"{sort}{'-' if '-' in word else ''}{self._counts[sort]}"
