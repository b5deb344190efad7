"""The steps of Kubernetes' scheduler that pick devices, and the allocator that joins them."""
