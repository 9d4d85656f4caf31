import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from qconfig.configs import PerAxis, PerGroup, PerRow, PerTensor
from qconfig.configs.choices import MappingType
from qconfig.errors import LayoutError, NewerVersionError, UnsupportedOperationError
from qconfig.layouts import QuantizeTensorToInt8Kwargs
from qconfig.tensors import Int8Tensor
from qconfig.tensors.serialization import rebuild_packed
from tests.tensors.samples import packed


def saved(value):
    """Return `value` after torch.save and a safe torch.load, and the file's size."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    size = buffer.tell()
    buffer.seek(0)
    return torch.load(buffer, weights_only=True), size


@pytest.mark.parametrize("granularity", [PerRow(), PerTensor(), PerGroup(16), PerAxis(0)])
@pytest.mark.parametrize("mapping", MappingType)
def test_every_attribute_loads_safely(granularity, mapping):
    """`weights_only=True` reads every granularity and enum that an attribute can hold."""
    kwargs = QuantizeTensorToInt8Kwargs(granularity, mapping)
    tensor = packed(act_quant_kwargs=kwargs)
    found, _ = saved({"w": tensor})
    assert found["w"].act_quant_kwargs == kwargs
    assert torch.equal(found["w"], tensor)


def test_saving_a_view_saves_its_elements_only():
    """The first 8 rows of a large tensor make a small file; torchao's holds the whole storage."""
    tensor = packed(512, 512)
    _, size = saved(tensor[:8])
    assert size < 9000


def test_tied_parameters_stay_tied_in_a_file():
    """Two names of one tensor share memory after loading."""
    tensor = packed()
    found, _ = saved({"a": tensor, "b": tensor})
    assert found["a"].qdata.data_ptr() == found["b"].qdata.data_ptr()


def test_whole_modules_can_be_pickled():
    """A quantized module pickles, with its parameter."""
    module = nn.Linear(64, 32)
    module.weight = nn.Parameter(packed())
    found = pickle.loads(pickle.dumps(module))
    assert isinstance(found.weight, nn.Parameter)
    assert torch.equal(found.weight, module.weight)


def test_damaged_pickles_are_refused():
    """Fields of a pickle are checked like any others."""
    tensors = {"qdata": torch.zeros(8, 64, dtype=torch.int8), "scale": torch.ones(3, 5)}
    attributes = {"block_size": (1, 64), "dtype": torch.float32}
    with pytest.raises(LayoutError, match="scale has a wrong shape"):
        rebuild_packed(Int8Tensor, 5, tensors, attributes, False)
    with pytest.raises(LayoutError, match="has no field surprise"):
        rebuild_packed(Int8Tensor, 5, tensors, attributes | {"surprise": 1}, False)


def test_pickles_of_older_and_newer_releases():
    """A pickle of an older layout version is upgraded; a newer one is refused as newer."""
    tensors = {"int_data": torch.ones(8, 64, dtype=torch.int8), "scale": torch.ones(8)}
    attributes = {"block_size": (1, 64), "dtype": torch.float32}
    found = rebuild_packed(Int8Tensor, 1, tensors, attributes, True)
    assert found.scale.shape == (8, 1)
    assert isinstance(found, nn.Parameter)
    with pytest.raises(NewerVersionError, match="newer than this qconfig"):
        rebuild_packed(Int8Tensor, 99, tensors, attributes, False)


def test_deepcopy_keeps_ties():
    """One tensor under two names is one tensor in the copy."""
    tensor = packed()
    first, second = copy.deepcopy([tensor, tensor])
    assert first is second
    assert first.qdata.data_ptr() != tensor.qdata.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_conversion_is_honoured(dtype):
    """`to(dtype)` changes the type shown; codes and scales keep bits and types."""
    tensor = packed()
    found = tensor.to(dtype)
    assert found.dtype == dtype
    assert found.scale.dtype == torch.float32
    assert torch.equal(found.qdata, tensor.qdata)
    assert found.to_layout().dtype.to_torch() == dtype


def test_half_converts_weight_and_bias():
    """After `module.half()` weight and bias agree, which torchao's do not."""
    module = nn.Linear(64, 32)
    module.weight = nn.Parameter(packed())
    weight = module.weight
    module.half()
    assert module.weight is weight
    assert (module.weight.dtype, module.bias.dtype) == (torch.float16, torch.float16)
    assert module(torch.ones(2, 64, dtype=torch.float16)).dtype == torch.float16


def test_conversion_to_integers_is_refused():
    """A quantized weight shows floating-point values only."""
    with pytest.raises(UnsupportedOperationError, match=r"conversion to torch\.int8"):
        packed().to(torch.int8)


