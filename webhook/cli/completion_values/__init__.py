"""The values that shells offer, each in a module that imports what its values need."""
