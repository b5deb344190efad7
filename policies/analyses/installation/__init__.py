"""Installations of gpu-admission: what one would meet in a cluster, and the health of one that runs."""
