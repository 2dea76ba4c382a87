"""Specs as trees, for the tests that change or validate them. Needs PyYAML (python3-yaml)."""

import dataclasses
import re

import yaml

PLAIN = re.compile(r"[A-Za-z0-9_.~][A-Za-z0-9_.+*/^()-]*")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times as fast


@dataclasses.dataclass
class Scalar:
    text: str
    plain: bool = True  # not quoted


@dataclasses.dataclass
class Mapping:
    pairs: list[tuple["Tree", "Tree"]]  # in order; a key may come twice


Tree = Scalar | Mapping | list


def parse(text: str) -> Tree:
    """The one document in `text`. Raises yaml.YAMLError for what is no YAML."""
    node = yaml.compose(text, Loader=LOADER)
    if node is None:
        raise yaml.YAMLError("empty")
    return _tree(node)


def _tree(node: yaml.Node) -> Tree:
    if isinstance(node, yaml.MappingNode):
        return Mapping([(_tree(key), _tree(value)) for key, value in node.value])
    if isinstance(node, yaml.SequenceNode):
        return [_tree(item) for item in node.value]
    return Scalar(node.value, not node.style)


def write(tree: Tree) -> str:
    """YAML of a tree: a line for each pair of the outermost mapping, all else in flow style."""
    if isinstance(tree, Mapping):
        return "".join(f"{_flow(key)}: {_flow(value)}\n" for key, value in tree.pairs)
    return _flow(tree) + "\n"


def _flow(tree: Tree) -> str:
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(value)}" for key, value in tree.pairs) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_flow(item) for item in tree) + "]"
    if tree.plain and PLAIN.fullmatch(tree.text):
        return tree.text
    return "'" + tree.text.replace("'", "''") + "'"


def json_value(tree: Tree) -> object:
    """What an editor sees by YAML 1.2's core schema: numbers, null and booleans where plain text spells them."""
    if isinstance(tree, Mapping):
        return {key.text if isinstance(key, Scalar) else str(key): json_value(value) for key, value in tree.pairs}
    if isinstance(tree, list):
        return [json_value(item) for item in tree]
    if not tree.plain:
        return tree.text
    if tree.text in ("", "~", "null", "Null", "NULL"):
        return None
    if tree.text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return tree.text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]+", tree.text):
        return int(tree.text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", tree.text):
        return float(tree.text)
    return tree.text
