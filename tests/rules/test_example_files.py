"""Every rule has a file with a wrong and a right example."""

from pathlib import Path

from policies.admission.all_rules import rule_book
from testbed import libyaml
from webhook.cli.shipped_files import read_examples

FOLDER = Path(__file__).parents[2] / "policies" / "rule_examples"
RULES = rule_book().rules


def test_each_rule_has_its_files_and_each_file_its_rule():
    files = {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*") if not file.is_dir()}
    assert files == {f"{rule.id}/{name}.yaml" for rule in RULES for name in ("wrong", "right")}


def test_files_are_texts_that_end_with_one_line_end():
    for file in FOLDER.rglob("*.yaml"):
        text = file.read_text()
        assert text.strip(), file
        assert text == f"{text.strip()}\n", file


def test_examples_are_yaml_and_differ():
    for rule in RULES:
        wrong, right = read_examples(rule.id)
        assert list(libyaml.load_all(wrong)) != list(libyaml.load_all(right)) or wrong != right, rule.id
