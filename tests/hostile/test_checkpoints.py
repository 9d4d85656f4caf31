"""Checkpoints that are odd, edited or asked for wrongly: each ends in an error of ours."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from qconfig import (
    config_from_dict,
    inspect_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints import load
from qconfig.checkpoints.open import open_checkpoint
from qconfig.codec import strict_json
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    ContainerError,
    DocumentSyntaxError,
    FieldError,
    LayoutError,
    QconfigError,
    SeveralErrors,
    StorageError,
    UsageError,
    nearest,
)
from tests.checkpoints.builders import checkpoint_of, current_layout, float_checkpoint, v1_layout
from tests.hostile import samples as s
from tests.hostile.calls import state

ROW = config_from_dict({"type": "Int8WeightOnlyConfig", "version": 3})


def quantize(source: Path) -> Path:
    """Quantize a checkpoint into `target` beside it."""
    quantize_checkpoint(source, source.parent / "target", ROW)
    return source.parent / "target"


# Links and other files that are carried along


def test_a_link_to_a_directory_is_not_dropped_in_silence(tmp_path):
    """A link to a directory cannot be carried along, and says so."""
    source = float_checkpoint(tmp_path / "m")
    (source / "more").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="more: a link to a directory"):
        quantize(source)


def test_files_of_the_cache_are_carried(tmp_path):
    """In an entry of the Hugging Face cache every file is a link, and the target has copies."""
    source = s.in_the_cache(tmp_path)
    copy = quantize(source) / "tokenizer.txt"
    assert copy.read_text() == "a b c"
    assert not copy.is_symlink()


def test_a_link_elsewhere_is_followed_where_asked(tmp_path):
    """Links to files elsewhere are carried as copies for those who made them."""
    source = float_checkpoint(tmp_path / "m")
    (tmp_path / "mine").write_text("x")
    (source / "mine").symlink_to(tmp_path / "mine")
    quantize_checkpoint(source, tmp_path / "t", ROW, follow_symlinks=True)
    assert (tmp_path / "t" / "mine").read_text() == "x"
    assert not (tmp_path / "t" / "mine").is_symlink()


def test_other_files_are_looked_at_first(tmp_path):
    """A file that cannot be carried is found before a byte is written."""
    source = float_checkpoint(tmp_path / "m")
    os.mkfifo(source / "pipe")
    seen = []
    with pytest.raises(CheckpointError, match="pipe: not a regular file"):
        quantize_checkpoint(source, tmp_path / "t", ROW, progress=lambda *a: seen.append(a))
    assert seen == []


def test_an_index_keeps_what_it_says(tmp_path):
    """Members of an index that only other programs know come through; sizes are new."""
    source = float_checkpoint(tmp_path / "m", shards=3)
    index = json.loads((source / s.INDEX).read_text())
    index["metadata"]["total_parameters"] = 7
    (source / s.INDEX).write_text(json.dumps(index | {"mine": [1]}))
    after = json.loads((quantize(source) / s.INDEX).read_text())
    assert after["mine"] == [1]
    assert after["metadata"]["total_parameters"] == 7
    assert after["metadata"]["total_size"] > 0


def test_a_file_that_shrank_is_told_with_its_size(tmp_path):
    """A file that was cut after it had been opened is named with the size that it has now."""
    checkpoint = open_checkpoint(float_checkpoint(tmp_path / "m"))
    os.truncate(tmp_path / "m" / "model.safetensors", 100)
    with pytest.raises(ContainerError, match="cut short") as caught:
        checkpoint.plain["norm.weight"].load()
    assert caught.value.found == "'100 bytes'"


# Targets


def test_parents_of_a_failed_target_go_again(tmp_path):
    """Folders that were made for a target are gone after a failure."""
    source = tmp_path / "m"
    source.mkdir()
    save_file({"a.weight": torch.full((4, 4), torch.nan)}, source / "model.safetensors")
    before = state(tmp_path)
    with pytest.raises(QconfigError, match="NaN"):
        quantize_checkpoint(source, tmp_path / "new" / "er" / "t", ROW)
    assert state(tmp_path) == before


def test_an_error_names_the_source_of_a_bad_weight(tmp_path):
    """A weight that cannot be quantized is named with the file that holds it."""
    source = tmp_path / "m"
    source.mkdir()
    save_file({"a.weight": torch.full((4, 4), torch.nan)}, source / "model.safetensors")
    with pytest.raises(QconfigError) as caught:
        quantize(source)
    assert caught.value.file == str(source / "model.safetensors")


def test_an_error_names_no_temporary_file(tmp_path):
    """What cannot be stored is named with the file that was wanted."""
    with pytest.raises(ContainerError) as caught:
        save_checkpoint({"a": torch.zeros(2, dtype=torch.complex128)}, tmp_path / "t")
    assert caught.value.file == str(tmp_path / "t" / "model.safetensors")


@pytest.mark.parametrize("name", ["file/t", "file/er/t", "x" * 300, "x" * 250])
def test_a_target_that_cannot_be_made(tmp_path, name):
    """A target on a path through a file, or with too long a name, is a storage error."""
    source = float_checkpoint(tmp_path / "m")
    (tmp_path / "file").write_text("x")
    before = state(tmp_path)
    with pytest.raises(StorageError):
        quantize_checkpoint(source, tmp_path / name, ROW)
    assert state(tmp_path) == before


def test_a_source_with_too_long_a_name(tmp_path):
    """A path that the system refuses is a storage error, not the system's own."""
    with pytest.raises(StorageError, match="cannot open: File name too long"):
        open_checkpoint(tmp_path / ("x" * 300))


