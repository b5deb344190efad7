"""Settings without effect: another setting takes precedence, or a setting that they need is missing."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.kubernetes.names import closest, shown
from policies.kubernetes.objects import FieldPath
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.releases import DRIVER_GATES
from policies.rules.checks import Problem
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import ACCESS, CONVERSION, exemption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.rules.checks import RuleBook
    from policies.rules.decision import Rule
    from policies.rules.request import Concern
    from policies.rules.settings.choices import GPUAdmissionPolicy, RuleOverride, WishDefault


_CONCERNS: dict[str, Concern | None] = {
    "claims": None,
    "conversion": "conversion",
    "placement": None,
    "quota": "quota",
    "access": "access",
}
"""The exemption that turns off the rules of a subject in a namespace; ConfigMaps and settings have none."""
_SEVERITIES: dict[str, Callable[[GPUAdmissionPolicy], str]] = {
    "access.legacyRuntime": lambda settings: str(settings.access.legacy_runtime).lower(),
    "access.mode": lambda settings: settings.access.mode,
    "configuration.clusterPolicyDeletion": lambda settings: settings.configuration.cluster_policy_deletion,
    "conversion.nativeQuota": lambda settings: settings.conversion.native_quota,
    "conversion.unsatisfiable": lambda settings: settings.conversion.unsatisfiable,
    "placement.unsatisfiable": lambda settings: settings.placement.unsatisfiable,
}
"""Settings that set the severity of rules."""
_SECOND_SETTINGS = {"GA313": "placement.unsatisfiable"}
"""Second settings that set the severity of a rule. GA313: no device matches the pod's wish."""
_SWITCHES: dict[str, Callable[[GPUAdmissionPolicy], bool]] = {
    "conversion.allowPodOptOut": lambda settings: settings.conversion.allow_pod_opt_out,
    "placement.avoidSharedGPUs": lambda settings: settings.placement.avoid_shared_gpus,
}
"""Settings that rules need."""
NEEDS = {
    "GA317": ("conversion.allowPodOptOut", True),
    "GA318": ("conversion.allowPodOptOut", False),
    "GA411": ("placement.avoidSharedGPUs", True),
}
"""By rule: a setting, and the value that it must have for the rule to report anything."""
_EVERY = "*"
RULE_NAME_REMEDY = "remove the entry, or name a rule that gpu-admission rules lists"
"""The remedy for a name that stands for no rule that can be set."""


