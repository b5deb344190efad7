"""Views of a cluster: from manifests on disk."""
