"""Certificates: issued, checked, stored, rotated.

This package imports neither `webhook` nor `policies`. The current time is always an argument, so that every expiry can be
tested.
"""

from certs.authority import issue_serving, make_authority
from certs.keypair import BadKeyPair, KeyPair, KeyPairFiles, parse_certificates

__all__ = [
    "BadKeyPair",
    "KeyPair",
    "KeyPairFiles",
    "issue_serving",
    "make_authority",
    "parse_certificates",
]
