"""More hostile configs: JSON, YAML, TOML, torchao's form, patterns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.calls import ROW
from tests.hostile import samples as s
from tests.hostile.calls import ON_CONFIGS
from tests.hostile.items import Item

TEXT = json.dumps(ROW)


def config(content: str | bytes, suffix: str = ".json") -> s.Make:
    """Return a maker of a config file."""

    def make(folder: Path) -> Path:
        folder.mkdir()
        path = folder / f"quant{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def rules(match: str) -> s.Make:
    """Return a maker of a config with one rule."""
    rule = {"match": match, "use": "row"}
    document = {"type": "FqnToConfig", "version": 2, "configs": {"row": ROW}, "rules": [rule]}
    return config(json.dumps(document))


def nested(levels: int) -> s.Make:
    """Return a maker of rules in rules in rules."""
    document: dict[str, Any] = ROW
    for _ in range(levels):
        configs = {"a": document}
        document = {"type": "FqnToConfig", "version": 2, "configs": configs, "default": "a"}
    return config(json.dumps(document))


def nested_in_torchao(levels: int) -> s.Make:
    """Return a maker of the same in the words of torchao."""
    document: dict[str, Any] = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {}}
    for _ in range(levels):
        data = {"module_fqn_to_config": {"a": document}}
        document = {"_type": "ModuleFqnToConfig", "_version": 1, "_data": data}
    return config(json.dumps(document))


def torchao(name: str, version: object, data: object) -> s.Make:
    """Return a maker of a config in the form of torchao."""
    return config(json.dumps({"_type": name, "_version": version, "_data": data}))


def versioned(name: object, version: object) -> s.Make:
    """Return a maker of a config with a type and a version."""
    return config(json.dumps({"type": name, "version": version}))


_JSON: dict[str, tuple[str | bytes, str]] = {
    "byte order mark": (b"\xef\xbb\xbf" + TEXT.encode(), "a byte order mark"),
    "UTF-16": (TEXT.encode("utf-16"), "not UTF-8"),
    "Latin-1": (b'{"type": "\xe9"}', "not UTF-8"),
    "nothing": ("", "the text ends too early"),
    "NUL": (b"\0\0", "not JSON"),
    "form feed": ("\x0c" + TEXT, "not JSON"),
    "comment": (TEXT + " // x", "Extra data"),
    "two documents": (TEXT + TEXT, "Extra data"),
    "number": ("1", "wrong type"),
    "half a character": ('{"type": "\\ud800", "version": 1}', "/type: half of a surrogate pair"),
    "key that is a NUL": (TEXT[:-1] + ', "\\u0000": 1}', "/\\x00: unknown field"),
    "key with an escape": (TEXT[:-1] + ', "\\u001b[31m": 1}', "/\\x1b[31m: unknown field"),
    "number beyond float64": (TEXT[:-1] + ', "x": 1e999}', "/x: a number beyond float64"),
    "number below float64": (TEXT[:-1] + ', "x": -1e-999}', "/x: a number below float64"),
    "flood of values": ("[" + "[]," * 2_100_000 + "0]", "Limits.json_values"),
    "schema that is a list": (TEXT[:-1] + ', "$schema": []}', "/$schema: wrong type"),
}
_YAML = {
    "deep flow": ("[" * 100_000, "not YAML"),
    "deep block": ("\n".join(" " * i + "a:" for i in range(200)), "Limits.json_depth"),
    "aliases": ("a: &a [x, x]\nb: [*a, *a]\n", "an anchor or alias"),
    "object of Python": ("a: !!python/object/apply:os.system ['true']", "the tag"),
    "tag of a directive": ("%TAG ! tag:x,2000:\n--- !a\nb: 1", "the tag"),
    "binary": ("a: !!binary aGk=", "the tag"),
    "merge": ("<<: {type: a}", "not text to every YAML reader"),
    "two documents": ("a: 1\n---\nb: 2\n", "a second document"),
    "NUL": ("a: \0", "not YAML"),
    "key that is an array": ("? [a]\n: b", "an array or object as a key"),
    "escape": ('type: "\\e[31m"\nversion: 1', "found: '\\x1b[31m'"),
    "number beyond float64": ("a: 1e999", "a number beyond float64"),
    "number below float64": ("a: 1e-999", "a number below float64"),
    "too large": ("# a\n" * 2_100_000, "Limits.written_bytes"),
}
_TOML = {
    "deep": ("a = " + "[" * 5000 + "]" * 5000, "Limits.json_depth"),
    "key of 20000 parts": ("a." * 20_000 + "a = 1", "Limits.json_depth"),
    "table of 20000 parts": ("[" + "a." * 20_000 + "a]", "Limits.json_depth"),
    "quoted key of many parts": ("'a' . " * 20_000 + "a = 1", "Limits.json_depth"),
    "infinity": ("a = inf", "/a: not a finite number"),
    "hexadecimal flood": ("a = 0x" + "f" * 100_000, "Limits.number_digits"),
    "integer of 10000 digits": ("a = " + "1" * 10_000, "not TOML"),
    "date": ("a = 2020-01-01", "/a: dates and times"),
    "number beyond float64": ("a = 1e999", "/a: not a finite number"),
    "number below float64": ("a = 1e-999", "below float64"),
    "NUL": ('a = "\0"', "Illegal character"),
}
_TAGS: dict[str, tuple[s.Make, str]] = {
    "type that is a list": (versioned([], 3), "/type: unknown type"),
    "type that is an object": (versioned({}, 3), "/type: unknown type"),
    "type with an escape": (versioned("\x1b[31m\u202e", 3), "found: '\\x1b[31m\\u202e'"),
    "type of a million": (versioned("x" * 10**6, 3), "/type: unknown type"),
    "version 0": (versioned("Int8WeightOnlyConfig", 0), "/version: unknown version"),
    "version 3.0": (versioned("Int8WeightOnlyConfig", 3.0), "/version: version must be"),
    "version true": (versioned("Int8WeightOnlyConfig", True), "/version: version must be"),
    "version as text": (versioned("Int8WeightOnlyConfig", "3"), "/version: version must be"),
    "rules in rules": (nested(2), "FqnToConfig cannot contain another"),
    "rules in rules, 20 deep": (nested(20), "FqnToConfig cannot contain another"),
    "rules in rules of torchao": (nested_in_torchao(2), "FqnToConfig cannot contain another"),
    "the same, 20 deep": (nested_in_torchao(20), "FqnToConfig cannot contain another"),
    "data of torchao that are a list": (torchao("Int8WeightOnlyConfig", 2, []), "/_data: _data is"),
    "class path": (torchao("torch.nn.Linear", 2, {}), "/_type: unknown torchao config"),
    "type of torchao with an escape": (torchao("\x1b", 2, {}), "found: '\\x1b'"),
}
_PATTERNS = {
    "(a+)+": ("re:(a+)+$", "can run away"),
    "(a|a)*": ("re:(a|a)*b", "can run away"),
    "repeats of repeats": ("re:((a{60000}){60000}){60000}", "can run away"),
    "backreference": ("re:(a)\\1+", "can run away"),
    "101 groups": ("re:" + "(a)" * 101, "Limits.pattern_groups"),
    "300 stars": ("**a" * 300, "Limits.pattern_cost"),
    "1001 characters": ("a" * 1001, "Limits.pattern_characters"),
    "open set": ("re:[", "not a regular expression"),
    "escape": ("re:\x1b[", "found: '\\x1b['"),
    "name with a bidi override": ("re:(?P<\u202e>a)", "not a regular expression"),
    "look-behind without a width": ("re:(?<=a*)b", "not a regular expression"),
}


def _all() -> Iterator[Item]:
    for number, suffix, texts in ((59, ".json", _JSON), (60, ".yaml", _YAML), (61, ".toml", _TOML)):
        for what, (text, words) in texts.items():
            path = (f"quant{suffix}: ", words)
            make = config(text, suffix)
            yield Item(number, f"{suffix[1:]}: {what}", make, words=path, verbs=ON_CONFIGS)
    for what, (make, words) in _TAGS.items():
        yield Item(62, f"config: {what}", make, words=("quant.json: ", words), verbs=ON_CONFIGS)
    for what, (match, words) in _PATTERNS.items():
        words_of = ("/rules/0/match: ", words)
        yield Item(63, f"pattern: {what}", rules(match), words=words_of, verbs=ON_CONFIGS)
    newer = {
        "version 99": versioned("Int8WeightOnlyConfig", 99),
        "version of 39 digits": versioned("Int8WeightOnlyConfig", int("1" * 39)),
        "version 99 of torchao": torchao("Int8WeightOnlyConfig", 99, {}),
    }
    for what, make in newer.items():
        words_of = ("quant.json: /", "newer than this qconfig")
        yield Item(64, f"config: {what}", make, code=4, words=words_of, verbs=ON_CONFIGS)


DOCUMENTS = [*_all()]
