"""Policy tests in files: suites of cases, each an object and what is expected of gpu-admission."""
