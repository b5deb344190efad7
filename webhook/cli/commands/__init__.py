"""The commands: their options and their help; what they do is imported when it is used."""
