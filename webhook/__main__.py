"""`python -m webhook`: the same as the command `gpu-admission`."""

from webhook.cli import main

if __name__ == "__main__":
    main(prog_name="gpu-admission")
