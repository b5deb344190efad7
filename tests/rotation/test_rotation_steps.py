"""The next step of a rotation, and its time."""

from dataclasses import replace
from datetime import timedelta

import pytest

from certs import BadKeyPair
from certs.authority import bundle_holds, refusal
from certs.rotation import MAX_RETIRING, Observed, next_state

DAY = timedelta(days=1)


def texts(step):
    return [change.text for change in step.changes]


def test_nothing_stored_makes_everything(unmade):
    step = unmade.step()
    assert texts(step) == ["Made an authority and a serving certificate: there were none."]
    assert step.look_at == unmade.now
    assert refusal(step.state.bundle, step.state.leaf, unmade.policy.names, unmade.now) == ""


def test_certificates_begin_in_the_past(rotating):
    for pair in (rotating.state.authority, rotating.state.leaf):
        assert pair.chain[0].not_valid_before_utc == rotating.now - timedelta(hours=1)


def test_a_made_state_is_quiet(rotating):
    step = rotating.step()
    assert step.changes == ()
    assert step.look_at == rotating.now + rotating.policy.look_every


def test_a_leaf_serves_for_two_thirds_of_its_life(rotating):
    rotating.pass_time(days=20, seconds=-1)
    assert rotating.steps() == []
    rotating.pass_time(seconds=1)
    old = rotating.state
    assert texts(rotating.step()) == ["Renewed the serving certificate: it ends at 2026-03-31T12:00:00Z."]
    assert rotating.state.bundle == old.bundle
    assert rotating.state.leaf.not_after == rotating.now + 30 * DAY


def test_looking_again_is_due_when_the_leaf_is(rotating):
    rotating.pass_time(days=20, seconds=-5)
    assert rotating.step().look_at == rotating.now + timedelta(seconds=5)


def test_a_leaf_that_cannot_outlive_its_authority_longer_is_left(rotating):
    rotating.pass_time(days=364)
    rotating.bundles = None
    rotating.steps(publish=False)
    rotating.pass_time(hours=6)
    assert rotating.steps(publish=False) == []


def test_a_missing_name_renews_and_keeps_those_of_others(rotating, policy):
    rotating.policy = replace(policy, names=("new.example",))
    assert texts(rotating.step()) == ["Renewed the serving certificate: it was not for new.example."]
    assert rotating.state.leaf.names == ("new.example", *policy.names)
    rotating.policy = policy
    assert rotating.steps() == []


