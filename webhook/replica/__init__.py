"""One replica of the service in a running cluster: everything that it is put together from."""
