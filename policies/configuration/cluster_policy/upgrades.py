"""Upgrades: `upgradePolicy` of a ClusterPolicy's driver and of an NVIDIADriver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.upgrade_policies import (
    UpgradePolicy,
    percentage,
    upgrade_policy,
    whole_number,
)
from policies.configuration.components.checks import COMPONENTS
from policies.decision import Severity
from policies.kubernetes.label_selectors import LabelSelectorError, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_NOT_READ = "; it is not read while autoUpgrade is false"


def _unless_idle(policy: UpgradePolicy) -> Severity | None:
    """What a mistake in a policy that is not in force amounts to."""
    return None if policy.runs else Severity.WARN


@COMPONENTS.rule(
    "GA169",
    "Upgrades must set maxUnavailable to a number or a percentage above zero",
    default=Severity.DENY,
    remedy='write a number such as 1, without quotes, or a percentage such as "25%"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go, "
    "github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go",
    rows=("E-01", "E-02", "E-03"),
)
def unavailable_nodes(change: Change) -> Iterator[Problem]:
    """The upgrade controller computes how many nodes it may take out; text that is no percentage stops it each time.

    Zero is understood and means that no node may ever be upgraded, so a new driver version is never rolled out, and
    nothing says so.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    value, severity, idle = policy.value("maxUnavailable"), _unless_idle(policy), "" if policy.runs else _NOT_READ
    path = policy.at("maxUnavailable")
    share = percentage(value)
    number = policy.number("maxUnavailable") if share is None else share
    if isinstance(value, str) and share is None:
        yield _unreadable(policy, value, severity, idle)
    elif number is not None and number < 0:
        yield problem(path, f"is {value}; no upgrade would ever start{idle}", severity=severity)
    elif number == 0 and policy.runs:
        text = f"is {value}, so no node may be upgraded, and no upgrade would ever start"
        yield problem(path, text, 'write 1 or more, or "25%"; to stop upgrades, write autoUpgrade: false')
    elif share is not None and share > 100:
        text = f"is {value}, which allows all nodes to be unavailable at once"
        yield problem(path, text, 'write "100%", or a smaller share', severity=Severity.WARN)


def _unreadable(policy: UpgradePolicy, value: str, severity: Severity | None, idle: str) -> Problem:
    number = whole_number(value)
    cause = f'invalid value "{value}"' if value.endswith("%") else "invalid type: string is not a percentage"
    text = f'is "{value}"; the operator would report: invalid value for IntOrString: {cause}{idle}'
    remedy = None if number is None else f'write {number}, without quotes, or "{number}%"'
    return problem(policy.at("maxUnavailable"), text, remedy, severity=severity)


@COMPONENTS.rule(
    "GA170",
    "Upgrades must set maxParallelUpgrades to a number of nodes, at most maxUnavailable",
    default=Severity.WARN,
    remedy="write how many nodes may be upgraded at once",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go",
    rows=("E-04", "E-05"),
)
def parallel_upgrades(change: Change) -> Iterator[Problem]:
    """Zero does not switch upgrades off: it means without limit, and only `maxUnavailable` holds them back.

    `maxUnavailable` also caps a larger number of parallel upgrades, silently.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.runs:
        return
    parallel, unavailable = policy.number("maxParallelUpgrades"), policy.number("maxUnavailable")
    path = policy.at("maxParallelUpgrades")
    if parallel == 0:
        text = "is 0, which means without limit; as many nodes as maxUnavailable allows are upgraded at once"
        yield problem(path, text, "write how many nodes may be upgraded at once; to stop them, autoUpgrade: false")
    elif parallel is not None and unavailable is not None and 0 < unavailable < parallel:
        text = f"is {parallel}, but maxUnavailable: {unavailable} allows no more than {unavailable}"
        yield problem(path, text, f"write {unavailable}, or raise maxUnavailable")


@COMPONENTS.rule(
    "GA171",
    "Upgrades must select pods by valid label selectors",
    default=Severity.DENY,
    remedy='write a label selector such as "app=training" or "team in (a,b)"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go, k8s.io/apimachinery pkg/labels",
    rows=("E-06", "E-08"),
)
def pod_selectors(change: Change) -> Iterator[Problem]:
    """The selectors are text, which nobody reads before the first upgrade; then the node ends in upgrade-failed.

    The operator adds `,nvidia.com/gpu-driver-upgrade-drain.skip!=true` to the one of `drain`, so a comma at the end is a
    mistake as well. Waiting for completion needs a selector; without one nothing is waited for, whatever the timeout.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    for step in ("drain", "waitForCompletion"):
        selector = policy.text(step, "podSelector")
        in_force = policy.runs and (step != "drain" or policy.value("drain", "enable") is True)
        try:
            parse_label_selector(selector)
        except LabelSelectorError as error:
            idle = (
                ""
                if in_force
                else f"; it is not read while {'drain.enable' if policy.runs else 'autoUpgrade'} is false"
            )
            text = f'"{selector}" is no label selector: {error}{idle}'
            yield problem(policy.at(step, "podSelector"), text, severity=None if in_force else Severity.WARN)
    timeout = policy.number("waitForCompletion", "timeoutSeconds") or 0
    if policy.runs and timeout > 0 and not policy.text("waitForCompletion", "podSelector"):
        text = f"is {timeout}, but without a podSelector no pod is waited for, so it has no effect"
        remedy = "write waitForCompletion.podSelector too, or remove the timeout"
        yield problem(policy.at("waitForCompletion", "timeoutSeconds"), text, remedy, severity=Severity.WARN)