@pytest.mark.parametrize(
    ("source", "difference"),
    [
        (packed(16, 64), "qdata: int8[32, 64] and int8[16, 64]"),
        (packed(granularity=PerGroup(16)), "scale: float32[32, 1] and float32[32, 4]"),
        (packed().with_fields(scale=torch.ones(32, 1).bfloat16()), "scale: float32[32, 1] and bf"),
        (packed(zero_point=True), "zero_point: absent and int8[32, 1]"),
        (packed(dtype=torch.bfloat16), "dtype: torch.float32 and torch.bfloat16"),
        (packed().with_fields(reduce_range=True), "reduce_range: False and True"),
    ],
)
def test_copy_names_what_differs(source, difference):
    """`copy_` between tensors that differ raises, naming field and both values."""
    target = packed()
    with pytest.raises(LayoutError) as caught:
        target.copy_(source)
    assert f"differ in {difference}" in caught.value.message
    assert torch.equal(target, packed())


def test_copy_between_alike():
    """`copy_` between alike tensors copies codes and scales."""
    target, source = packed(seed=0), packed(seed=1)
    assert target.copy_(source) is target
    assert torch.equal(target, source)


@pytest.mark.parametrize("quantized_model", [True, False])
def test_mixed_state_dicts_say_which_side_is_quantized(quantized_model):
    """`load_state_dict(assign=False)` of float into packed or back names the packed side."""
    module = nn.Linear(64, 32, bias=False)
    state = {"weight": packed()}
    if quantized_model:
        module.weight = nn.Parameter(packed())
        state = {"weight": torch.zeros(32, 64)}
    side = "destination" if quantized_model else "source"
    with pytest.raises(RuntimeError, match=f"the {side} is Int8Tensor"):
        module.load_state_dict(state)


def test_assigning_into_a_float_module():
    """`assign=True` puts the packed tensor in, as a parameter without gradient."""
    module = nn.Linear(64, 32, bias=False)
    module.load_state_dict({"weight": packed()}, assign=True)
    assert isinstance(module.weight, Int8Tensor)
    assert not module.weight.requires_grad


def test_setting_data_is_refused():
    """`.data =` would swap the outer tensor only, so it raises."""
    tensor = packed()
    with pytest.raises(UnsupportedOperationError, match="would leave the inner tensors behind"):
        tensor.data = packed(seed=1)


def test_equal_compares_bits_and_form():
    """`torch.equal` compares form and bits, and refuses a float tensor."""
    assert torch.equal(packed(), packed())
    assert not torch.equal(packed(), packed(seed=1))
    assert not torch.equal(packed(), packed(granularity=PerGroup(16)))
    with pytest.raises(UnsupportedOperationError, match="one side is not packed"):
        torch.equal(packed(), torch.zeros(32, 64))


def test_sharing_memory_is_refused():
    """`share_memory_` on tensor or module raises instead of crashing."""
    module = nn.Linear(64, 32)
    module.weight = nn.Parameter(packed())
    for share in (packed().share_memory_, module.share_memory):
        with pytest.raises(UnsupportedOperationError, match="share its inner tensors instead"):
            share()


def test_exports_of_memory_are_refused():
    """DLPack and NumPy would see a tensor without storage."""
    with pytest.raises(UnsupportedOperationError, match="__dlpack__"):
        packed().__dlpack__()
    with pytest.raises(RuntimeError, match="tensor subclasses"):
        packed().numpy()


def test_pinning_asks_inner_tensors():
    """`is_pinned` is about codes and scales."""
    assert packed().is_pinned() is False


def test_unknown_operator_names_operator_and_class():
    """An operator without implementation raises NotImplementedError with both names."""
    with pytest.raises(NotImplementedError) as caught:
        packed() + 1
    assert str(caught.value) == (
        "Int8Tensor does not support aten.add.Tensor\n"
        "  hint: call dequantize() for an ordinary tensor"
    )


@pytest.mark.parametrize("name", ["zero_", "relu_", "t_", "abs_"])
def test_mutating_operators_are_refused(name):
    """No in-place operator falls back to a copy that is thrown away."""
    tensor = packed()
    with pytest.raises(UnsupportedOperationError, match="change a packed payload in place"):
        getattr(tensor, name)()
    assert torch.equal(tensor, packed())


def test_empty_copies_of_a_meta_module():
    """`module.to_empty` gives room for codes and scales of the same kind."""
    module = nn.Linear(64, 32, bias=False)
    module.weight = nn.Parameter(packed().to("meta"))
    module.to_empty(device="cpu")
    module.load_state_dict({"weight": packed()})
    assert torch.equal(module.weight, packed())


@pytest.mark.parametrize(
    "imports",
    [
        "import torch, qconfig",
        "import qconfig, torch",
        "from qconfig import load_config; import torch.nn as nn, torch",
        "import qconfig; from qconfig.tensors.base import PackedTensor; import torch",
    ],
)
def test_a_fresh_process_loads_weights_only(tmp_path, imports):
    """A process that imports qconfig and torch, in any order, may load with weights_only."""
    torch.save({"w": packed(8, 16)}, tmp_path / "m.pt")
    code = f"import sys; {imports}; print(torch.load(sys.argv[1], weights_only=True)['w'].shape)"
    command = [sys.executable, "-c", code, str(tmp_path / "m.pt")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("torch.Size")
