"""The sandbox: a small API server in memory, for tests and for trying out the product."""
