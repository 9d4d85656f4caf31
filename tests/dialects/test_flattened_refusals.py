"""What torchao's flattened form cannot hold is refused by name, all at once, and not written."""

import attrs
import pytest
import torch

from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerToken
from qconfig.dialects.torchao.safetensors_forms import to_torchao
from qconfig.dialects.torchao.safetensors_write import write_torchao_checkpoint
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import MigrationError, QconfigError
from qconfig.layouts.intx import ActivationQuantization
from qconfig.versioning import registry
from tests.dialects.flattened_files import flattened, read_files, torchao_tensors

ALL = torchao_tensors()


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """Our layout of each of torchao's tensors, by the name of the sample."""
    files = {"m.safetensors": flattened({f"{n}.weight": t for n, t in ALL.items()})}
    found = read_files(tmp_path_factory.mktemp("layouts"), files)
    return {
        name.removesuffix(".weight"): registry.convert(read_tensor(stored).layout)
        for name, stored in found.stored.items()
    }


def lazy(*shape, dtype=torch.float32):
    """Return a lazy tensor of ones."""
    return LazyTensor.of(torch.ones(shape, dtype=dtype))


def pointers(layout) -> list[str | None]:
    """Return the pointers of what torchao cannot hold."""
    with pytest.raises(QconfigError) as caught:
        to_torchao(layout)
    assert all(isinstance(p, MigrationError) for p in caught.value.problems)
    return [p.pointer for p in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("float8_rows", {"act_pre_scale": lazy(64)}, ["/act_pre_scale"]),
        ("int8_rows", {"act_pre_scale": lazy(64)}, ["/act_pre_scale"]),
        ("int8_scaled", {"act_pre_scale": lazy(64, dtype=torch.float64)}, ["/act_pre_scale"]),
        ("int4", {"act_pre_scale": lazy(64)}, ["/act_pre_scale"]),
        ("int4", {"activation_dtype": DType.FLOAT32}, ["/activation_dtype"]),
        ("int4", {"dtype": DType.FLOAT32}, ["/dtype"]),
        ("intx", {"dtype": DType.FLOAT64}, ["/dtype"]),
        ("intx", {"scale": lazy(16, 2, dtype=torch.float64)}, ["/scale"]),
        (
            "intx",
            {"activation_quantization": ActivationQuantization.INT8_SYM_PER_TOKEN},
            ["/activation_quantization"],
        ),
    ],
)
def test_a_field_that_torchao_has_no_words_for_is_named(layouts, name, fields, expected):
    """The error points at the field, as it stands in our layout."""
    assert pointers(attrs.evolve(layouts[name], **fields)) == expected


@pytest.mark.parametrize("kind", [PerGroup(32), PerBlock((1, 32))])
def test_a_granularity_that_torchao_cannot_load_is_named(layouts, kind):
    """0.18 writes it into its files and fails on them."""
    layout = layouts["float8_dynamic"]
    kwargs = attrs.evolve(layout.act_quant_kwargs, granularity=kind)
    changed = attrs.evolve(layout, act_quant_kwargs=kwargs)
    assert pointers(changed) == ["/act_quant_kwargs/granularity"]


def test_a_granularity_of_int8_that_torchao_cannot_load_is_named(layouts):
    """The same holds for the settings of other families."""
    layout = layouts["int8_scaled"]
    kwargs = attrs.evolve(layout.act_quant_kwargs, granularity=PerAxis(0))
    changed = attrs.evolve(layout, act_quant_kwargs=kwargs)
    assert pointers(changed) == ["/act_quant_kwargs/granularity"]


def test_a_scale_for_each_token_is_said_as_one_for_each_row(layouts):
    """Torchao's word for it is PerRow."""
    layout = layouts["float8_dynamic"]
    kwargs = attrs.evolve(layout.act_quant_kwargs, granularity=PerToken())
    row = attrs.evolve(layout.act_quant_kwargs, granularity=PerRow())
    said = to_torchao(attrs.evolve(layout, act_quant_kwargs=kwargs))
    assert said.data == to_torchao(attrs.evolve(layout, act_quant_kwargs=row)).data


