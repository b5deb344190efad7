"""Certificates: make them, check them, read them.

This room stands alone: it knows `cryptography` and nothing of the webhook or its policies. The present moment is
always an argument, so that every expiry can be tested.
"""

from certs.authority import issue_client, issue_serving, make_authority
from certs.files import KeyPairFiles
from certs.keypair import BadKeyPair, KeyPair, parse_certificates

__all__ = [
    "BadKeyPair",
    "KeyPair",
    "KeyPairFiles",
    "issue_client",
    "issue_serving",
    "make_authority",
    "parse_certificates",
]
