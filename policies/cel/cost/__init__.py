"""What an expression may cost, and what it did."""
