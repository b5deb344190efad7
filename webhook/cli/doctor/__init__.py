"""The command doctor: reads of a running installation, and its page."""
