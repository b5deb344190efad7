"""The schemas of NVIDIA's custom resources."""
