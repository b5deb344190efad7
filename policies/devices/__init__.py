"""Claims and the devices that can satisfy them: resource.k8s.io."""
