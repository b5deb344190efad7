"""Generation: manifests and commands that do what a few words say, and that review without a finding."""
