"""Admission webhooks as in the API server: their order, their calls, their messages.

The facts come from k8s.io/apiserver pkg/admission/plugin/webhook (release 1.36) and from trying a real 1.36.2.
"""
