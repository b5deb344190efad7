"""Recounting: the used amounts of a quota from lists of pods and claims, and the conditions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.kubernetes.bounds import count_work
from policies.kubernetes.names import QUOTA_LABEL, format_list
from policies.kubernetes.objects import mappings_at
from policies.quota.ledger.open_charges import ZERO, OpenCharge, add_amounts, subtract_amounts
from policies.quota.ledger.status import Count, Versions
from policies.quota.limits.quota import ENFORCED
from policies.rules.charges import OWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.ledger.open_charges import Reservations
    from policies.quota.limits.quota import Quota, QuotaError
    from policies.rules.charges import Amounts


_UNITS = 3
"""Units of work for each object of a snapshot."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A pod or a claim that a list shows."""

    uid: str
    kind: str
    name: str
    owner: str = ""
    """Of a claim that was made for a pod or a PodGroup: the uid of that object. A claim for extended resources has one only
    if the pod's `status.extendedResourceClaimStatus` names it, because it then counts for the pod's own devices. For any
    other, the ownerReference and the annotation suffice: a forged one harms only its author."""
    piece: str = OWN
    """The claim of the pod or group that it was made for; `OWN` for a pod's extended resources."""
    amounts: Amounts = field(default_factory=dict)
    """Under the quota's limits: of its allocated devices, or the largest possible while it has none. Empty for a pod that
    has ended; a pod that is being deleted counts until it is gone."""
    ended: bool = False
    """True for a pod that has succeeded or failed."""
    claims: Collection[str] | None = None
    """The names in the `spec.resourceClaims` of a pod; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class SharedClaims:
    """The claims that a pod shares with its PodGroup."""

    uid: str
    """The group's."""
    name: str
    pieces: frozenset[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All pods and all claims of a namespace, as two lists show them."""

    pods: Mapping[str, Counted]
    claims: Mapping[str, Counted]
    pods_version: str
    claims_version: str
    """The resourceVersions of the lists; they need not be the same."""
    gone: Collection[str] = ()
    """The uids of some objects that were seen before and are gone, or are pods that have ended. A uid never returns, so this
    holds for any versions of the lists."""
    shares: Mapping[str, SharedClaims] = field(default_factory=dict)
    """The shared claims of charged pods, by the uids of the pods."""


def recount(ledger: Ledger, quota: Quota, snapshot: Snapshot) -> Ledger | None:
    """The ledger with `used` counted again, and without the charges of listed objects.

    Every charged object is on the ledger or in lists that are no older than those last counted, so `used` plus the open
    charges is never less than the actual use. A piece that no list shows stays charged, with one exception: a pod that is
    gone or has ended gets no more claims, and claims for it that are still being created are charged themselves.

    Returns:
        None if one of the lists is older than the one last counted, or its resourceVersion cannot be compared: it may
        lack an object whose charge is closed already.
    """
    versions = Versions.of(snapshot.pods_version, snapshot.claims_version)
    if versions is None or (ledger.counted is not None and not versions.reach(ledger.counted)):
        return None
    count_work(_UNITS * (len(snapshot.pods) + len(snapshot.claims)))
    made = _made_claims(snapshot.claims.values())
    shared = _move_to_groups(ledger.reservations, snapshot.shares)
    unseen = shared.map(lambda charge: _open_part(charge, ledger, snapshot, made))
    backed = unseen.map(lambda claim: _with_counted_amounts(claim, snapshot, made))
    counted_once = backed.map(lambda charge: replace(charge, late=False) if charge.late else charge)
    settled = replace(ledger, reservations=counted_once).under(quota)
    used = _total_use(snapshot, made)
    limits = {
        name: Count(count.key, used.get(name, ZERO) if count.key else None) for name, count in settled.limits.items()
    }
    return replace(settled, limits=limits, counted=versions)


def _move_to_groups(reservations: Reservations, shares: Mapping[str, SharedClaims]) -> Reservations:
    """The charges, with pieces that pods were charged before their PodGroup was seen moved to the group.

    If the controller does not know the group and makes a claim for the pod, that claim is charged itself.
    """
    moved: dict[str, OpenCharge] = {}
    for charge in reservations:
        group = shares.get(charge.uid)
        pieces = {} if group is None else {name: bill for name, bill in charge.pieces.items() if name in group.pieces}
        if group is not None and pieces:
            before = moved.get(group.uid) or reservations.get(group.uid)
            before = before or OpenCharge(group.uid, "PodGroup", group.name, charge.time, {})
            moved[group.uid] = before.with_pieces(pieces)
    kept = reservations.map(
        lambda charge: charge.without(shares[charge.uid].pieces) if charge.uid in shares else charge
    )
    for charge in moved.values():
        kept = kept.with_charge(charge)
    return kept


def _made_claims(claims: Iterable[Counted]) -> dict[tuple[str, str], Amounts]:
    """The total amounts of the claims for each piece of a pod or PodGroup."""
    made: dict[tuple[str, str], Amounts] = {}
    for claim in claims:
        if claim.owner:
            group = (claim.owner, claim.piece)
            made[group] = add_amounts(made[group], claim.amounts) if group in made else claim.amounts
    return made


def _open_part(
    charge: OpenCharge, ledger: Ledger, snapshot: Snapshot, made: Mapping[tuple[str, str], Amounts]
) -> OpenCharge | None:
    """The part of a charge that is still open; None if nothing is.

    A claim for extended resources stays while its pod's own charge does; otherwise that charge would cover another claim.
    """
    if charge.uid in snapshot.gone:
        return None
    if charge.kind == "ResourceClaim":
        is_cover = charge.of is not None and charge.of[1] == OWN and charge.of[0] not in snapshot.pods
        is_kept = is_cover and ledger.reservations.is_expected(charge)
        return charge if is_kept or charge.uid not in snapshot.claims else None
    pod = snapshot.pods.get(charge.uid)
    if charge.kind == "Pod" and (pod.ended if pod is not None else OWN not in charge.pieces):
        return None
    left = {
        name: bill
        for name, bill in charge.pieces.items()
        if (pod is None if name == OWN else (charge.uid, name) not in made and (pod is None or _may_get(pod, name)))
    }
    if not left:
        return None
    return charge if len(left) == len(charge.pieces) else replace(charge, pieces=left)


def _may_get(pod: Counted, piece: str) -> bool:
    """True if a claim may still be made for a piece of a stored pod. Forged charges may have other pieces."""
    return pod.claims is None or piece in pod.claims


def _with_counted_amounts(claim: OpenCharge, snapshot: Snapshot, made: Mapping[tuple[str, str], Amounts]) -> OpenCharge:
    """The charge of a claim for extended resources, with the part that `used` contains through its pod."""
    if claim.of is None or claim.of[1] != OWN:
        return claim
    pod = snapshot.pods.get(claim.of[0])
    own = {} if pod is None or pod.ended else pod.amounts
    return replace(
        claim, counted={name: left for name, left in subtract_amounts(own, made.get(claim.of, {})).items() if left}
    )


def _total_use(snapshot: Snapshot, made: Mapping[tuple[str, str], Amounts]) -> Amounts:
    """The sum of all amounts; a mapping that thousands share is multiplied, not added up."""
    parts = [claim.amounts for claim in snapshot.claims.values()]
    for pod in snapshot.pods.values():
        if not pod.ended:
            taken = made.get((pod.uid, OWN))
            parts.append(subtract_amounts(pod.amounts, taken) if taken else pod.amounts)
    times: dict[int, tuple[Amounts, int]] = {}
    for amounts in parts:
        times[id(amounts)] = (amounts, times.get(id(amounts), (amounts, 0))[1] + 1)
    used: dict[str, Fraction] = {}
    for amounts, count in times.values():
        for name, amount in amounts.items():
            used[name] = used.get(name, ZERO) + count * amount
    return used


_READY, _ENFORCED = "Ready", "Enforced"
_MOST_NAMED = 5
_LONGEST = 1000
"""Characters of a reason; conditions that are much longer are not carried along with the ledger."""


def ready_condition(ledger: Ledger, quota: Quota, *, guesses_memory: bool, began_anew: bool) -> Object:
    """The condition Ready after counting: True if every limit was counted.

    Args:
        ledger: With the counted amounts.
        quota: Of the namespace.
        guesses_memory: True if memory counted as 0 because the memory of every GPU is unknown.
        began_anew: True if the lists that were counted before are from another history of the API server.
    """
    missing = [limit.name for limit in quota.limits if ledger.used_amount(limit) is None]
    if missing:
        noun, it = ("limit", "it") if len(missing) == 1 else ("limits", "them")
        return not_counted_condition(
            f"{noun} {', '.join(missing)} cannot be counted while the amount of an open charge under {it} is unknown; counting "
            "resumes when the charged object is seen, or after two minutes"
        )
    sentences = ["All pods and claims of the namespace were counted."]
    if guesses_memory:
        sentences.append(
            "No node and no ResourceSlice says how much memory a GPU has, so memory counts as 0 unless the product says "
            "it; make GPU Feature Discovery label GPU nodes with nvidia.com/gpu.memory."
        )
    if began_anew:
        sentences.append(
            "The last count was made from newer lists than the API server has, as after etcd was restored from a backup, "
            "so counting began anew."
        )
    return _condition(_READY, "True", "Counted", " ".join(sentences))


def not_counted_condition(why: str) -> Object:
    """The condition Ready if counting failed; earlier counts and all charges since remain valid.

    Args:
        why: Without a full stop.
    """
    return _condition(_READY, "False", "NotCounted", f"{why[:1].upper()}{why[1:_LONGEST]}.")


def unreadable_condition(error: QuotaError) -> Object:
    """The condition Ready if the spec is invalid."""
    said = str(error)[:_LONGEST]
    return _condition(_READY, "False", "Unreadable", f"{said}. Until this is put right, nothing can be charged.")


def unreadable_cluster_condition(error: QuotaError) -> Object:
    """The condition Enforced of a ClusterGPUQuota whose spec is invalid."""
    said = (
        f"{str(error)[:_LONGEST]}. Until this is put right, its groups keep the limits and namespaces that they have."
    )
    return _condition(_ENFORCED, "Unknown", "Unreadable", said)


def enforced_condition(namespace: str, exempt: str, *, is_enforced: bool, unseen: str = "") -> Object:
    """The condition Enforced: True if the quota fails closed while it cannot be charged.

    It is Unknown until all replicas have seen the GPUQuota.

    Args:
        namespace: Of the quota.
        exempt: Why the namespace is exempt from quotas, as a clause; empty if it is not.
        is_enforced: True if the namespace's label makes the quota fail closed.
        unseen: Why replicas may not have seen the GPUQuota yet, as a clause; empty if all have.
    """
    if exempt:
        said = f"Namespace {namespace} is exempt from quotas ({exempt}), so this GPUQuota limits nothing."
        return _condition(_ENFORCED, "False", "Exempt", said)
    if unseen:
        said = f"Not all replicas charge to this GPUQuota yet: {unseen}. What they admit meanwhile is counted when it is seen."
        return _condition(_ENFORCED, "Unknown", "NotSeen", said[:_LONGEST])
    if is_enforced:
        said = (
            f"Namespace {namespace} has the label {QUOTA_LABEL}: {ENFORCED}, so pods and claims that get GPUs are refused "
            "while the quota cannot be charged."
        )
        return _condition(_ENFORCED, "True", "Enforced", said)
    said = (
        f"Namespace {namespace} does not have the label {QUOTA_LABEL}: {ENFORCED}, so pods and claims that get GPUs are "
        "admitted without a charge while the quota cannot be charged."
    )
    return _condition(_ENFORCED, "False", "FailsOpen", said)


def group_condition(exempt: Mapping[str, str], open_ones: Sequence[str], *, unseen: str = "") -> Object:
    """The condition Enforced of a GPUQuotaGroup: True if all its namespaces fail closed.

    Args:
        exempt: By namespaces that are exempt from quotas, the reason as a clause.
        open_ones: The namespaces without the label that makes quotas fail closed.
        unseen: Why replicas may not have seen all its namespaces yet, as a clause; empty if all have.
    """
    if unseen:
        said = (
            f"Not all replicas charge what its namespaces use to this group yet: {unseen}. What they admit meanwhile is counted "
            "when it is seen."
        )
        return _condition(_ENFORCED, "Unknown", "NotSeen", said[:_LONGEST])
    if exempt:
        reasons = format_list([f"{namespace} ({why})" for namespace, why in exempt.items()], _MOST_NAMED)
        said = f"It limits nothing in namespaces that are exempt from quotas: {reasons}."
        return _condition(_ENFORCED, "False", "Exempt", said[:_LONGEST])
    if open_ones:
        said = (
            f"Label with {QUOTA_LABEL}: {ENFORCED}: {format_list(open_ones, _MOST_NAMED)}. There, pods and claims that get GPUs "
            "are admitted without a charge while the quota cannot be charged."
        )
        return _condition(_ENFORCED, "False", "FailsOpen", said[:_LONGEST])
    said = "In all its namespaces, pods and claims that get GPUs are refused while the quota cannot be charged."
    return _condition(_ENFORCED, "True", "Enforced", said)


def cluster_condition(
    groups: Mapping[str, Object | None], overlaps: Mapping[str, str], unguarded: Sequence[str]
) -> Object:
    """The condition Enforced of a ClusterGPUQuota: True if it limits all its groups.

    Args:
        groups: By the names of its GPUQuotaGroups, their condition Enforced; None before they have one.
        overlaps: By the namespaces that it chooses and an older ClusterGPUQuota counts, the name of that one.
        unguarded: The keys of labels that decide about it and that no policy guards against changes.
    """
    if unguarded:
        said = (
            f"Install the policy team-quota-labels.gpu-admission.io and its binding as they are shipped: nothing keeps who may edit a "
            f"namespace from changing its label {format_list(unguarded, _MOST_NAMED)}, and with it the limits that count there."
        )
        return _condition(_ENFORCED, "False", "Unguarded", said[:_LONGEST])
    if overlaps:
        names = format_list([f"{namespace} ({older})" for namespace, older in overlaps.items()], _MOST_NAMED)
        said = f"It limits nothing in namespaces that an older ClusterGPUQuota counts: {names}. Choose them in one of the two."
        return _condition(_ENFORCED, "False", "Overlap", said[:_LONGEST])
    for status in ("False", "Unknown"):
        for name, found in groups.items():
            if found is not None and found.get("status") == status:
                said = f"GPUQuotaGroup {name}: {found.get('message')}"
                return _condition(_ENFORCED, status, str(found.get("reason")), said[:_LONGEST])
    missing = [name for name, found in groups.items() if found is None]
    if missing:
        said = f"Not counted yet: GPUQuotaGroup {format_list(missing, _MOST_NAMED)}."
        return _condition(_ENFORCED, "Unknown", "NotSeen", said[:_LONGEST])
    said = "In all its namespaces, pods and claims that get GPUs are refused while the quota cannot be charged."
    return _condition(_ENFORCED, "True", "Enforced", said)


def says_that_all_have_seen(conditions: Iterable[Object]) -> bool:
    """True if a leader has written, by `enforced_condition`, that all replicas have seen the GPUQuota.

    The reason `Exempt` does not say so: the namespace may stop being exempt before all replicas have seen it.
    """
    seen = ("Enforced", "FailsOpen")
    return any(each.get("type") == _ENFORCED and each.get("reason") in seen for each in conditions)


def awaits_replicas(document: Object) -> bool:
    """True if replicas may not have seen a GPUQuota, as far as its status says."""
    return not says_that_all_have_seen(mappings_at(document, ("status", "conditions")))


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}
