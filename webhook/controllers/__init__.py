"""Controllers: tasks of the leader, beside answering calls."""
