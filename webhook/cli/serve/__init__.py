"""The server and the sandbox: their options and their start."""
