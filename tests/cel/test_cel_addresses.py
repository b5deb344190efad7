"""IP addresses and CIDR blocks, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.errors import CelRuntimeError
from policies.cel.libraries import ips
from policies.cel.libraries.ips import CIDR, IP

OVERLOADS = {overload.id: overload for overload in (*ips.LIBRARY, *ips.CIDR_LIBRARY)}

KINDS = ("unspecified", "loopback", "link_local_multicast", "link_local_unicast", "global_unicast")
FAILED = "network address parse error during conversion from string: "


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("::", "::"),
        ("1::", "1::"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("1:2:3:4:5:6:0:8", "1:2:3:4:5:6:0:8"),
        ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
    ],
)
def test_address_is_shown_in_its_canonical_form(text, canonical):
    assert run("ip_to_string", run("string_to_ip", text)) == canonical
    assert run("ip_is_canonical", text) is (text == canonical)
    assert run("is_ip", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unable to parse IP"),
        ("abc", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        (".1.2.3", 'IPv4 field must have at least one digit (at ".1.2.3")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("1.2.3.4%x", 'unexpected character (at "%x")'),
        ("1.2é", 'unexpected character (at "é")'),
        ("fe80::1%", "zone must be a non-empty string"),
        (":", 'each colon-separated field must have at least one digit (at ":")'),
        ("1::é", 'each colon-separated field must have at least one digit (at "é")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1g::", 'unexpected character, want colon (at "g::")'),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2", "address string too short"),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        (
            "1:2:1.2.3.4",
            'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
        ),
        (
            "::1:2:3:4:5:6:7:1.2.3.4",
            'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
        ),
    ],
)
def test_text_that_is_no_address_fails_in_kubernetes_words(text, message):
    with pytest.raises(CelRuntimeError) as failed:
        run("string_to_ip", text)
    assert failed.value.message == (
        f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): {message}'
    )
    assert not run("is_ip", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fe80::1%eth0", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("::ffff:1.2.3.4%x", 'IP address "::ffff:1.2.3.4%x" with zone value is not allowed'),
        ("::ffff:1.2.3.4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
    ],
)
def test_address_with_a_zone_or_of_both_families_is_refused(text, message):
    with pytest.raises(CelRuntimeError) as failed:
        run("ip_is_canonical", text)
    assert failed.value.message == message


@pytest.mark.parametrize(
    ("text", "family", "kinds"),
    [
        ("0.0.0.0", 4, {"unspecified"}),
        ("127.9.9.9", 4, {"loopback"}),
        ("224.0.0.9", 4, {"link_local_multicast"}),
        ("224.0.1.9", 4, set()),
        ("169.254.9.9", 4, {"link_local_unicast"}),
        ("10.0.0.1", 4, {"global_unicast"}),
        ("255.255.255.255", 4, set()),
        ("::", 6, {"unspecified"}),
        ("::1", 6, {"loopback"}),
        ("ff02::9", 6, {"link_local_multicast"}),
        ("ff12::9", 6, {"link_local_multicast"}),
        ("ff05::9", 6, set()),
        ("febf::9", 6, {"link_local_unicast"}),
        ("fec0::9", 6, {"global_unicast"}),
        ("fd00::9", 6, {"global_unicast"}),
    ],
)
def test_address_is_of_a_family_and_a_kind(text, family, kinds):
    address = IP.read(text)
    assert run("ip_family", address) == family
    assert {kind for kind in KINDS if run(f"ip_is_{kind}", address)} == kinds


def test_addresses_are_equal_by_family_and_number():
    assert IP.read("::1") == IP.read("0:0::1")
    assert IP.read("0.0.0.1") != IP.read("::1")


@pytest.mark.parametrize(
    ("text", "address", "length", "masked"),
    [
        ("10.1.2.3/8", "10.1.2.3", 8, "10.0.0.0/8"),
        ("10.1.2.3/0", "10.1.2.3", 0, "0.0.0.0/0"),
        ("10.1.2.3/32", "10.1.2.3", 32, "10.1.2.3/32"),
        ("2001:DB8::1/33", "2001:db8::1", 33, "2001:db8::/33"),
        ("::1/128", "::1", 128, "::1/128"),
    ],
)
def test_block_is_an_address_and_a_length(text, address, length, masked):
    block = run("string_to_cidr", text)
    assert run("cidr_to_string", block) == f"{address}/{length}"
    assert run("cidr_ip", block) == IP.read(address)
    assert run("cidr_prefix_length", block) == length
    assert run("cidr_to_string", run("cidr_masked", block)) == masked
    assert run("is_cidr", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.1.2.3", "no '/'"),
        ("10.1.2/8", 'ParseAddr(\\"10.1.2\\"): IPv4 address too short'),
        ("fe80::1%eth0/8", "IPv6 zones cannot be present in a prefix"),
        ("10.1.2.3/", 'bad bits after slash: ""'),
        ("10.1.2.3/08", 'bad bits after slash: "08"'),
        ("10.1.2.3/+8", 'bad bits after slash: "+8"'),
        ("10.1.2.3/9223372036854775808", 'bad bits after slash: "9223372036854775808"'),
        ("10.1.2.3/9223372036854775807", "prefix length out of range"),
        ("10.1.2.3/33", "prefix length out of range"),
        ("::/129", "prefix length out of range"),
    ],
)
def test_text_that_is_no_block_fails_in_kubernetes_words(text, message):
    with pytest.raises(CelRuntimeError) as failed:
        run("string_to_cidr", text)
    assert failed.value.message == f'{FAILED}{FAILED}netip.ParsePrefix("{text}"): {message}'.replace('\\"', '"')
    assert not run("is_cidr", text)


def test_block_of_addresses_of_both_families_is_refused():
    with pytest.raises(CelRuntimeError) as failed:
        CIDR.read("::ffff:1.2.3.4/100")
    assert failed.value.message == f'{FAILED}IPv4-mapped IPv6 address "::ffff:1.2.3.4/100" is not allowed'


def test_blocks_are_equal_when_all_their_bits_are():
    assert CIDR.read("10.0.0.0/8") == CIDR.read("10.0.0.0/8")
    assert CIDR.read("10.0.0.0/8") != CIDR.read("10.1.0.0/8")
    assert CIDR.read("10.0.0.0/8") != CIDR.read("10.0.0.0/9")


@pytest.mark.parametrize(
    ("block", "address", "expected"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.9.9.9/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "::1", False),
        ("::/0", "1.2.3.4", False),
        ("2001:db8::/32", "2001:db8:ffff::1", True),
    ],
)
def test_block_contains_addresses_of_its_family(block, address, expected):
    assert run("cidr_contains_ip_ip", CIDR.read(block), IP.read(address)) is expected
    assert run("cidr_contains_ip_string", CIDR.read(block), address) is expected


@pytest.mark.parametrize(
    ("block", "other", "expected"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.0.0.0/8", "10.0.0.0/8", True),
        ("10.1.0.0/16", "10.0.0.0/8", False),
        ("10.0.0.0/8", "11.0.0.0/16", False),
        ("0.0.0.0/0", "::/0", False),
    ],
)
def test_block_contains_smaller_blocks(block, other, expected):
    assert run("cidr_contains_cidr", CIDR.read(block), CIDR.read(other)) is expected
    assert run("cidr_contains_cidr_string", CIDR.read(block), other) is expected


def test_contained_text_that_is_no_address_is_no_such_overload():
    with pytest.raises(CelRuntimeError) as failed:
        run("cidr_contains_ip_string", CIDR.read("10.0.0.0/8"), "bad")
    assert failed.value.message == "no such overload"


def test_contained_text_that_is_no_block_fails_as_reading_it_does():
    with pytest.raises(CelRuntimeError) as failed:
        run("cidr_contains_cidr_string", CIDR.read("10.0.0.0/8"), "bad")
    assert failed.value.message == f"{FAILED}{FAILED}netip.ParsePrefix(\"bad\"): no '/'"


def test_types_of_addresses_have_names():
    names = selector_environment(CelFeatures()).type_names
    assert [names["net.IP"], names["net.CIDR"]] == [ips.IP_TYPE, ips.CIDR_TYPE]


@given(st.ip_addresses())
def test_every_address_is_read_as_python_reads_it(address):
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return
    read = IP.read(str(address))
    assert (read.number, str(read)) == (int(address), str(address))


@given(st.text(alphabet="0129af:.%/", max_size=24))
def test_any_text_is_an_address_only_if_python_takes_it_for_one(text):
    if run("is_ip", text):
        assert int(ipaddress.ip_address(text)) == IP.read(text).number
