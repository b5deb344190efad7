"""A package, so that its clusters end with its last scenario, not with the last test of all."""
