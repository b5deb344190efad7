"""Texts of wishes: their meaning, and messages about invalid ones."""

import pytest

from policies.kubernetes.names import PREFIX
from policies.nvidia.wishes import WORDS, ProductPatterns, Wish, WishError

EXAMPLES = {
    "product": "H100*,A100*80GB*,!*MIG*",
    "min-memory": "40Gi",
    "max-memory": "80Gi",
    "gpu-memory": "20Gi",
    "min-compute-capability": "8.6",
    "family": "hopper,ada-lovelace",
    "min-driver": "580.95",
    "min-cuda": "12.4",
    "sharing": "exclusive",
    "nic": "aligned",
}
ONE_OF_FAMILIES = (
    "write some of kepler, maxwell, pascal, volta, turing, ampere, ada-lovelace, hopper, blackwell, rubin, "
    "with commas between them"
)
NO_EXPRESSION = "write * for any characters and ? for one; regular expressions are not read"
OWN_SHARING = 'write it without -SHARED, and gpu-admission.io/sharing: "shared"'
GOOD = [
    ("product", "H100*", Wish(products=ProductPatterns(("H100*",)))),
    ("product", "H100*, A100-80GB* ,!*MIG*", Wish(products=ProductPatterns(("H100*", "A100-80GB*"), ("*MIG*",)))),
    ("product", "!*MIG*", Wish(products=ProductPatterns((), ("*MIG*",)))),
    ("product", "! Tesla T4", Wish(products=ProductPatterns((), ("Tesla-T4",)))),
    ("product", "NVIDIA A100-SXM4-40GB", Wish(products=ProductPatterns(("A100-SXM4-40GB",)))),
    ("product", "nvidia-a100-sxm4-40gb", Wish(products=ProductPatterns(("a100-sxm4-40gb",)))),
    ("product", "RTX  6000   Ada Generation", Wish(products=ProductPatterns(("RTX-6000-Ada-Generation",)))),
    ("product", "h100,H100,NVIDIA-H100", Wish(products=ProductPatterns(("h100",)))),
    ("product", "A100***MIG**1g.5gb", Wish(products=ProductPatterns(("A100*MIG*1g.5gb",)))),
    ("product", "A100-MIG-1g.10gb.me", Wish(products=ProductPatterns(("A100-MIG-1g.10gb.me",)))),
    ("product", "*", Wish(products=ProductPatterns(("*",)))),
    ("min-memory", "40Gi", Wish(min_memory=40960)),
    ("min-memory", " 80G ", Wish(min_memory=76294)),
    ("min-memory", "1Mi", Wish(min_memory=1)),
    ("min-memory", "42949672961", Wish(min_memory=40961)),
    ("min-memory", "85520809984", Wish(min_memory=81559)),
    ("max-memory", "80G", Wish(max_memory=76293)),
    ("max-memory", "81559Mi", Wish(max_memory=81559)),
    ("max-memory", "1.5Gi", Wish(max_memory=1536)),
    ("min-compute-capability", "8.6", Wish(min_compute_capability=(8, 6))),
    ("min-compute-capability", "9", Wish(min_compute_capability=(9, 0))),
    ("min-compute-capability", "12.0", Wish(min_compute_capability=(12, 0))),
    ("family", "hopper", Wish(families=("hopper",))),
    ("family", "Ada Lovelace, HOPPER,hopper", Wish(families=("ada-lovelace", "hopper"))),
    ("min-driver", "580", Wish(min_driver=(580, 0, 0))),
    ("min-driver", "580.95", Wish(min_driver=(580, 95, 0))),
    ("min-driver", "580.95.05", Wish(min_driver=(580, 95, 5))),
    ("min-driver", "580.95.5", Wish(min_driver=(580, 95, 5))),
    ("min-cuda", "12.4", Wish(min_cuda=(12, 4))),
    ("min-cuda", "13", Wish(min_cuda=(13, 0))),
    ("sharing", "exclusive", Wish(sharing="exclusive")),
    ("sharing", " Shared ", Wish(sharing="shared")),
    ("sharing", "any", Wish(sharing="any")),
    ("nic", " Aligned ", Wish(nic="aligned")),
]
NAME = "is in no product name"
BAD_PRODUCTS = [
    ("H100|A100", f'has the name "H100|A100", and "|" {NAME}', "write a comma between names"),
    ("H100;A100", f'has the name "H100;A100", and ";" {NAME}', "write a comma between names"),
    ("H100\nA100", f'has the name "H100\\nA100", and "\\n" {NAME}', "write a comma between names"),
    ("H100!A100", f'has the name "H100!A100", and "!" {NAME}', 'write a comma before "!"'),
    ("!!A100", f'has the name "!!A100", and "!" {NAME}', 'write a comma before "!"'),
    ("'H100'", f'has the name "\'H100\'", and "\'" {NAME}', "remove the quotes inside the text"),
    ("^H100.*$", f'has the name "^H100.*$", and "^" {NAME}', NO_EXPRESSION),
    ("H100 (80GB)", f'has the name "H100 (80GB)", and "(" {NAME}', NO_EXPRESSION),
    ("A100-MIG-1g.10gb+me", f'has the name "A100-MIG-1g.10gb+me", and "+" {NAME}', 'write "." for "+", as labels do'),
    ("T4-SHARED", 'has the name "T4-SHARED", and sharing is not part of a product name', OWN_SHARING),
    (
        "!*-shared",
        'has the name "!*-shared", and sharing is not part of a product name',
        'remove it, and write gpu-admission.io/sharing: "exclusive"',
    ),
    ("H100*,", "has a comma without a name beside it", "write a name there, or remove the comma"),
    ("H100*,!", 'has a "!" without a name after it', 'write a name after it, as in "!*MIG*", or remove it'),
    ("!NVIDIA-", 'has the name "!NVIDIA-", which is the brand without a product', 'write a product such as "H100*"'),
    (
        ",".join(f"A{number}" for number in range(21)),
        "has 21 names; the most is 20",
        'name several products at once with * and ?, as in "H100*"',
    ),
    ("A" * 64, "has a name of 64 characters; the most is 63, as in labels", "shorten it with *"),
]
QUANTITY = "which is not a Kubernetes quantity"
EXAMPLE = 'write one such as "40Gi"'
BAD_AMOUNTS = [
    ("80GB", f'is "80GB", {QUANTITY}', 'write "80G"'),
    ("80GiB", f'is "80GiB", {QUANTITY}', 'write "80G"'),
    ("80 gb", f'is "80 gb", {QUANTITY}', 'write "80G"'),
    ("80gi", f'is "80gi", {QUANTITY}', 'write "80G"'),
    ("79.5GiB", f'is "79.5GiB", {QUANTITY}', 'write "79.5Gi"'),
    ("1.5TB", f'is "1.5TB", {QUANTITY}', 'write "1.5T"'),
    ("80 kb", f'is "80 kb", {QUANTITY}', EXAMPLE),
    ("much", f'is "much", {QUANTITY}', EXAMPLE),
    ("40", 'is "40", which is 40 bytes', 'write "40G"'),
    ("40960", 'is "40960", which is 40960 bytes', 'write "40960Mi"'),
    ("40960m", 'is "40960m", which is less than 1Mi', 'write "40960M"'),
    ("1k", 'is "1k", which is less than 1Mi', EXAMPLE),
    ("0", 'is "0", which is not above zero', f"remove it, or {EXAMPLE}"),
    ("-1Gi", 'is "-1Gi", which is not above zero', f"remove it, or {EXAMPLE}"),
    ("2Ei", 'is "2Ei", which is more memory than any GPU has', EXAMPLE),
]
MOST = {text: f'write "{text[:2]}Gi"' for text in ("80GB", "80GiB", "80 gb", "80gi", "40")}
"""GPUs sold with 80 GB have less than 80Gi, and more than 80G."""
CAPABILITY = "which is not a compute capability"
BAD_CAPABILITIES = [
    ("sm_86", f'is "sm_86", {CAPABILITY}', 'write "8.6"'),
    ("sm_90a", f'is "sm_90a", {CAPABILITY}', 'write "9.0"'),
    ("86", f'is "86", {CAPABILITY}', 'write "8.6"'),
    ("120", f'is "120", {CAPABILITY}', 'write "12.0"'),
    (">=8.6", f'is ">=8.6", {CAPABILITY}', 'write "8.6"'),
    ("8,6", f'is "8,6", {CAPABILITY}', 'write "8.6"'),
    ("8.6.0", f'is "8.6.0", {CAPABILITY}', 'write "8.6"'),
    ("999", f'is "999", {CAPABILITY}', 'write one such as "8.6" or "9"'),
    ("high", f'is "high", {CAPABILITY}', 'write one such as "8.6" or "9"'),
]
DRIVER = "which is not a driver version"
BAD_DRIVERS = [
    ("R580", f'is "R580", {DRIVER}', 'write "580"'),
    (">= 580.95", f'is ">= 580.95", {DRIVER}', 'write "580.95"'),
    ("580.95.05.1", f'is "580.95.05.1", {DRIVER}', 'write "580.95.05"'),
    ("latest", f'is "latest", {DRIVER}', 'write one such as "580.95"'),
    ("12.4", f'is "12.4", {DRIVER}', 'write one such as "580.95", or gpu-admission.io/min-cuda: "12.4"'),
]
CUDA = "which is not a version of CUDA"
BAD_CUDAS = [
    ("CUDA 12.4", f'is "CUDA 12.4", {CUDA}', 'write "12.4"'),
    ("12.4.1", f'is "12.4.1", {CUDA}', 'write "12.4"'),
    ("12040", f'is "12040", {CUDA}', 'write one such as "12.4"'),
    ("580.95", f'is "580.95", {CUDA}', 'write one such as "12.4", or gpu-admission.io/min-driver: "580.95"'),
]
FAMILY = "which is not a GPU family"
BAD_FAMILIES = [
    ("ada", f'has "ada", {FAMILY}', 'write "ada-lovelace"'),
    ("hopper,ampear", f'has "ampear", {FAMILY}', 'write "ampere"'),
    ("H100", f'has "H100", {FAMILY}', ONE_OF_FAMILIES),
    ("hopper,", "has a comma without a name beside it", "write a name there, or remove the comma"),
    (
        "!turing",
        'has "!turing", and families cannot be excluded',
        "write the families that are wanted, or exclude products by gpu-admission.io/product",
    ),
]
SHARING = "which is not one of exclusive, shared and any"
BAD_SHARING = [
    ("none", f'is "none", {SHARING}', 'write "exclusive"'),
    ("mps", f'is "mps", {SHARING}', 'write "shared"'),
    ("exclusiv", f'is "exclusiv", {SHARING}', 'write "exclusive"'),
    ("yes", f'is "yes", {SHARING}', 'write "exclusive", "shared" or "any"'),
]
BAD_NICS = [("near", 'is "near", which is not "aligned"', 'write "aligned"')]
BAD = [
    (word, *case)
    for word, cases in {
        "product": BAD_PRODUCTS,
        "min-memory": BAD_AMOUNTS,
        "max-memory": [(text, reported, MOST.get(text, remedy)) for text, reported, remedy in BAD_AMOUNTS],
        "min-compute-capability": BAD_CAPABILITIES,
        "min-driver": BAD_DRIVERS,
        "min-cuda": BAD_CUDAS,
        "family": BAD_FAMILIES,
        "sharing": BAD_SHARING,
        "nic": BAD_NICS,
    }.items()
    for case in cases
]


