"""Controllers: what one replica at a time does to the cluster, beside answering."""
