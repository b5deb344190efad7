"""Rules for what NVIDIA's DRA driver reads: configs of claims and classes, and ComputeDomains."""
