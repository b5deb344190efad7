"""Controllers: the tasks of the leader, and the upkeep of certificates."""
