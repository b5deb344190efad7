"""Together: whether the pods that a workload runs side by side fit into a quota, told before its controller makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.quota.ledger.reservations import ZERO, added
from policies.quota.limits.amounts import spoken
from policies.quota.limits.quota import NAME
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from policies.decision import Finding
    from policies.kubernetes.workload_counts import PodCount
    from policies.quota.charges import Amounts, Charge
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Limit, Quota

__all__ = ["TOGETHER", "PodsAtOnce", "together"]

TOGETHER = rule(
    "GA506",
    "The pods of a workload fit into the quota together",
    default=Severity.WARN,
    why="""
    Each pod of a workload is charged when it is created. Those beyond the quota are refused one by one, which shows only
    in the events of a ReplicaSet or a Job: some pods run and hold GPUs, while the others never come, and training that
    needs all of them waits for ever. So it is told when the workload is applied, or when more pods are asked of it.
    """,
    remedy="ask for fewer pods or GPUs, or ask whoever writes GPUQuota gpu for more",
    source="docs/quota.md",
    wrong="""
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train, namespace: team-a}
    spec:
      parallelism: 3
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: train, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
    ---
    apiVersion: gpu-admission.io/v1alpha1
    kind: GPUQuota
    metadata: {name: gpu, namespace: team-a}
    spec:
      limits:
      - {name: all, gpus: 8}""",
    right="""
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train, namespace: team-a}
    spec:
      parallelism: 2
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: train, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
    ---
    apiVersion: gpu-admission.io/v1alpha1
    kind: GPUQuota
    metadata: {name: gpu, namespace: team-a}
    spec:
      limits:
      - {name: all, gpus: 8}""",
)


@dataclass(frozen=True, slots=True)
class PodsAtOnce:
    """Pods of one template."""

    charge: Charge
    """Of one of them."""
    count: PodCount

    @property
    def each(self) -> Amounts:
        """What one of them comes to, by limit."""
        total: Amounts = {}
        for bill in self.charge.pieces.values():
            total = added(total, bill.amounts)
        return total


def together(pods: Sequence[PodsAtOnce], quota: Quota, ledger: Ledger, *, is_new: bool) -> Iterator[Finding]:
    """Limits that all pods of a workload do not fit into. Of a new one whose pods do not even fit alone, each is told so.

    Args:
        pods: By the templates of the workload.
        quota: Of its namespace.
        ledger: What there is. A limit that is not primed is not spoken of.
        is_new: Whether the workload is being created: the pods of one that exists are in the ledger already, so that it
            can only be compared with all that the quota allows.
    """
    for limit in quota.limits:
        used = ledger.used(limit)
        touching = [each for each in pods if each.count.pods and each.each.get(limit.name)]
        if used is None or not touching:
            continue
        taken = used + ledger.reservations.total.get(limit.name, ZERO) if is_new else ZERO
        left = max(ZERO, limit.hard - taken)
        asked = sum((each.count.pods * each.each[limit.name] for each in touching), ZERO)
        if asked > left and not (is_new and any(each.each[limit.name] > left for each in touching)):
            largest = max(touching, key=lambda each: each.count.pods * each.each[limit.name])
            yield TOGETHER.finding(largest.count.path, _said(limit, touching, asked, left))


def _said(limit: Limit, pods: Sequence[PodsAtOnce], asked: Fraction, left: Fraction) -> str:
    number = sum(each.count.pods for each in pods)
    wanted = f"{'1 pod asks' if number == 1 else f'{number:,} pods at once ask'} for {_amount(limit, asked)}"
    if asked > limit.hard:
        room = f"{limit.name} of GPUQuota {NAME} never has more than {_amount(limit, limit.hard)}"
    else:
        room = f"{_left(limit, left)} left of {_amount(limit, limit.hard)} for {limit.name} of GPUQuota {NAME}"
    return f"{wanted}, and {room}, so {_outcome(limit, pods, left)}"


def _outcome(limit: Limit, pods: Sequence[PodsAtOnce], left: Fraction) -> str:
    if len(pods) > 1:
        return "not all of them are created until some end"
    fitting = left // pods[0].each[limit.name]
    if not fitting:
        return "none is created"
    return f"{fitting:,} {'is' if fitting == 1 else 'are'} created, and the others refused until some end"


def _amount(limit: Limit, amount: Fraction) -> str:
    return f"{spoken(limit.unit, amount)} of memory" if limit.unit == "memory" else spoken(limit.unit, amount)


def _left(limit: Limit, amount: Fraction) -> str:
    return f"{_amount(limit, amount)} {'is' if limit.unit == 'memory' or 0 < amount <= 1 else 'are'}"
