"""Rules for what NVIDIA's DRA driver reads: its configs in claims, templates and classes, and ComputeDomains."""