def test_several_fields_are_named_at_once(layouts):
    """All that one tensor cannot say is one error."""
    layout = layouts["intx"]
    changed = attrs.evolve(
        layout,
        dtype=DType.FLOAT64,
        activation_quantization=ActivationQuantization.INT8_SYM_PER_TOKEN,
    )
    assert pointers(changed) == ["/activation_quantization", "/dtype"]


def test_zero_points_are_supplied_where_ours_has_none(layouts):
    """Torchao stores them always, for int8 and intx."""
    for name in ("int8_rows", "int8_experts", "intx"):
        layout = attrs.evolve(layouts[name], zero_point=None)
        zeros = to_torchao(layout).fields["zero_point"]
        assert (zeros.dtype, zeros.shape) == (DType.INT8, layout.scale.shape)
        assert not zeros.load().any()


def test_a_dynamic_float8_tensor_gets_the_product_that_torchao_asserts(layouts):
    """Without mm_config torchao's product fails."""
    layout = attrs.evolve(layouts["float8_dynamic"], mm_config=None)
    data = to_torchao(layout).data["mm_config"]
    assert data == {
        "_type": "Float8MMConfig",
        "_data": {"emulate": False, "use_fast_accum": True, "pad_inner_dim": False},
    }


def checkpoint_of(directory, tensors, plain=()):
    """Return an open checkpoint with layouts and plain tensors of these names."""
    contents = ShardContents(layouts=tensors, plain={name: lazy(3) for name in plain})
    write_checkpoint(directory, {"model.safetensors": contents}, {})
    return open_checkpoint(directory)


@pytest.mark.parametrize(
    ("names", "plain", "lost"),
    [
        (["m.w", "m.w_1"], [], ["m.w"]),
        (["m.w"], ["m._w_extra"], ["m.w"]),
        (["m.w"], ["m._w_qdata"], ["m.w"]),
        (["weight"], [], ["weight"]),
        (["w", "m.w", "m.w_1"], ["m._w_extra"], ["m.w", "w"]),
    ],
)
def test_names_that_torchao_would_lose_are_refused(tmp_path, layouts, names, plain, lost):
    """Its loader takes keys by how they begin, and needs a dot."""
    layout = layouts["int8_rows"]
    checkpoint = checkpoint_of(tmp_path / "ours", dict.fromkeys(names, layout), plain)
    with pytest.raises(QconfigError) as caught:
        write_torchao_checkpoint(checkpoint, tmp_path / "theirs")
    assert sorted(p.fqn for p in caught.value.problems) == lost
    assert not (tmp_path / "theirs").exists()


def test_names_that_only_look_alike_are_written(tmp_path, layouts):
    """Other modules and other beginnings are no collision."""
    names = ["m.w", "m.v_1", "n.w_1", "m.ww"]
    checkpoint = checkpoint_of(
        tmp_path / "ours", dict.fromkeys(names, layouts["int8_rows"]), ["m.w_extra", "n._w_extra"]
    )
    write_torchao_checkpoint(checkpoint, tmp_path / "theirs")
    assert (tmp_path / "theirs" / "model.safetensors").is_file()


def test_all_tensors_that_cannot_be_written_are_named_before_anything_is(tmp_path, layouts):
    """An error has each of them with its name, and there is no target."""
    other = attrs.evolve(layouts["intx"], dtype=DType.FLOAT64)
    factor = attrs.evolve(layouts["float8_rows"], act_pre_scale=lazy(64))
    tensors = {"a.weight": other, "b.weight": factor, "c.weight": layouts["int8_rows"]}
    with pytest.raises(QconfigError) as caught:
        write_torchao_checkpoint(checkpoint_of(tmp_path / "ours", tensors), tmp_path / "theirs")
    assert [p.fqn for p in caught.value.problems] == ["a.weight", "b.weight"]
    assert not (tmp_path / "theirs").exists()