def test_rotation_begins_at_two_thirds_of_the_authority(rotating):
    rotating.pass_time(days=365 * 2 // 3)
    rotating.steps()
    assert rotating.state.successor is None
    rotating.pass_time(days=1)
    assert texts(rotating.step())[0] == (
        "Rotation begins: the authority ends at 2027-03-01T12:00:00Z. Made the next authority, to be published first."
    )


def test_request_begins_a_rotation(rotating):
    rotating.asked = "please"
    assert texts(rotating.step()) == [
        "Rotation begins: it was requested. Made the next authority, to be published first."
    ]


def test_a_rotation_changes_leaf_and_authority_once(rotating):
    before = rotating.state
    rotating.asked = "please"
    assert rotating.steps() == ["announced", "published"]
    rotating.pass_time(minutes=30)
    assert rotating.steps() == ["switched"]
    rotating.pass_time(days=19)
    assert rotating.steps() == []
    assert rotating.state.leaf != before.leaf
    assert rotating.state.authority != before.authority


def test_asking_again_begins_another(rotating):
    rotating.asked = "please"
    rotating.steps()
    rotating.pass_time(minutes=30)
    rotating.asked = "please, again"
    assert rotating.steps() == ["switched", "announced", "published"]


def test_a_successor_is_published_beside_the_authority(announced):
    for pair in (announced.state.authority, announced.state.successor):
        assert bundle_holds(announced.state.bundle, pair.certificate_pem)


def test_waiting_begins_when_every_configuration_has_it(announced):
    announced.bundles = (announced.state.bundle, b"")
    assert announced.steps(publish=False) == []
    announced.bundles = (announced.state.bundle,) * 2
    assert texts(announced.step()) == [
        "The next authority is published in every webhook configuration; it will issue after 0:30:00."
    ]


def test_unreadable_configurations_are_not_published_ones(announced):
    announced.bundles = None
    assert announced.steps(publish=False) == []


def test_a_successor_does_not_issue_before_the_wait_is_over(announced):
    announced.steps()
    announced.bundles = (announced.state.bundle,) * 2
    assert announced.steps() == ["published"]
    announced.pass_time(minutes=29, seconds=59)
    assert announced.steps() == []
    assert announced.step().look_at == announced.now + timedelta(seconds=1)


def published(rotating):
    rotating.steps()
    rotating.bundles = (rotating.state.bundle,) * 2
    rotating.steps()


def test_a_successor_issues_after_the_wait(announced):
    published(announced)
    announced.pass_time(minutes=30)
    assert texts(announced.step()) == [
        (
            "The successor was published long enough: it issued a new serving certificate and is the authority now;"
            " the old one stays trusted until 2026-03-31T12:50:00Z."
        )
    ]


def test_switching_changes_no_byte_of_the_bundle(announced):
    published(announced)
    before = announced.state.bundle
    announced.pass_time(minutes=30)
    announced.step()
    assert announced.state.bundle == before


@pytest.mark.parametrize("bundle", [b"", b"foreign", None], ids=["emptied", "foreign", "unreadable"])
def test_no_switch_while_a_configuration_lacks_it(announced, bundle):
    published(announced)
    announced.pass_time(minutes=30)
    announced.bundles = None if bundle is None else (announced.state.bundle, bundle)
    assert "switched" not in announced.steps(publish=False)


def test_an_overwritten_bundle_begins_the_wait_anew(announced):
    published(announced)
    announced.pass_time(minutes=29)
    announced.bundles = (announced.state.bundle, b"")
    assert texts(announced.step()) == [
        "The next authority vanished from a webhook configuration; it is published again, and waiting begins anew."
    ]
    announced.steps()
    announced.pass_time(minutes=29)
    assert announced.steps() == []


def test_a_time_slightly_ahead_counts(announced):
    published(announced)
    written = announced.state.published
    announced.pass_time(minutes=-5)
    assert announced.steps() == []
    assert announced.state.published == written


def test_a_time_from_the_future_is_replaced(announced):
    published(announced)
    announced.pass_time(days=-2, hours=47)
    assert announced.steps() == ["published"]
    assert announced.state.published == announced.now


def test_a_retired_authority_stays_while_what_it_issued_is_valid(announced):
    old = announced.state.leaf
    published(announced)
    announced.pass_time(minutes=30)
    announced.steps()
    announced.now = old.not_after
    announced.steps()
    assert refusal(announced.state.bundle, old, announced.policy.names, announced.now) == ""


def test_a_retired_authority_is_dropped_afterwards(announced):
    published(announced)
    announced.pass_time(minutes=30)
    announced.steps()
    announced.now = announced.state.retiring[0].until
    assert texts(announced.step())[0] == "Dropped 1 retired authority: all they issued has expired."
    assert announced.state.bundle == announced.state.authority.certificate_pem


def test_four_clocks_at_their_worst_drop_no_authority_too_early(announced):
    """The leaf's issuer is ahead, who switches behind, who drops ahead, and the client behind again."""
    published(announced)
    announced.pass_time(minutes=30)
    now, skew = announced.now, announced.policy.skew
    announced.policy = replace(announced.policy, names=("new.example",))
    announced.now, announced.bundles = now + skew, None
    announced.steps(publish=False)
    last = announced.state.leaf
    announced.policy = replace(announced.policy, settle=announced.policy.settle - skew)
    announced.now, announced.bundles = now - skew, (announced.state.bundle,)
    assert announced.steps() == ["switched"]
    client = last.not_after
    announced.now = client + 2 * skew
    announced.steps()
    assert refusal(announced.state.bundle, last, ["new.example"], client) == ""


def test_asking_too_often_has_to_wait(rotating):
    for number in range(MAX_RETIRING + 1):
        rotating.asked = f"please {number}"
        rotating.steps()
        rotating.pass_time(minutes=30)
        rotating.steps()
    assert len(rotating.state.retiring) == MAX_RETIRING
    assert rotating.state.successor is None
    rotating.pass_time(days=31)
    assert rotating.steps() == ["dropped", "renewed", "announced", "published"]


def test_an_expired_authority_makes_everything_anew(rotating):
    rotating.pass_time(days=365, seconds=1)
    assert texts(rotating.step()) == [
        "Made an authority and a serving certificate: the authority expired at 2027-03-01T12:00:00Z."
    ]


def test_an_authority_of_a_clock_far_ahead_is_said(rotating, policy):
    rotating.pass_time(hours=-2)
    rotating.asked = "please"
    announced = next_state(rotating.state, rotating.now, Observed((), "please"), policy)
    assert announced.state.successor is not None
    with pytest.raises(BadKeyPair) as refused:
        next_state(rotating.state, rotating.now, Observed(()), replace(policy, names=("new.example",)))
    assert str(refused.value) == "The certificate is not valid before 2026-03-01T11:00:00Z; wait, or correct the clock."
