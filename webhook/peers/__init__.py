"""Sends charges to the replica that owns a namespace's ledger, so that replicas do not compete for it.

The owner of a namespace is the first replica, in an order that depends on the namespace, that can be reached. Replicas need not
agree: if two of them write, the compare-and-swap of the ledger decides. See docs/designs/one-writer.md.
"""