# Contradictions


@pytest.mark.parametrize("value", [[], "gptq", 1, True])
def test_a_quantization_config_is_an_object(tmp_path, value):
    """A quantization config that is no object is named with its pointer, whoever reads it."""
    source = float_checkpoint(tmp_path / "m")
    (source / "config.json").write_text(json.dumps({"quantization_config": value}))
    with pytest.raises(CheckpointError, match="quantization_config is not an object") as caught:
        verify_checkpoint(source)
    assert caught.value.pointer == "/quantization_config"


def test_a_foreign_checkpoint_is_refused(tmp_path):
    """A checkpoint of GPTQ is not quantized again; the error says what it is."""
    source = float_checkpoint(tmp_path / "m")
    (source / "config.json").write_text('{"quantization_config": {"quant_method": "gptq"}}')
    with pytest.raises(CheckpointError, match="quantized already") as caught:
        quantize(source)
    assert (caught.value.pointer, caught.value.found) == ("/quantization_config", "'gptq'")
    with pytest.raises(CheckpointError, match="not ours"):
        upgrade_checkpoint(source, None, dry_run=True)
    assert verify_checkpoint(source).notes == ("quantized by 'gptq', and not checked here",)


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir])
def test_an_index_that_is_no_file_is_not_overlooked(tmp_path, put):
    """Something else in the place of the index is an error and not a checkpoint without one."""
    source = float_checkpoint(tmp_path / "m")
    put(source / s.INDEX)
    with pytest.raises(ContainerError, match=r"index\.json: not a regular file"):
        open_checkpoint(source)


@pytest.mark.parametrize("names", [("a", "a.bias"), ("a.weight", "a.weight.zero_point")])
def test_what_could_not_be_read_is_not_written(tmp_path, names):
    """Names that a reader would take for parts of a quantized tensor are refused before writing."""
    source = tmp_path / "m"
    source.mkdir()
    save_file({names[0]: torch.ones(8, 4), names[1]: torch.ones(8)}, source / "model.safetensors")
    rules = [{"match": f"re:{names[0]}", "use": "row"}]
    document = {"type": "FqnToConfig", "version": 2, "configs": {"row": {}}, "rules": rules}
    document["configs"]["row"] = {"type": "Int8WeightOnlyConfig", "version": 3}
    with pytest.raises(CheckpointError, match="lies beside a quantized one"):
        quantize_checkpoint(source, tmp_path / "t", config_from_dict(document))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("alias", "message"),
    [
        ("\x1b[31m", "a tied name has control or invisible characters"),
        ("x" * 5000, "a tied name is too long"),
        ("a.weight.qdata", "a tie does not lead from a new name"),
    ],
)
def test_a_tied_name_is_a_name(tmp_path, alias, message):
    """The further names of a tensor keep to the rules of names, and are not taken."""
    source = s.quantized(lambda _, record: record.update(ties={alias: "a.weight"}))(tmp_path / "m")
    with pytest.raises(QconfigError, match=message):
        open_checkpoint(source)


