"""The preflight of a running cluster: reads and dry runs, and the page about them."""