def settings_remarks(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    """Settings without effect; they are still valid."""
    yield from ineffective_names(settings, rules)
    yield from idle_settings(settings, rules)


def ineffective_names(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    """Names of unknown rules, and of rules that settings cannot change.

    Such settings are still valid, because they may be written for another version.
    """
    for index, override in enumerate(settings.rules):
        named = rules.get(override.rule)
        path = _at("rules") / index / "rule"
        if named is None:
            text = f"rule {override.rule} does not exist in this version, so its severity has no effect"
            yield Problem(path, text, RULE_NAME_REMEDY)
        elif named.fixed:
            text = f"settings cannot change {named.id}, so its severity stays {named.default}"
            yield Problem(path, text, RULE_NAME_REMEDY)
    for index, exempt in enumerate(settings.exemptions):
        for number, pattern in enumerate(exempt.from_):
            matches = [rule for rule in rules.rules if fnmatchcase(rule.id, pattern)]
            if pattern in (CONVERSION, ACCESS) or any(not rule.fixed for rule in matches):
                continue
            reason = f"{pattern} allows no exemptions" if matches else f"no rule matches {pattern} in this version"
            path = _at("exemptions") / index / "from" / number
            yield Problem(path, f"{reason}, so this entry has no effect", RULE_NAME_REMEDY)


def idle_settings(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    """Settings without effect, except names of unknown rules, which `ineffective_names` reports."""
    yield from _overrides(settings, rules)
    yield from _overridden_severities(settings, rules)
    yield from _placement(settings)
    yield from _exemptions(settings, rules)
    yield from _weights(settings)
    yield from _driver(settings)


def _overrides(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    for index, override in enumerate(settings.rules):
        rule = rules.get(override.rule)
        if rule is None or rule.fixed:
            continue
        path = _at("rules") / index
        later = _later(settings.rules, index, [n for n, each in enumerate(settings.rules) if each.rule == rule.id])
        if later is not None:
            text = f"rules[{later}] sets {rule.id} for the same namespaces, and the later entry wins"
            yield Problem(path, text, "remove one of the two")
        elif rule.cluster_scoped and not override.holds_in(""):
            text = f"{rule.id} is about objects without a namespace, so namespaces never match them"
            yield Problem(path / "namespaces", text, "leave namespaces out")
        elif where := _exempt_namespaces(rule, override, settings):
            yield Problem(path / "namespaces", f"{rule.id} finds nothing in {where}", "remove the entry")
        elif override.severity is not Severity.OFF:
            yield from _never_found(rule, override, settings, path, rules)


def _exempt_namespaces(rule: Rule, override: RuleOverride, settings: GPUAdmissionPolicy) -> str:
    """The reason why a rule is off in every namespace of an entry; empty if it is on in one."""
    if rule.subject not in _CONCERNS or _EVERY in override.namespaces:
        return ""
    reasons = [exemption(_CONCERNS[rule.subject], pattern, settings) for pattern in override.namespaces]
    return f"{' and '.join(override.namespaces)}: {reasons[0]}" if all(reasons) else ""


def _never_found(
    rule: Rule, override: RuleOverride, settings: GPUAdmissionPolicy, path: FieldPath, rules: RuleBook
) -> Iterator[Problem]:
    if rule.id in NEEDS:
        name, wanted = NEEDS[rule.id]
        if _SWITCHES[name](settings) is not wanted:
            is_set, needed = ("false", "true") if wanted else ("true", "false")
            text = f"{rule.id} finds nothing while spec.{name} is {is_set}"
            yield Problem(path, text, f"set spec.{name}: {needed}, or remove the entry")
    others = rules.grounds_of(rule)
    if not others or override.severity is not Severity.DENY:
        return
    ids = [other.id for other in others]
    decided = {"access.mode", *(["access.legacyRuntime"] if settings.access.legacy_runtime else [])}
    mode = Severity(settings.access.mode)
    severities = {
        settings.severity_of(other.id, mode if other.setting in decided else other.default, "") for other in others
    }
    severities |= {each.severity for each in settings.rules if each.rule in ids}
    if Severity.DENY not in severities:
        text = (
            f"{rule.id} is found only beside a finding of {', '.join(ids[:-1])} or {ids[-1]}, and none of "
            "them refuses anything; privileges alone are always admitted"
        )
        remedy = "set spec.access.mode: deny; to refuse privileged pods, enforce the Pod Security level baseline"
        yield Problem(path, text, remedy)


def _overridden_severities(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    """Settings of severities that entries of `rules` override in every namespace."""
    everywhere = {each.rule for each in settings.rules if _EVERY in each.namespaces}
    for name, value in _SEVERITIES.items():
        ruled = [rule.id for rule in rules.rules if name in (rule.setting, _SECOND_SETTINGS.get(rule.id))]
        if value(settings) != value(DEFAULTS) and everywhere.issuperset(ruled):
            text = f"is {value(settings)}, but spec.rules sets {' and '.join(ruled)} everywhere, which wins"
            yield Problem(_at(name), text, "remove the entries of spec.rules, or this setting")


def _placement(settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    placement, path = settings.placement, _at("placement")
    for index, default in enumerate(placement.wishes):
        for word in default.wish:
            later = _later(placement.wishes, index, [n for n, each in enumerate(placement.wishes) if word in each.wish])
            if later is not None:
                text = f"wishes[{later}] says {word} for the same namespaces, and the later entry wins"
                yield Problem(path / "wishes" / index / "wish" / word, text, "remove one of the two")
        yield from _never_reached(path / "wishes" / index, default.namespaces, settings)
    says = [
        index for index, each in enumerate(placement.wishes) if "sharing" in each.wish and _EVERY in each.namespaces
    ]
    if placement.avoid_shared_gpus and says:
        text = f"is true, but wishes[{says[-1]}] says for every pod whether it takes shared GPUs"
        yield Problem(path / "avoidSharedGPUs", text, "remove one of the two")
    for index, taint in enumerate(placement.tolerations):
        is_always = placement.tolerate_gpu_nodes == "Always"
        if is_always and (taint.key, taint.effect) == (GPU_RESOURCE, "NoSchedule"):
            yield Problem(path / "tolerations" / index, "every GPU pod tolerates it already", "remove the entry")
        yield from _never_reached(path / "tolerations" / index, taint.namespaces, settings)
        for number, other in enumerate(placement.tolerations[:index]):
            same = (other.key, other.effect) == (taint.key, taint.effect) and other.value in ("", taint.value)
            if same and _covers(other.namespaces, taint.namespaces):
                text = f"the pods that it is for tolerate it already, by tolerations[{number}]"
                yield Problem(path / "tolerations" / index, text, "remove one of the two")
                break


def _never_reached(path: FieldPath, namespaces: Sequence[str], settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    reasons = [exemption(None, each, settings) for each in namespaces]
    if all(reasons):
        yield Problem(
            path / "namespaces", f"holds in {' and '.join(namespaces)} only: {reasons[0]}", "remove the entry"
        )


def _exemptions(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    for index, each in enumerate(settings.exemptions):
        named = [rule for rule in rules.rules if any(fnmatchcase(rule.id, pattern) for pattern in each.from_)]
        if named and not each.holds_in("") and all(rule.cluster_scoped for rule in named):
            text = f"{' and '.join(each.from_)} is about objects without a namespace, so namespaces never match them"
            yield Problem(_at("exemptions") / index / "namespaces", text, "leave namespaces out")
    if _EVERY in settings.access.exempt_namespaces and settings.access.mode == "deny":
        text = "is deny, but access.exemptNamespaces exempts every namespace"
        yield Problem(_at("access.mode"), text, 'remove "*" from access.exemptNamespaces')
    if _EVERY in settings.quota.exempt_namespaces and settings.quota != DEFAULTS.quota:
        text = "exempts every namespace, so no GPUQuota limits anything"
        yield Problem(_at("quota.exemptNamespaces"), text, 'remove "*"')


def _weights(settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    weights = settings.quota.weights
    for index, weight in enumerate(weights):
        for later in range(index + 1, len(weights)):
            if weights[later].sharing == weight.sharing and _covers(weights[later].products, weight.products):
                text = f"weights[{later}] is for the same products, and the later entry wins"
                yield Problem(_at("quota.weights") / index, text, "remove one of the two")
                break


def _driver(settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    path = _at("draDriver")
    for gate in settings.dra_driver.feature_gates or {}:
        if gate not in DRIVER_GATES and (meant := closest(gate, DRIVER_GATES, likeness=0.8)):
            yield Problem(path / "featureGates" / gate, "NVIDIA's DRA driver has no such gate", f"write {meant}")
    version = settings.dra_driver.version
    if version and not any(letter.isdigit() for letter in version):
        yield Problem(path / "version", f"is {shown(version)}, which is not a release", 'write one such as "25.8.0"')


def _at(name: str) -> FieldPath:
    return FieldPath(("spec", *name.split(".")))


def _later(entries: Sequence[RuleOverride | WishDefault], index: int, same: Sequence[int]) -> int | None:
    """The first later entry among `same` that covers all namespaces of this one."""
    wins = (number for number in same if _covers(entries[number].namespaces, entries[index].namespaces))
    return next((number for number in wins if number > index), None)


def _covers(patterns: Sequence[str], others: Sequence[str]) -> bool:
    """True if patterns match everything that others match: they include all of them, or `*`."""
    return _EVERY in patterns or set(others) <= set(patterns)
