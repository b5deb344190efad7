"""Commands about the installation: preflight, doctor, and its webhook configurations."""
