"""`gpu-admission generate`: configuration, quotas, claims and wishes from a few options.

What is printed is YAML with comments; the commands in them can be pasted into a shell.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from webhook.cli.cluster_options import ClusterOptions
from webhook.cli.options import complete_from, complete_paths, namespace_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.analyses.generate.documents import Generated, Target
    from policies.kubernetes.objects import Object


F = TypeVar("F", bound="Callable[..., Any]")

_PRODUCT = "A label nvidia.com/gpu.product, a usual name or patterns: T4, H100, 'A100*80GB*', 'H100*,!*NVL'."


@click.group("generate", subcommand_metavar="KIND [OPTIONS]")
def command() -> None:
    """Print a correct configuration, quota, claim or wish, with the commands that belong to it.

    What is printed is YAML for kubectl apply; the commands are comments below it. A review of it has no findings.
    Nothing is written, and no cluster is read.

    \b
    Four pods share each T4:
      gpu-admission generate time-slicing --product T4 --replicas 4
    Divide each H100 by MIG, if there is room for all of it:
      gpu-admission generate mig --product H100 --want 1g.10gb=3,3g.40gb=1
    A quota, reviewed before it is applied:
      gpu-admission generate quota -n team-a --gpus 8 | gpu-admission review -

    Exit code: 0 if something was printed; 2 if the input is invalid or nothing fits, with the reason; 3 if gpu-admission
    has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped


def _product_option(*, required: bool) -> Callable[[F], F]:
    complete = complete_from("products")
    return click.option(
        "--product", metavar="NAMES", default="", required=required, shell_complete=complete, help=_PRODUCT
    )


def _target_options(function: F) -> F:
    """Add the options for the ConfigMap that a component of the GPU Operator reads."""
    text = "The namespace of the GPU Operator."
    namespace = click.option(
        "--operator-namespace", default="gpu-operator", metavar="NAME", show_default=True, help=text
    )
    text = "Add the configuration to the ConfigMap of this file; - for standard input."
    existing = click.option("--add-to", metavar="FILE", shell_complete=complete_paths, help=text)
    return existing(namespace(function))


def _sharing_options(function: F) -> F:
    replicas = click.option("--replicas", type=int, required=True, metavar="N", help="How many pods share each GPU.")
    return _product_option(required=True)(replicas(_target_options(function)))


def _wish_options(function: F) -> F:
    """Add the options for what a GPU must be; they are named after the annotations of wishes."""
    options = [
        click.option(
            "--min-memory", "--memory", "min_memory", metavar="QUANTITY", default="", help="At least: 40Gi, 80G."
        ),
        click.option("--max-memory", metavar="QUANTITY", default="", help="At most: 80Gi."),
        click.option("--gpu-memory", metavar="QUANTITY", default="", help="Of a part of a GPU: 20Gi."),
        click.option("--family", metavar="NAMES", default="", help="Architectures: hopper,blackwell."),
        click.option("--min-compute-capability", metavar="N.N", default="", help="CUDA compute capability: 8.6."),
        click.option("--min-driver", metavar="VERSION", default="", help="Version of the driver: 580, 580.95."),
        click.option("--min-cuda", metavar="VERSION", default="", help="Newest CUDA that the driver supports: 12.4."),
    ]
    for option in reversed(options):
        function = option(function)
    return _product_option(required=False)(function)


def _words(options: dict[str, str]) -> dict[str, str]:
    """The words of a wish, by the names of its options."""
    return {name.replace("_", "-"): text for name, text in options.items()}


def _show_sharing(
    strategy: Literal["time-slicing", "mps"], product: str, replicas: int, namespace: str, add_to: str | None
) -> None:
    _check_operator_namespace(namespace)
    from policies.analyses.generate.node_configurations import generate_sharing

    target = _read_target(namespace, add_to)
    _show(lambda: generate_sharing(strategy, product, replicas, target))


def _check_operator_namespace(namespace: str) -> None:
    if not namespace:
        raise click.BadParameter("is empty; name the namespace of the operator", param_hint="'--operator-namespace'")
    _check_namespace(namespace)


def _check_namespace(namespace: str) -> None:
    ClusterOptions(namespace=namespace).check()


