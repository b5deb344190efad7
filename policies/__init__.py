"""Decides what may enter the cluster.

Everything here is a function of a request, a view of the cluster and the administrator's settings: no sockets, no
files, no clock, no randomness. `policies.admission.decide` is the one pipeline of decisions: the webhook drives it with
effects, and `policies.admission.reviews` drives it by a view, for the audit and every offline command.
"""
