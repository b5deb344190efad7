"""Bundles of authorities, as clients verify them."""

from datetime import timedelta

import pytest

from certs import issue_serving, make_authority
from certs.authority import bundle_holds, make_bundle, refusal


@pytest.fixture
def authority(rotating):
    return make_authority("one name", now=rotating.now)


@pytest.fixture
def impostor(rotating):
    return make_authority("one name", now=rotating.now)


def test_a_bundle_has_each_certificate_once_in_order(authority, impostor):
    one, two = authority.certificate_pem, impostor.certificate_pem
    assert make_bundle([two, one, two + one]) == two + one


def test_a_bundle_holds_what_it_was_made_of(authority, impostor):
    bundle = make_bundle([authority.certificate_pem])
    assert bundle_holds(bundle, authority.certificate_pem)
    assert not bundle_holds(bundle, impostor.certificate_pem)


@pytest.mark.parametrize("bundle", [b"", b"x", b"-----BEGIN CERTIFICATE-----\n"], ids=["empty", "no PEM", "cut off"])
def test_a_damaged_bundle_holds_nothing(authority, bundle):
    assert not bundle_holds(bundle, authority.certificate_pem)


def test_a_client_takes_what_an_authority_of_the_bundle_issued(authority, impostor, rotating):
    leaf = issue_serving(authority, ["a.svc", "127.0.0.1"], now=rotating.now)
    bundle = make_bundle([impostor.certificate_pem, authority.certificate_pem])
    assert refusal(bundle, leaf, ["a.svc", "127.0.0.1"], rotating.now) == ""


def test_a_client_refuses_another_name_and_another_time(authority, rotating):
    leaf = issue_serving(authority, ["a.svc"], now=rotating.now)
    bundle = authority.certificate_pem
    assert refusal(bundle, leaf, ["b.svc"], rotating.now).startswith("for b.svc: ")
    assert refusal(bundle, leaf, ["a.svc"], leaf.not_after + timedelta(seconds=1)).startswith("for a.svc: ")


def test_a_client_refuses_what_an_impostor_issued(authority, impostor, rotating):
    leaf = issue_serving(impostor, ["a.svc"], now=rotating.now)
    assert refusal(authority.certificate_pem, leaf, ["a.svc"], rotating.now).startswith("for a.svc: ")


def test_an_empty_bundle_is_said(authority, rotating):
    leaf = issue_serving(authority, ["a.svc"], now=rotating.now)
    said = "There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate, not its key."
    assert refusal(b"", leaf, ["a.svc"], rotating.now) == said