@pytest.mark.parametrize(("word", "text", "wish"), GOOD, ids=[f"{word} {text}" for word, text, _ in GOOD])
def test_good_text_is_read(word, text, wish):
    assert Wish.of({word: text}) == wish


@pytest.mark.parametrize(
    ("word", "text", "problem", "remedy"), BAD, ids=[f"{word} {text}"[:60] for word, text, *_ in BAD]
)
def test_bad_text_is_refused_with_a_remedy(word, text, problem, remedy):
    with pytest.raises(WishError) as caught:
        Wish.check(word, text)
    assert (str(caught.value), caught.value.remedy) == (problem, remedy)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("text", ["", " \n"], ids=["empty", "blank"])
def test_empty_text_is_refused_with_an_example(word, text):
    with pytest.raises(WishError, match=r"^is empty$") as caught:
        Wish.check(word, text)
    assert caught.value.remedy == f'remove it, or write a wish such as "{EXAMPLES[word]}"'


def test_examples_of_remedies_are_wishes_without_contradictions():
    without_part = {word: text for word, text in EXAMPLES.items() if word != "gpu-memory"}
    assert Wish.of(without_part).contradictions() == []


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("min-memry", 'write "min-memory"'),
        ("Product", 'write "product"'),
        (
            "colour",
            "write one of product, min-memory, max-memory, gpu-memory, min-compute-capability, family, min-driver, min-cuda, sharing, nic",
        ),
    ],
)
def test_unknown_word_is_refused(word, remedy):
    with pytest.raises(WishError, match=r"^is not a wish$") as caught:
        Wish.check(word, "H100*")
    assert caught.value.remedy == remedy


def test_prefix_makes_names_of_annotations():
    assert [f"{PREFIX}{word}" for word in WORDS][:2] == ["gpu-admission.io/product", "gpu-admission.io/min-memory"]


def test_first_bad_text_of_several_is_reported():
    with pytest.raises(WishError, match=r'^is "80GB"'):
        Wish.of({"sharing": "perhaps", "min-memory": "80GB", "product": "H100*"})


def test_nothing_wished_is_false():
    assert not Wish.of({})


@pytest.mark.parametrize(("word", "text", "wish"), GOOD, ids=[f"{word} {text}" for word, text, _ in GOOD])
def test_anything_wished_is_true(word, text, wish):
    assert wish
