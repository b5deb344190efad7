"""The rotation state in the data of a Secret."""

import json
from dataclasses import replace

import pytest

from certs import issue_serving, make_authority
from certs.secret import BadSecret, NewerSecret, parse_secret, secret_data
from testbed.client_certificates import issue_client


@pytest.fixture
def data(rotating):
    return secret_data(rotating.state)


def test_a_made_state_is_read_back(rotating, data):
    assert parse_secret(data) == rotating.state
    assert sorted(data) == ["ca.crt", "ca.key", "rotation.json", "tls.crt", "tls.key"]


def test_every_part_is_read_back(announced):
    for asked in ("1", "2"):
        announced.asked = asked
        announced.steps()
        announced.bundles = (announced.state.bundle,) * 2
        announced.steps()
        announced.pass_time(minutes=30)
        announced.steps()
    state = announced.state
    assert state.retiring
    assert state.successor
    assert state.published
    assert parse_secret(secret_data(state)) == state


def test_a_secret_without_data_holds_nothing():
    assert parse_secret({}) is None


def test_a_newer_format_is_left_alone(data):
    data["rotation.json"] = b'{"format": 2}'
    with pytest.raises(NewerSecret) as refused:
        parse_secret(data)
    assert str(refused.value) == "its format is 2, and this version knows formats up to 1"


def test_no_key_is_shown(rotating):
    assert b"PRIVATE".decode() not in repr(rotating.state)


def rotation(data, **changes):
    return {"rotation.json": json.dumps(json.loads(data["rotation.json"]) | changes).encode()}


def other(rotating):
    return issue_serving(make_authority("other", now=rotating.now), ["x"], now=rotating.now)


DAMAGE = {
    "foreign": (
        lambda _data, _rotating: {"rotation.json": None},
        "it has no rotation.json: this program did not write it",
    ),
    "no JSON": (lambda _data, _rotating: {"rotation.json": b"\xff"}, "rotation.json is not JSON"),
    "deep JSON": (lambda _data, _rotating: {"rotation.json": b"[" * 100_000}, "rotation.json is not JSON"),
    "a list": (lambda _data, _rotating: {"rotation.json": b"[]"}, "rotation.json says no format"),
    "no format": (lambda data, _rotating: rotation(data, format=None), "rotation.json says no format"),
    "no time": (
        lambda data, _rotating: rotation(data, published="soon"),
        "rotation.json has no time with a time zone where one belongs",
    ),
    "no time zone": (
        lambda data, _rotating: rotation(data, published="2026-03-01T12:00:00"),
        "rotation.json has no time with a time zone where one belongs",
    ),
    "a number for a time": (
        lambda data, _rotating: rotation(data, published=5),
        "rotation.json has no time with a time zone where one belongs",
    ),
    "times of nothing": (
        lambda data, _rotating: rotation(data, retiring=["2026-03-01T12:00:00Z"]),
        (
            "retiring-ca.crt cannot be used: There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate,"
            " not its key."
        ),
    ),
    "retiring without times": (
        lambda data, _rotating: {"retiring-ca.crt": data["ca.crt"]},
        "rotation.json does not say until when each of retiring-ca.crt is needed",
    ),
    "no key": (lambda _data, _rotating: {"tls.key": None}, "it has no tls.key"),
    "half a successor": (lambda data, _rotating: {"next-ca.crt": data["ca.crt"]}, "it has no next-ca.key"),
    "cut off": (
        lambda data, _rotating: {"tls.crt": data["tls.crt"][:100]},
        (
            "tls.crt and tls.key cannot be used: The certificate is cut off or damaged: its PEM cannot be parsed; write"
            " or copy it again."
        ),
    ),
    "another key": (
        lambda data, _rotating: {"ca.key": data["tls.key"]},
        (
            "ca.crt and ca.key cannot be used: The key does not belong to the certificate; use the key that the"
            " certificate was issued for."
        ),
    ),
    "no authority": (
        lambda data, _rotating: {"ca.crt": data["tls.crt"], "ca.key": data["tls.key"]},
        "ca.crt is not an authority of this program",
    ),
}


@pytest.mark.parametrize(("damage", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(rotating, data, damage, reason):
    changed = {key: value for key, value in (data | damage(data, rotating)).items() if value is not None}
    with pytest.raises(BadSecret) as refused:
        parse_secret(changed)
    assert str(refused.value) == reason


def test_a_leaf_of_another_authority_is_damage(rotating):
    with pytest.raises(BadSecret) as refused:
        parse_secret(secret_data(replace(rotating.state, leaf=other(rotating))))
    assert str(refused.value) == "ca.crt did not issue tls.crt"


def test_dates_are_not_damage(rotating, policy):
    leaf = issue_client(rotating.state.authority, "x", now=rotating.now, lifetime=-policy.skew)
    state = replace(rotating.state, leaf=leaf)
    assert parse_secret(secret_data(state)) == state
