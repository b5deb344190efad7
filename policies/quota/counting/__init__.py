"""Counting: the amounts of existing pods and claims under the limits of a quota."""
