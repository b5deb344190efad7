"""The documentation as a site: `make site` builds it from docs/ into build/site. docs/README.md is its navigation."""
