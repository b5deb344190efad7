"""Devices: what quotas know of those that nodes and ResourceSlices show, and how much of a GPU each is."""
