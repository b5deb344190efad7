"""The steps by which Kubernetes' scheduler picks devices for claims; `policies.dra.allocator` joins them."""
