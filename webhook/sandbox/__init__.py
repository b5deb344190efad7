"""A small API server in memory, for tests and for trying the product out; it is no place for a workload."""
