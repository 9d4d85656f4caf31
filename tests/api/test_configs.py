"""The public functions on config files: every format, every version, one object."""

import json

import pytest

import qconfig
from qconfig import FqnToConfig, Int8WeightOnlyConfig, PerGroup, Rule
from qconfig.errors import DocumentErrors, UsageError

CONFIG = FqnToConfig(
    configs={"g": Int8WeightOnlyConfig(PerGroup(32))},
    rules=(Rule("lm_head", None), Rule("re:.*mlp.*", "g", optional=True)),
    default="g",
)
YAML = """\
type: FqnToConfig
version: 2
configs:
  g: {type: Int8WeightOnlyConfig, version: 3, granularity: {type: PerGroup, group_size: 32}}
rules:
  - {match: lm_head, use: null}
  - {match: "re:.*mlp.*", use: g, optional: true}
default: g
"""
TOML = """\
type = "FqnToConfig"
version = 1
[fqn_to_config._default]
type = "Int8WeightOnlyConfig"
version = 1
group_size = 32
"""


def test_a_dumped_config_loads_as_itself(tmp_path):
    """`dump_config` writes the text that it returns, and `load_config` gives the config back."""
    path = tmp_path / "quant.json"
    text = qconfig.dump_config(CONFIG, path)
    assert path.read_text("utf-8") == text
    assert json.loads(text) == qconfig.config_to_dict(CONFIG)
    assert qconfig.load_config(path) == CONFIG
    assert qconfig.dump_config(CONFIG) == text


def test_yaml_and_toml_are_read(tmp_path):
    """A YAML file says the same as JSON, and a TOML file of version 1 is brought to version 2."""
    (tmp_path / "quant.yaml").write_text(YAML)
    (tmp_path / "quant.toml").write_text(TOML)
    assert qconfig.load_config(tmp_path / "quant.yaml") == CONFIG
    old = qconfig.load_config(tmp_path / "quant.toml")
    assert old.configs[old.default] == Int8WeightOnlyConfig(PerGroup(32))


def test_problems_name_the_file(tmp_path):
    """Every problem of a file has its path and pointer, loaded or validated."""
    path = tmp_path / "bad.json"
    path.write_text('{"type": "Int8WeightOnlyConfig", "version": 3, "a": 1, "b": 2}')
    with pytest.raises(DocumentErrors) as caught:
        qconfig.load_config(path)
    expected = [(str(path), "/a"), (str(path), "/b")]
    assert [(p.file, p.pointer) for p in caught.value.problems] == expected
    assert [(p.file, p.pointer) for p in qconfig.validate_config(path)] == expected


def test_torchaos_form_goes_both_ways():
    """`config_to_dict(dialect="torchao")` writes the form that `config_from_dict` reads."""
    config = Int8WeightOnlyConfig(PerGroup(64))
    data = qconfig.config_to_dict(config, dialect="torchao")
    assert (data["_type"], data["_version"]) == ("Int8WeightOnlyConfig", 2)
    assert qconfig.config_from_dict(data) == config
    assert qconfig.upgrade_config(data) == qconfig.config_to_dict(config)


def test_an_unknown_dialect_is_refused():
    """A dialect that nobody wrote is a usage error that names those there are."""
    with pytest.raises(UsageError, match="unknown dialect") as caught:
        qconfig.config_to_dict(CONFIG, dialect="gguf")
    assert caught.value.expected == "qconfig or torchao"


def test_explain_names_the_rule():
    """`explain` gives the rule that decides about one name."""
    text = str(qconfig.explain("model.mlp.up", CONFIG, module_class="Linear"))
    assert "re:.*mlp.*" in text
