"""Commands on a running cluster; only reads are sent, and questions to the Service of explanations."""
