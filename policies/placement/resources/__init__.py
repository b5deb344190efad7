"""Resources: whether what a pod asks for by name exists on some node, and would be given there."""
