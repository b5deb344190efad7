"""The reports of a cluster: audit, quota, usage, and the page of all of them."""
