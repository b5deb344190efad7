"""Asks: what pods and claims ask for, and what they got."""