def test_two_shards_that_describe_one_tie(tmp_path):
    """A further name that two shards give to two tensors is refused."""
    source = tmp_path / "m"
    checkpoint_of(source, {}, {"a": torch.ones(2)}, ties={"c": "a"})
    checkpoint_of(tmp_path / "n", {}, {"b": torch.ones(2)}, ties={"c": "b"})
    (source / "model.safetensors").rename(source / s.SHARDS[0])
    (tmp_path / "n" / "model.safetensors").rename(source / s.SHARDS[1])
    (source / s.INDEX).write_text(json.dumps({"weight_map": {"a": s.SHARDS[0], "b": s.SHARDS[1]}}))
    with pytest.raises(CheckpointError, match="c: two shards describe the tie"):
        open_checkpoint(source)


def test_a_record_that_is_no_json(tmp_path):
    """An error in the text of a record points into the header."""
    source = tmp_path / "m"
    metadata = {"qconfig": '{"container": 1, "container": 2}'}
    source.mkdir()
    save_file({"a": torch.ones(2)}, source / "model.safetensors", metadata)
    with pytest.raises(DocumentSyntaxError) as caught:
        open_checkpoint(source)
    assert caught.value.pointer == "/__metadata__/qconfig/container"


def test_inspect_names_the_tensor_that_no_step_carries(tmp_path, monkeypatch):
    """A tensor that cannot be brought up to date is named by those who only look."""

    def convert(_: object) -> None:
        raise LayoutError("no way")

    source = checkpoint_of(tmp_path / "m", {"a.weight": v1_layout()})
    monkeypatch.setattr("qconfig.versioning.registry.convert", convert)
    with pytest.raises(LayoutError) as caught:
        inspect_checkpoint(source)
    assert (caught.value.file, caught.value.fqn) == (str(source), "a.weight")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"quant_max": 300}, "/quant_max"),
        ({"quant_min": 7, "quant_max": -8}, "/quant_min"),
        ({"dtype": "int8"}, "/dtype"),
    ],
)
def test_fields_of_the_first_version_are_checked(tmp_path, change, pointer):
    """Bounds that int8 cannot have, and a dtype that no tensor shows, are found when it is read."""
    source = s.old(**change)(tmp_path / "m")
    with pytest.raises(LayoutError) as caught:
        open_checkpoint(source)
    assert caught.value.pointer == f"/__metadata__/qconfig/layouts/0{pointer}"


def test_codes_in_their_declared_range_are_upgraded(tmp_path):
    """Codes that keep to the range their file declares come through unchanged."""
    layout = v1_layout()
    layout.int_data.clamp_(-8, 7)
    source = checkpoint_of(tmp_path / "m", {"a.weight": layout})
    s.edit(source, lambda _, r: r["layouts"][0].update(quant_min=-8, quant_max=7))
    upgrade_checkpoint(source, tmp_path / "t")
    after = load_checkpoint(tmp_path / "t")["a.weight"]
    assert torch.equal(after.qdata, layout.int_data)


def test_a_flood_of_problems_ends(tmp_path):
    """Of a hundred thousand bad layouts only the first thousand are told: memory has an end."""
    source = s.quantized(lambda _, r: r.update(layouts=[0] * 100_000))(tmp_path / "m")
    with pytest.raises(SeveralErrors) as caught:
        open_checkpoint(source)
    assert len(caught.value.problems) == MOST_PROBLEMS


