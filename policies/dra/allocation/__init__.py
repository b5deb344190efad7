"""The steps of Kubernetes' scheduler that pick devices; `policies.dra.allocator` joins them."""