@command.command("time-slicing", short_help="Pods take turns on each GPU: a ConfigMap of the device plugin.")
@_sharing_options
def _time_slicing(*, product: str, replicas: int, operator_namespace: str, add_to: str | None) -> None:
    """Print a ConfigMap by which several pods take turns on each GPU of a product.

    The commands below it name the ConfigMap in the ClusterPolicy and label the nodes. Nodes without the label keep whole
    GPUs.

    \b
    Four pods share each T4:
      gpu-admission generate time-slicing --product T4 --replicas 4
    Every A100 of 40 GB, for an operator in another namespace:
      gpu-admission generate time-slicing --product A100-40GB --replicas 2 --operator-namespace nvidia
    A second product in the same ConfigMap, reviewed:
      gpu-admission generate time-slicing --product T4 --replicas 4 > t4.yaml
      gpu-admission generate time-slicing --product L4 --replicas 2 --add-to t4.yaml | gpu-admission review -
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    _show_sharing("time-slicing", product, replicas, operator_namespace, add_to)


@command.command("mps", short_help="Pods use each GPU together: a ConfigMap of the device plugin.")
@_sharing_options
def _mps(*, product: str, replicas: int, operator_namespace: str, add_to: str | None) -> None:
    """Print a ConfigMap by which several pods use each GPU of a product at the same time.

    Each pod gets its share of the memory and of the threads. A GPU serves at most 48 pods by MPS, and 16 if it is older than Turing.

    \b
    Four pods share each L40S:
      gpu-admission generate mps --product L40S --replicas 4
    Sixteen pods share each V100, which cannot serve more:
      gpu-admission generate mps --product V100 --replicas 16
    Only the H100 of 80 GB:
      gpu-admission generate mps --product 'H100*80GB*' --replicas 8
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    _show_sharing("mps", product, replicas, operator_namespace, add_to)


@command.command("sharing", short_help="Claims share GPUs: a GPUCluster, and values of the DRA driver's chart.")
@click.option("--shares", metavar="N", default="", help="How many claims share each GPU; or memory, or unlimited.")
@click.option(
    "--like",
    metavar="FILE",
    shell_complete=complete_paths,
    help="As many as this ConfigMap of the device plugin; - for standard input.",
)
def _driver_sharing(*, shares: str, like: str | None) -> None:
    """Print a GPUCluster by which NVIDIA's DRA driver shares GPUs between claims.

    It takes the place of time-slicing and MPS by the device plugin. The lines below are the same values for the driver's own
    chart.

    \b
    Four claims share each GPU:
      gpu-admission generate sharing --shares 4
    Claims request memory, as long as the GPU has it:
      gpu-admission generate sharing --shares memory
    As many as the device plugin does now:
      gpu-admission generate time-slicing --product T4 --replicas 4 | gpu-admission generate sharing --like -
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from policies.analyses.generate.node_configurations import generate_driver_sharing

    config = None if like is None else _read_config_map(like, "--like")
    _show(lambda: generate_driver_sharing(shares, config))


@command.command("mig", short_help="MIG devices that fit on a GPU: a ConfigMap of mig-parted.")
@_product_option(required=True)
@click.option(
    "--want", required=True, metavar="PROFILE=COUNT,...", help="The MIG devices of each GPU: 1g.10gb=3,3g.40gb=1."
)
@click.option(
    "--gpus",
    type=int,
    metavar="N",
    help="Distribute the devices over N GPUs of a node; as few as possible are divided.",
)
@_target_options
def _mig(*, product: str, want: str, gpus: int | None, operator_namespace: str, add_to: str | None) -> None:
    """Print a mig-parted ConfigMap that divides the GPUs of a product into the wanted MIG devices.

    The layout has a place for each device, and no other devices. If there is no room, the error says what is missing, and
    how much fits. If the GPU Operator ships the wanted configuration, only the commands are printed.

    \b
    Each H100:
      gpu-admission generate mig --product H100 --want 1g.10gb=3,3g.40gb=1
    Four GPUs of a node, of which some stay whole if that is enough:
      gpu-admission generate mig --product A100-80GB --want 1g.10gb=9,3g.40gb=1 --gpus 4
    What the GPU Operator ships already:
      gpu-admission generate mig --product H200 --want 1g.18gb=7
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    _check_operator_namespace(operator_namespace)
    from policies.analyses.generate.node_configurations import generate_mig

    target = _read_target(operator_namespace, add_to)
    _show(lambda: generate_mig(product, want, gpus, target))


