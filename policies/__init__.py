"""Decides what may enter the cluster.

Everything here is a function of a request, a view of the cluster and the administrator's settings: no sockets, no
files, no clock, no randomness. `policies.admission.review` is the one decision function; the webhook, the audit and every
offline command call it.
"""
