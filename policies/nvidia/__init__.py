"""Vocabulary of NVIDIA: extended resources, MIG profiles, GPU Feature Discovery labels, predicates."""
