"""Certificates: issued, checked, stored, rotated.

This package imports neither `webhook` nor `policies`. The current time is always an argument, so that every expiry can be
tested.
"""

from certs.authority import issue_serving, make_authority, make_self_signed
from certs.keypair import BadKeyPair, KeyPair, KeyPairFiles, load_key_pair, parse_certificates

__all__ = [
    "BadKeyPair",
    "KeyPair",
    "KeyPairFiles",
    "issue_serving",
    "load_key_pair",
    "make_authority",
    "make_self_signed",
    "parse_certificates",
]
