"""The only writer of reservations: charges are written into GPUQuotas by compare-and-swap, before they are answered."""
