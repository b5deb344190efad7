"""Where objects fit, which devices a selector matches, and what a change would break."""
