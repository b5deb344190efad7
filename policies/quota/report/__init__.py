"""The report on a quota: its limits, their use, and the pods and claims that hold them."""
