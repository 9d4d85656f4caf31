"""`qconfig plan` and `qconfig explain`."""

from tests.cli.calls import ROW, RULES, call, call_json, cells, write


def test_table(float_model, config):
    """The table has one line for each tensor that is quantized, and the totals."""
    head, line, _, more, totals = call("plan", float_model, config).stdout.splitlines()
    titles = "tensor, shape, rule, config, layout, bytes before, bytes after, bits/weight"
    assert cells(head) == titles.split(", ")
    assert cells(line) == [
        "layers.0.up.weight",
        "64 × 32",
        "1: **.up",
        "row",
        "Int8TensorLayout v5",
        "8192",
        "2304",
        "9.00",
    ]
    assert more == "5 more stay as they are; --all lists them"
    assert totals.startswith("1 of 6 tensors quantized, ")
    assert totals.endswith(" bits/weight")


def test_all_lists_reasons(float_model, config):
    """`--all` lists what stays as it is, with the reason."""
    lines = call("plan", float_model, config, "--all").stdout.splitlines()
    assert sum(line.startswith(("layers.", "norm.", "embed_")) for line in lines) == 6
    assert cells(lines[0])[-1] == "reason"
    skipped = next(line for line in lines if line.startswith("layers.0.down.weight"))
    assert "0: layers.0.down" in skipped


def test_unmatched_rule(float_model, tmp_path):
    """A rule that matches nothing is an error that names the rule."""
    rules = [*RULES["rules"], {"match": "**.upp", "use": "row"}]
    path = write(tmp_path / "typo.json", RULES | {"rules": rules})
    result = call("plan", float_model, path)
    assert result.exit_code == 3
    assert "/rules/2" in result.stderr
    assert call("plan", float_model, path, "--allow-unmatched").exit_code == 0


def test_a_quantized_checkpoint_is_refused(current_model, config):
    """What is quantized already is not planned again."""
    result = call("plan", current_model, config)
    assert result.exit_code == 3
    assert "the checkpoint is quantized already" in result.stderr


def test_one_config_for_all(float_model, tmp_path):
    """A single config is for every Linear, by default."""
    _, document = call_json("plan", float_model, write(tmp_path / "one.json", ROW))
    assert document["result"]["totals"]["quantize"] == 2


def test_explain(config):
    """The winner is in the first line; rules that do not match are counted, not listed."""
    result = call("explain", config, "layers.0.up")
    assert result.stdout.splitlines()[0] == "layers.0.up.weight: gets row by rule 1"
    assert "layers.0.down" not in result.stdout
    assert "no match: 1 rule;" in result.stderr


def test_explain_all(config):
    """`--all` lists every rule."""
    assert "layers.0.down" in call("explain", config, "layers.0.up", "--all").stdout


def test_explain_module_class(tmp_path):
    """`--module-class` says what the name does not."""
    path = write(tmp_path / "one.json", RULES | {"rules": [], "default": "row"})
    line = call("explain", path, "wte", "--module-class", "Linear").stdout.splitlines()[0]
    assert line == "wte.weight: gets row by default"
    line = call("explain", path, "wte").stdout.splitlines()[0]
    assert line == "wte.weight: left alone, no rule applies"