@pytest.mark.parametrize(
    "document",
    [
        {"rules": [0] * 5000},
        {"configs": {str(i): 0 for i in range(5000)}},
        {str(i): 0 for i in range(5000)},
    ],
)
def test_a_flood_of_problems_in_a_config_ends(document):
    """The same holds for the arrays, objects and fields of a config."""
    with pytest.raises(SeveralErrors) as caught:
        config_from_dict({"type": "FqnToConfig", "version": 2} | document)
    assert MOST_PROBLEMS <= len(caught.value.problems) < MOST_PROBLEMS + 10


def test_nothing_is_near_a_very_long_name():
    """What is longer than can be shown is compared with nothing."""
    assert nearest("x" * 10**6, ["x" * 10**6]) is None


# Saving


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.empty(2, 2, device="meta"), "a meta tensor has no values"),
        (lambda: torch.eye(3).to_sparse(), "not a dense tensor"),
        (lambda: torch.eye(3).to_sparse_csr(), "not a dense tensor"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)]), "not a dense tensor"),
        (lambda: Wrapped(torch.ones(2)), "a tensor subclass that no layout describes"),
    ],
)
def test_a_tensor_that_no_file_holds(tmp_path, make, message):
    """Tensors without values, without strides or of other libraries are refused by name."""
    with pytest.raises(CheckpointError, match=f"a: {message}"):
        save_checkpoint({"a": make()}, tmp_path / "t")
    assert not (tmp_path / "t").exists()


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        """Make a tensor without elements of its own."""
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, *_):
        """Have no operators."""
        raise NotImplementedError

    def __tensor_flatten__(self):
        """Say that there are inner tensors."""
        return [], None


def test_a_name_that_is_no_string(tmp_path):
    """A key that is no string is refused, and not turned into one."""
    with pytest.raises(CheckpointError, match="a name is no string"):
        save_checkpoint({3: torch.ones(2)}, tmp_path / "t")


def test_a_config_json_that_json_cannot_hold(tmp_path):
    """A value that is no JSON is an error of ours, and nothing is left."""
    with pytest.raises(FieldError, match="a value that JSON cannot hold"):
        save_checkpoint({"a": torch.ones(2)}, tmp_path / "t", config_json={"a": {1}})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FieldError):
        strict_json.dumps(object())


# Loading into a model


def test_integers_do_not_become_a_weight(tmp_path):
    """Stored integers in the place of a float weight are a misfit with its name."""
    stored = {"weight": torch.ones(8, 4, dtype=torch.int32), "bias": torch.ones(8)}
    save_checkpoint(stored, tmp_path / "m")
    model = nn.Linear(4, 8)
    with pytest.raises(CheckpointError, match="weight: the tensor has elements of another kind"):
        load_checkpoint(tmp_path / "m", model=model)
    assert model.weight.dtype is torch.float32


@pytest.mark.parametrize("device", ["nope", "cpu:x", "cuda:99"])
def test_a_device_that_is_not_there(tmp_path, device):
    """A device that cannot be used is a usage error, before anything is read."""
    with pytest.raises(UsageError, match="a device that cannot be used"):
        load_checkpoint(tmp_path / "absent", device=device)


def test_hints_are_few(tmp_path, monkeypatch):
    """Where no name fits, what is near is looked for a few times only: it takes long."""
    calls = []
    monkeypatch.setattr(load, "nearest", lambda *a: calls.append(a))
    save_checkpoint({f"x.{i}": torch.full((1,), i) for i in range(200)}, tmp_path / "m")
    with pytest.raises(SeveralErrors) as caught:
        load_checkpoint(tmp_path / "m", model=nn.Linear(1, 1))
    assert len(caught.value.problems) == 202
    assert len(calls) < 30


def test_a_current_layout_is_left_alone(tmp_path):
    """An upgrade with nothing to do writes nothing, whatever the target."""
    source = checkpoint_of(tmp_path / "m", {"a.weight": current_layout()})
    assert not upgrade_checkpoint(source, tmp_path / "t").needed
    assert not (tmp_path / "t").exists()
