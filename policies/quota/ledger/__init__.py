"""The ledger: what is used and reserved of a quota, and whether more fits."""
