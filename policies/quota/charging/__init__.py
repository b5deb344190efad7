"""Charging: what an object that is being created asks of a quota, and what is answered."""
