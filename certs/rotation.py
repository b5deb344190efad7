"""Rotation: the next state of the authorities and the certificate of a service.

The state is stored in one Secret (`certs.secret`), and any number of replicas change it with one compare-and-swap per step.
This order loses no handshake:

1. A successor is made while the authority still issues. Every replica publishes {authority, successor} in every webhook
   configuration.
2. When every look has found the successor in all configurations for `RotationPolicy.settle`, every API server trusts it,
   and it issues the leaf. In the same write it becomes the authority, and the old one retires.
3. The retired one stays in the bundle until the last certificate that it can have issued has expired.

Replicas do not report what they serve. Before step 2 nothing depends on it: they serve certificates of the authority,
which is in every bundle. After it, a replica that has not looked for weeks serves a certificate of the retired authority,
which is in the bundle as long as that certificate is valid. A count of reports would be weaker, because an unreachable
replica does not report. `webhook.controllers.ca_bundles` prevents that a replica publishes an old state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from certs.authority import bundle_holds, issue_serving, make_authority
from certs.secret import Retiring, RotationState

if TYPE_CHECKING:
    from datetime import datetime

    from certs.keypair import KeyPair


ChangeKind = Literal["made", "announced", "published", "unpublished", "switched", "renewed", "dropped"]
CHANGES: tuple[ChangeKind, ...] = ("made", "announced", "published", "unpublished", "switched", "renewed", "dropped")

MAX_RETIRING = 8
"""If this many authorities are retiring, a requested rotation waits, so that bundles stay small. A rotation by age never
waits."""

_ASKED_LENGTH = 100
"""Characters of a rotation request that are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationPolicy:
    """The names in certificates, and the durations of rotation."""

    names: tuple[str, ...]
    """DNS names and IP addresses at which clients call the service."""
    authority_life: timedelta = timedelta(days=365)
    leaf_life: timedelta = timedelta(days=30)
    """It is renewed in its last third: for that long a cluster may refuse our writes before handshakes fail. A retired
    authority stays trusted for about the whole time."""
    settle: timedelta = timedelta(minutes=30)
    """The time for which a successor must be published before it issues, because API servers do not report what they know.

    They read webhook configurations by watches, which last at most 10 minutes (client-go tools/cache/reflector.go,
    defaultMaxWatchTimeout), even silent ones. Back-off adds a minute, our look up to one, a pending call half of one, and
    clocks differ twice by `skew`. The rest is a reserve; only a requested rotation waits for it.
    """
    skew: timedelta = timedelta(minutes=5)
    """The most that any clock may differ from the true time, in any direction, without a lost handshake."""
    look_every: timedelta = timedelta(seconds=30)
    """The longest pause between two looks, after which an overwritten bundle is repaired."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts for a step, read in this order: webhook configurations, then the Secret."""

    bundles: tuple[bytes, ...] | None
    """The caBundle of every webhook of all configurations that exist; None if one could not be read."""
    asked: str = ""
    """A request to rotate, any text; a text that was not there before is a new request."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a step."""

    kind: ChangeKind
    text: str
    """The change and its reason, as a sentence."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next state. First store the state if it changed, then serve its leaf and publish its bundle."""

    state: RotationState
    changes: tuple[Change, ...]
    """Empty if the state did not change."""
    look_at: datetime
    """When to check again."""


def next_state(state: RotationState | None, now: datetime, observed: Observed, policy: RotationPolicy) -> Step:
    """The next state.

    Args:
        state: The content of the Secret; None if it is empty.
        now: The present moment, not before anything was observed, with a time zone.
        observed: The facts.
        policy: The names and durations.

    Raises:
        BadKeyPair: The authority is not valid yet: the clock here is far behind the one that made it.
    """
    if state is None:
        return _begin(now, observed, policy, "there were none")
    if state.authority.not_after < now:
        return _begin(now, observed, policy, f"the authority expired at {_rfc3339(state.authority.not_after)}")
    changes: list[Change] = []
    for transition in (_drop, _switch, _renew, _announce, _note_publication):
        following = transition(state, now, observed, policy)
        if following is not None:
            state, change = following
            changes.append(change)
    return Step(state, tuple(changes), now if changes else _look_at(state, now, policy))


def _begin(now: datetime, observed: Observed, policy: RotationPolicy, reason: str) -> Step:
    authority = _make_authority(now, policy)
    leaf = issue_serving(authority, policy.names, now=now, lifetime=policy.leaf_life)
    state = RotationState(authority, leaf, asked=observed.asked[:_ASKED_LENGTH])
    return Step(state, (Change("made", f"Made an authority and a serving certificate: {reason}."),), now)


