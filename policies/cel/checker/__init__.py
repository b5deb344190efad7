"""From a syntax tree to types and overloads, or to what is wrong."""
