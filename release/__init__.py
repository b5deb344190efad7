"""What a release publishes: `make release URL=...` writes it into `dist`. docs/release.md says what each file is for."""