@command.command("quota", short_help="The GPU limits of a namespace: a GPUQuota.")
@namespace_option("The namespace that is limited.")
@click.option("--gpus", metavar="N", default="", help='GPUs of all products: 8, or a part of one: "1/2".')
@click.option(
    "--product", "products", multiple=True, metavar="NAMES=N", help="GPUs of some products: 'H100*=4'. Can be repeated."
)
@click.option("--mig", metavar="PROFILE=COUNT,...", default="", help="MIG devices by profile: 1g.10gb=4.")
@click.option("--memory", metavar="QUANTITY", default="", help="Memory of all GPUs together: 320Gi.")
@click.option(
    "--mode",
    type=click.Choice(["Enforce", "Warn"], case_sensitive=False),
    default="Enforce",
    show_default=True,
    help="Refuse requests that exceed a limit, or only warn.",
)
def _quota(
    *, namespace: str, gpus: str, products: tuple[str, ...], mig: str, memory: str, mode: Literal["Enforce", "Warn"]
) -> None:
    """Print a GPUQuota, which limits the GPUs of a namespace.

    \b
    Eight GPUs, and at most 320Gi of their memory:
      gpu-admission generate quota -n team-a --gpus 8 --memory 320Gi
    By product:
      gpu-admission generate quota -n team-a --product 'H100*=4' --product T4=16
    MIG devices, with a warning only:
      gpu-admission generate quota -n team-a --mig 1g.10gb=4,3g.40gb=1 --mode Warn
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not namespace:
        raise click.UsageError("name the namespace that is limited: -n NAME")
    _check_namespace(namespace)
    from policies.analyses.generate.namespace_objects import QuotaWords, generate_quota

    words = QuotaWords(gpus.strip(), products, mig.strip(), memory.strip())
    _show(lambda: generate_quota(namespace, words, mode))


@command.command("claim", short_help="A ResourceClaim, or a template of claims.")
@_wish_options
@click.option(
    "--mig", metavar="PROFILE", default="", help="MIG devices of this profile instead of whole GPUs: 1g.10gb."
)
@click.option("--count", type=int, default=1, metavar="N", show_default=True, help="How many devices.")
@click.option("--template", is_flag=True, help="A ResourceClaimTemplate, by which each pod gets its own claim.")
@click.option("--name", default="gpu", metavar="NAME", show_default=True, help="The name of the object.")
@namespace_option("The namespace of the object; default: the one that kubectl applies it to.")
def _claim(*, mig: str, count: int, template: bool, name: str, namespace: str, **wish: str) -> None:
    """Print a ResourceClaim or a template of claims, with selectors that read no attribute unguarded.

    \b
    Two H100 for every pod that uses the template:
      gpu-admission generate claim --product H100 --count 2 --template
    A claim that pods share:
      gpu-admission generate claim --memory 40Gi --name shared -n team-a
    A MIG device of an A100:
      gpu-admission generate claim --product A100-80GB --mig 1g.10gb --template
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    _check_namespace(namespace)
    from policies.analyses.generate.namespace_objects import ClaimWords, generate_claim

    words = ClaimWords(_words(wish), mig, count, name, namespace, template)
    _show(lambda: generate_claim(words))


@command.command("wish", short_help="What GPU a pod wants: annotations.")
@_wish_options
@click.option("--sharing", metavar="CHOICE", default="", help="exclusive, shared or any.")
def _wish(**wish: str) -> None:
    """Print the annotations that say which GPU a pod wants, from the device plugin or by a claim.

    \b
    Any H100 that is not shared:
      gpu-admission generate wish --product 'H100*' --sharing exclusive
    At least 40Gi of memory, on Hopper or newer:
      gpu-admission generate wish --memory 40Gi --min-compute-capability 9
    Not a GPU of 40 GB:
      gpu-admission generate wish --product 'A100*,!*40GB*'
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from policies.analyses.generate.namespace_objects import generate_wish

    _show(lambda: generate_wish(_words(wish)))


_WIDTH = 100


def _read_target(namespace: str, file: str | None) -> Target:
    """The ConfigMap that a configuration is written into: a new one, or that of a file.

    Raises:
        UnreadableInputError: The file cannot be read.
        click.BadParameter: It does not have exactly one ConfigMap.
    """
    from policies.analyses.generate.documents import Target

    return Target(namespace, None if file is None else _read_config_map(file, "--add-to"))


def _read_config_map(file: str, option: str) -> Object:
    """The ConfigMap of a file.

    Raises:
        UnreadableInputError: The file cannot be read.
        click.BadParameter: It does not have exactly one ConfigMap.
    """
    from policies.kubernetes.names import format_list
    from webhook.cli.manifest_reader import ManifestReader

    reader = ManifestReader()
    found = [manifest.object for manifest in reader.manifests([file])]
    reader.check()
    if len(found) != 1 or found[0].get("kind") != "ConfigMap":
        kinds = format_list([str(each.get("kind")) for each in found])
        raise click.BadParameter(f"has {kinds}; name a file with one ConfigMap", param_hint=f"'{option}'")
    return found[0]


def _show(generate: Callable[[], Generated]) -> None:
    """Print what a function generates, whole or not at all.

    Raises:
        click.UsageError: Nothing can be generated.
    """
    from policies.analyses.generate.documents import GenerationError

    try:
        generated = generate()
    except GenerationError as error:
        if error.option:
            raise click.BadParameter(str(error), param_hint=f"'{error.option}'") from None
        raise click.UsageError(str(error)) from None
    click.echo("\n".join(_parts(generated)))


def _parts(generated: Generated) -> Iterator[str]:
    """The remarks, the object, and the steps, each without its last line break."""
    from webhook.cli.text_layout import dump

    for remark in generated.remarks:
        yield _comment(remark)
    if generated.document is not None:
        yield dump(generated.document).removesuffix("\n")
    for step in generated.steps:
        yield "#"
        yield "\n".join([_comment(step.text), *(f"#   {line}" for line in step.lines)])


def _comment(text: str) -> str:
    """A sentence as lines of comments; commands are not wrapped, because a shell reads them."""
    return "\n".join(f"# {line}" for line in wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False))
