"""Devices as quotas count them: kinds of devices, nodes that hand them out, classes that choose them."""