def _drop(
    state: RotationState, now: datetime, _observed: Observed, _policy: RotationPolicy
) -> tuple[RotationState, Change] | None:
    staying = tuple(old for old in state.retiring if now < old.until)
    gone = len(state.retiring) - len(staying)
    if not gone:
        return None
    text = f"Dropped {gone} retired {'authority' if gone == 1 else 'authorities'}: all they issued has expired."
    return replace(state, retiring=staying), Change("dropped", text)


def _switch(
    state: RotationState, now: datetime, observed: Observed, policy: RotationPolicy
) -> tuple[RotationState, Change] | None:
    if state.successor is None or state.published is None or not _everywhere(state.successor, observed):
        return None
    # A time from the future was written by a clock that is ahead; it is replaced where it is farther than `skew`.
    if now < state.published + policy.settle:
        return None
    leaf = issue_serving(state.successor, policy.names, now=now, lifetime=policy.leaf_life)
    retired = Retiring(state.authority.certificate_pem, _last_end(state, now, policy))
    switched = RotationState(state.successor, leaf, retiring=(*state.retiring, retired), asked=state.asked)
    text = (
        "The successor was published long enough: it issued a new serving certificate and is the authority now;"
        f" the old one stays trusted until {_rfc3339(retired.until)}."
    )
    return switched, Change("switched", text)


def _renew(
    state: RotationState, now: datetime, _observed: Observed, policy: RotationPolicy
) -> tuple[RotationState, Change] | None:
    missing = [name for name in policy.names if name not in state.leaf.names]
    if missing:
        # Names of others are kept: during an update, replicas with different names would take turns otherwise.
        names = (*policy.names, *(name for name in state.leaf.names if name not in policy.names))
        text = f"Renewed the serving certificate: it was not for {', '.join(missing)}."
    elif now >= _due(state.leaf, policy.leaf_life) and state.leaf.not_after < state.authority.not_after:
        names = policy.names
        text = f"Renewed the serving certificate: it ends at {_rfc3339(state.leaf.not_after)}."
    else:
        return None
    leaf = issue_serving(state.authority, names, now=now, lifetime=policy.leaf_life)
    return replace(state, leaf=leaf), Change("renewed", text)


def _announce(
    state: RotationState, now: datetime, observed: Observed, policy: RotationPolicy
) -> tuple[RotationState, Change] | None:
    if state.successor is not None:
        return None
    asked = observed.asked[:_ASKED_LENGTH]
    if now >= _due(state.authority, policy.authority_life):
        reason = f"the authority ends at {_rfc3339(state.authority.not_after)}"
    elif asked not in ("", state.asked) and len(state.retiring) < MAX_RETIRING:
        reason = "it was requested"
    else:
        return None
    following = replace(state, successor=_make_authority(now, policy), published=None, asked=asked or state.asked)
    return following, Change("announced", f"Rotation begins: {reason}. Made the next authority, to be published first.")


def _note_publication(
    state: RotationState, now: datetime, observed: Observed, policy: RotationPolicy
) -> tuple[RotationState, Change] | None:
    if state.successor is None or observed.bundles is None:
        return None
    if not _everywhere(state.successor, observed):
        if state.published is None:
            return None
        text = (
            "The next authority vanished from a webhook configuration; it is published again, and waiting begins anew."
        )
        return replace(state, published=None), Change("unpublished", text)
    if state.published is not None and state.published <= now + policy.skew:
        return None
    text = f"The next authority is published in every webhook configuration; it will issue after {policy.settle}."
    return replace(state, published=now), Change("published", text)


def _make_authority(now: datetime, policy: RotationPolicy) -> KeyPair:
    return make_authority(f"gpu-admission {_rfc3339(now)}", now=now, lifetime=policy.authority_life)


def _everywhere(authority: KeyPair, observed: Observed) -> bool:
    bundles = observed.bundles
    return bundles is not None and all(bundle_holds(bundle, authority.certificate_pem) for bundle in set(bundles))


def _due(pair: KeyPair, life: timedelta) -> datetime:
    """When two thirds of its life are over."""
    return pair.not_after - life / 3


def _last_end(state: RotationState, now: datetime, policy: RotationPolicy) -> datetime:
    """When the last certificate of the authority has ended by any clock.

    It may have been issued right now by a clock that is ahead, and the difference may be to our disadvantage in each
    of four clocks: who issued, who switches, who will drop, and who verifies.
    """
    end = max(now + policy.leaf_life, state.leaf.not_after) + 4 * policy.skew
    return min(end, state.authority.not_after + 2 * policy.skew)


def _look_at(state: RotationState, now: datetime, policy: RotationPolicy) -> datetime:
    moments = [now + policy.look_every, _due(state.leaf, policy.leaf_life), *(old.until for old in state.retiring)]
    if state.published is not None:
        moments.append(state.published + policy.settle)
    return min(moment for moment in moments if moment > now)


def _rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
