"""DeviceTaintRules: valid fields, the devices that they select, and the pods that they end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from policies.claims.claim_subject import TAINT_RULES
from policies.claims.field_errors import (
    LONGEST_SUBDOMAIN,
    REQUIRED,
    driver_name_error,
    invalid,
    label_error,
    label_key_error,
    label_value_error,
    subdomain_error,
    too_long,
    unsupported_value,
)
from policies.devices.device_taint_rules import EFFECTS, NO_EXECUTE, PREVENTING, are_applied, read_rule
from policies.devices.published_devices import published_devices
from policies.fleet.device_evictions import tainted_pods
from policies.kubernetes.names import closest, format_count, format_list, printable, write_closest
from policies.kubernetes.objects import FieldPath, lookup, mapping_at
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import COMPUTE_DOMAIN_DRIVER, DRIVER
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.claim_subject import Subject
    from policies.devices.device_taint_rules import DeviceTaintRule
    from policies.kubernetes.view import ClusterView


_SELECTOR = FieldPath(("spec", "deviceSelector"))
_TAINT = FieldPath(("spec", "taint"))
_FIELDS = ("driver", "pool", "device")


@TAINT_RULES.rule(
    "GA260",
    "A DeviceTaintRule must have a valid taint and valid names in its selector",
    remedy="add a taint with a key and an effect",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceTaintRuleSpec",
)
def valid_taint_rule(subject: Subject) -> Iterator[Problem]:
    """A rule has one taint, with a key and an effect, and selects by driver, pool and device.

    An empty name selects nothing and is refused; a field that is left out stands for all.
    """
    selector, taint = mapping_at(subject.spec, ("deviceSelector",)), lookup(subject.spec, ("taint",))
    for field, error_of in zip(_FIELDS, (driver_name_error, _pool_error, label_error), strict=True):
        name = selector.get(field)
        if isinstance(name, str) and (not name or (error := error_of(name))):
            text = invalid(name, error) if name else REQUIRED
            yield Problem(_SELECTOR / field, text, f"write the name of a {field}, or remove it to select every {field}")
    if not isinstance(taint, dict):
        if taint is None:
            yield Problem(_TAINT, REQUIRED)
        return
    key, value, effect = (taint.get(field) for field in ("key", "value", "effect"))
    if not key:
        yield Problem(_TAINT / "key", REQUIRED, "write a key of your own domain, such as example.com/repair")
    elif isinstance(key, str) and (error := label_key_error(key)):
        yield Problem(_TAINT / "key", invalid(key, error), "write a key such as example.com/repair")
    if isinstance(value, str) and (error := label_value_error(value)):
        yield Problem(_TAINT / "value", invalid(value, error), "write a value that a label can have")
    if not effect:
        yield Problem(_TAINT / "effect", REQUIRED, f"write one of {', '.join(EFFECTS)}")
    elif isinstance(effect, str) and effect not in EFFECTS:
        remedy = write_closest(effect, EFFECTS, f"write one of {', '.join(EFFECTS)}")
        yield Problem(_TAINT / "effect", unsupported_value(effect, EFFECTS), remedy)


def _pool_error(name: str) -> str:
    if len(name) > LONGEST_SUBDOMAIN:
        return too_long(LONGEST_SUBDOMAIN)
    return next(filter(None, map(subdomain_error, name.split("/"))), "")


@TAINT_RULES.rule(
    "GA261",
    "A DeviceTaintRule must select devices of a cluster that applies it",
    default=Severity.WARN,
    remedy="write the names as the ResourceSlices have them",
    source="k8s.io/dynamic-resource-allocation resourceslice/tracker; k8s.io/kubernetes pkg/controller/devicetainteviction; "
    "kubernetes/kubernetes issue 141620, pull request 139651",
)
def effective_taint_rule(subject: Subject) -> Iterator[Problem]:
    """A rule that selects no device is stored silently, and the devices that it is meant for stay in use.

    Until Kubernetes 1.36.2, kube-scheduler reads rules in the wrong version: it ignores them, and crashes when slices change.

    Without deviceSelector, a rule ends no pods, while schedulers before the fix in later releases of 1.37 keep all devices of
    the cluster from new pods.
    """
    rule, view = read_rule(subject.object), subject.facts.view
    if rule is None:
        return
    if are_applied(view) and Feature.RulesStopScheduler.is_on(view) is True:
        text = "while a rule exists, kube-scheduler 1.36.0 to 1.36.2 crashes as soon as a ResourceSlice is added or changed"
        yield Problem(FieldPath(("spec",)), text, "upgrade kube-scheduler to 1.36.3 or newer first")
    if not are_applied(view):
        gates = f"{Feature.DRADeviceTaints.name} and {Feature.DRADeviceTaintRules.name}"
        text = f"has no effect unless the feature gates {gates} are on, and this cluster does not show that they are"
        yield Problem(FieldPath(("spec",)), text, "turn them on in API server, scheduler and controller manager")
    elif not rule.has_selector:
        text = "is missing, so the rule ends no pods"
        if Feature.RulesWithoutSelector.is_on(view) is True:
            text += ", and schedulers with a bug of this version keep all devices of the cluster from new pods"
        remedy = "name a driver, a pool or a device; deviceSelector: {} selects every device"
        yield Problem(_SELECTOR, text, remedy)
    else:
        yield from _without_devices(rule, view.derive(_device_names))


def _without_devices(rule: DeviceTaintRule, names: _DeviceNames) -> Iterator[Problem]:
    """The first field of a selector that leaves no known device."""
    drivers = [names[rule.driver]] if rule.driver in names else [] if rule.driver else list(names.values())
    pools = [pool for driver in drivers for pool in ((rule.pool,) if rule.pool else driver) if pool in driver]
    if not names:
        return
    if not drivers:
        field, known = "driver", set(names)
    elif not pools:
        field, known = "pool", {pool for driver in drivers for pool in driver}
    elif rule.device and not any(rule.device in driver.get(pool, ()) for driver in drivers for pool in pools):
        field = "device"
        known = {device for driver in drivers for pool in pools for device in driver.get(pool, ())}
    else:
        return
    wanted = str(getattr(rule, field))
    guess = closest(wanted, sorted(known))
    remedy = f"write {field}: {printable(guess)}" if guess else None
    chosen = [f"{each} {getattr(rule, each)}" for each in _FIELDS[: _FIELDS.index(field)] if getattr(rule, each)]
    among, noun = f" of {format_list(chosen)}" if chosen else "", "name" if field == "device" else field
    yield Problem(_SELECTOR / field, f'no device{among} has the {noun} "{printable(wanted)}"', remedy)


_DeviceNames = dict[str, dict[str, list[str]]]
"""The names of devices by driver and pool."""


def _device_names(view: ClusterView) -> _DeviceNames:
    """All devices of the cluster; empty if they are unknown."""
    published = view.derive(published_devices)
    found: _DeviceNames = {}
    for group in () if published is UNKNOWN else published.groups:
        for device in group.devices:
            found.setdefault(device.driver, {}).setdefault(device.pool, []).append(device.name)
    return found


@TAINT_RULES.rule(
    "GA262",
    "A DeviceTaintRule must name the devices that it taints",
    default=Severity.WARN,
    remedy="name a driver, a pool or a device",
    source="k8s.io/api/resource/v1/types.go DeviceTaintSelector; kubernetes/kubernetes issue 141422",
)
def narrow_taint_rule(subject: Subject) -> Iterator[Problem]:
    """An empty selector selects every device of every driver, so one short rule stops the whole cluster.

    It is also what is left of a selector whose fields the API server does not know: deviceClassName and selectors are gone
    since Kubernetes 1.35, and clients without strict decoding get no error.
    """
    rule = read_rule(subject.object)
    if rule is None or not rule.has_selector or rule.taint["effect"] not in PREVENTING:
        return
    consequence = "and ends the pods that use them" if rule.taint["effect"] == NO_EXECUTE else "for new pods"
    if all(getattr(rule, field) is None for field in _FIELDS):
        yield Problem(_SELECTOR, f"is empty: the rule taints every device of every driver {consequence}")
        return
    gpus = subject.facts.view.derive(_device_names).get(DRIVER, {})
    selects_all = all(
        rule.selects_in(DRIVER, pool) and (rule.device is None or {rule.device} == set(names))
        for pool, names in gpus.items()
    )
    number = sum(map(len, gpus.values())) if selects_all else 0
    if number > 1:
        count = format_count(number, "device")
        yield Problem(_SELECTOR, f"selects all {count} of {DRIVER} {consequence}", "name a pool or a device")


@TAINT_RULES.rule(
    "GA263",
    "A DeviceTaintRule must not end running pods unseen",
    default=Severity.WARN,
    remedy='write effect: "None"',
    source="k8s.io/kubernetes pkg/controller/devicetainteviction",
)
def evicting_taint_rule(subject: Subject) -> Iterator[Problem]:
    """The effect NoExecute deletes the pods that use a device, unless their claims tolerate it.

    PodDisruptionBudgets and priorities do not count. With the effect None, the status of the rule says how many pods it would
    end; `gpu-admission plan` says which, and where they can start again.
    """
    rule, view = read_rule(subject.object), subject.facts.view
    before = None if subject.old is None else read_rule(subject.old)
    if rule is None or not rule.has_selector or rule.taint["effect"] != NO_EXECUTE or not are_applied(view):
        return
    ended, already = (
        {each.key for each in tainted_pods(view, rules, counts_drivers=False) if each.ends}
        for rules in ([rule], [] if before is None or before.taint["effect"] != NO_EXECUTE else [before])
    )
    new = sorted(ended - already)
    if not new:
        return
    namespaces = Counter(namespace for namespace, _ in new)
    pods = format_count(len(new), "running pod")
    where = format_list([f"{name} ({count})" for name, count in namespaces.most_common()], 3)
    yield Problem(_TAINT / "effect", f"ends {pods} with devices that the rule selects, in namespace {where}")


_KEYS = {f"{DRIVER}/{name}" for name in ("gpu-lost", "unmonitored", "xid")}
"""Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_health.go."""


@TAINT_RULES.rule(
    "GA264",
    "A DeviceTaintRule must not use the keys of a driver",
    default=Severity.WARN,
    remedy="write a key of your own domain, such as example.com/repair",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_health.go",
)
def own_taint_key(subject: Subject) -> Iterator[Problem]:
    """A taint in the domain of a driver says what the driver found, such as an XID error of the GPU.

    A rule with such a key makes a healthy GPU look broken to people and to tools, and claims that tolerate what the driver
    says tolerate the rule as well.
    """
    rule = read_rule(subject.object)
    if rule is None:
        return
    key = rule.taint["key"]
    drivers = {DRIVER, COMPUTE_DOMAIN_DRIVER} | set(subject.facts.view.derive(_device_names))
    domain = key.rpartition("/")[0]
    if domain in drivers:
        use = (
            f"a key with which {domain} reports the health of its devices"
            if key in _KEYS
            else f"in the domain of {domain}"
        )
        yield Problem(_TAINT / "key", f'"{printable(key)}" is {use}; claims that tolerate that tolerate this rule too')
