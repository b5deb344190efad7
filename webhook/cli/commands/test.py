"""`gpu-admission test`: policy tests in files."""

from __future__ import annotations

import click

from webhook.cli.options import complete_paths
from webhook.cli.progress import Progress


@click.command("test")
@click.argument("paths", nargs=-1, metavar="[SUITE|DIR|-]...", shell_complete=complete_paths)
@click.option("--run", "pattern", metavar="REGEX", help="Try only the cases whose names match.")
@click.option("--update", is_flag=True, help="Write golden files instead of comparing with them.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "junit"]),
    default="text",
    show_default=True,
    help="text: a line for each case, and what differs. junit: for Jenkins and GitLab.",
)
@click.option("-q", "--quiet", is_flag=True, help="Leave out cases that passed; for -o text.")
@click.pass_context
def command(
    ctx: click.Context, *, paths: tuple[str, ...], pattern: str | None, update: bool, output: str, quiet: bool
) -> None:
    """Test that gpu-admission decides as your suites expect.

    A suite is a YAML file: objects of a cluster, and cases. Each case is an object or AdmissionReview, the user and the
    operation, and what is expected: the verdict, findings, warnings, the admitted object or a golden file, templates,
    charges of a quota, and the nodes where it fits. Folders are searched for suites. docs/test.md explains each field.

    \b
    All suites of a repository:
      gpu-admission test policies/
    The cases about MIG, of one suite:
      gpu-admission test --run MIG policies/team-a.yaml
    In CI, for the test report:
      gpu-admission test -o junit policies/ > report.xml

    Exit code: 0 if every case passed; 1 if one failed; 2 if a suite, or a file that it names, cannot be read; 3 if
    gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not paths:
        raise click.UsageError("nothing to test: name suites, or folders with suites")
    from webhook.cli.suites.runs import run_suites, show_junit, show_text

    with Progress():
        run = run_suites(paths, pattern, updates=update)
    if output == "junit":
        show_junit(run)
    else:
        show_text(run, is_quiet=quiet)
    ctx.exit(run.exit_code)
