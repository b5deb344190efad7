"""The ledger: the used and reserved amounts of a quota, and whether more fits."""
