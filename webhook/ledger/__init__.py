"""Writes charges into GPUQuotas by compare-and-swap, before the webhook answers; the only writer."""

from webhook.ledger.directory import Directory, Peer, peer_annotations, peer_server_context, trust
from webhook.ledger.documents import LedgerKey
from webhook.ledger.forwarding_writer import ANSWERS, ForwardingWriter
from webhook.ledger.links import Links
from webhook.ledger.peer_answers import PeerCalls
from webhook.ledger.writer import LedgerWriter

__all__ = [
    "ANSWERS",
    "Directory",
    "ForwardingWriter",
    "LedgerKey",
    "LedgerWriter",
    "Links",
    "Peer",
    "PeerCalls",
    "peer_annotations",
    "peer_server_context",
    "trust",
]
