"""How LinearActivationQuantizedTensor quantizes activations: its function's name is data.

The functions are torchao's. None is ever called; the table says what each one did.
"""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType, ScaleCalculationMode
from qconfig.configs.granularity import PerRow
from qconfig.dialects.torchao.stored import Stored, StoredFunction, StoredObject
from qconfig.dialects.torchao.tensors import activation_changes as changes
from qconfig.dialects.torchao.tensors import arithmetic as arithmetics
from qconfig.dialects.torchao.tensors.arithmetic import Era
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, inner, wrong
from qconfig.dialects.torchao.tensors.values import element_type, granularity
from qconfig.errors import ContainerError, MigrationError, UnknownNameError, nearest
from qconfig.layouts.activation import Int8Product, QuantizeTensorToInt8Kwargs
from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.layouts.intx import ActivationQuantization
from qconfig.migrations.mx_tensor_layout import QuantizeTensorToMXKwargs013
from qconfig.versioning import registry

_How = ActivationQuantization
_SYMMETRIC, _ASYMMETRIC = MappingType.SYMMETRIC, MappingType.ASYMMETRIC
# Layouts of weights, with the version from which on they say how activations are quantized, and
# those that say the arithmetic, too.
_OF_INT8 = {"Int8TensorLayout": 2}
_OF_FEWER_BITS = {"CutlassInt4PackedTensorLayout": 1, "IntxUnpackedToInt8TensorLayout": 2}
_SAYING_ARITHMETIC = {"Int8TensorLayout": 5, "IntxUnpackedToInt8TensorLayout": 3}
_SPARSE = "BlockSparseTensorLayout"


@frozen
class Function:
    """What a function of torchao's did to an activation.

    Args:
        int8: mapping of int8 codes, for a weight of int8 codes; None where there is none.
        intx: how codes of fewer bits are multiplied with; None where they cannot be.
        changes: what ours does otherwise.
    """

    int8: MappingType | None = None
    intx: ActivationQuantization | None = None
    changes: tuple[str, ...] = ()


_REDUCED = Function(_SYMMETRIC, _How.INT8_SYM_PER_TOKEN, changes=(changes.REDUCED_RANGE,))
_SYMMETRIC_INT8 = Function(_SYMMETRIC, _How.INT8_SYM_PER_TOKEN)

FUNCTIONS: Mapping[str, Function] = {
    "_ActQuantizer.dynamic_quantize": _REDUCED,
    "_int4_symm_cutlass_quant": Function(intx=_How.INT4_SYM_PER_TOKEN),
    "_int4_symm_per_token_quant_cutlass": Function(intx=_How.INT4_SYM_PER_TOKEN),
    "_int8_asymm_per_token_quant": Function(_ASYMMETRIC, _How.INT8_ASYM_PER_TOKEN),
    "_int8_symm_cutlass_quant": _SYMMETRIC_INT8,
    "_int8_symm_per_token_quant": _REDUCED,
    "_int8_symm_per_token_reduced_range_quant": _REDUCED,
    "_int8_symm_per_token_reduced_range_quant_cutlass": _REDUCED,
    "_int8_symm_per_token_reduced_range_quant_noop_decode": Function(
        _SYMMETRIC, _How.INT8_SYM_PER_TOKEN, changes=(changes.REDUCED_RANGE, changes.SINGLE_TOKENS)
    ),
    "_uint8_asymm_per_token_quant": Function(
        None, _How.UINT8_ASYM_PER_TOKEN, changes=(changes.UNSIGNED,)
    ),
}
"""Functions that make int8 and int4 activations; those of other types are in `OTHER_FUNCTIONS`."""

_FP8 = StoredFunction("_input_activation_quant_func_fp8")
_ROW = StoredObject("PerRow")


def read_dynamic(stored: Stored, context: Context) -> Read:
    """Read a LinearActivationQuantizedTensor: a weight, and the function for its activations.

    Raises:
        UnknownNameError: a function that torchao did not have.
        MigrationError: a function that does not go with the weight.
        ContainerError or UnknownFieldError: fields that no release wrote.
    """
    fields = Fields(stored)
    weight = inner(context, fields.take("original_weight_tensor"), "original_weight_tensor")
    function = fields.value("input_quant_func", StoredFunction)
    kwargs = {**function.kwargs, **(fields.optional("quant_kwargs", dict) or {})}
    _check_dtype(fields, weight)
    fields.done()
    era = Era.of_wrapped(stored, context)
    return quantizing(weight, function, kwargs, era).inside(stored.name)


def quantizing(weight: Read, function: StoredFunction, kwargs: Mapping[str, Any], era: Era) -> Read:
    """Return a weight that quantizes its activations as a function of torchao's did.

    Args:
        weight: the weight, which leaves activations as they are.
        function: the function's name.
        kwargs: what was bound to it.
        era: which releases may have written it.

    Raises:
        UnknownNameError: torchao had no such function.
        MigrationError: the weight's layout has no such activations.
        ContainerError: kwargs that the function does not have.
    """
    name = registry.entry_of(type(weight.layout)).name
    if function.name in OTHER_FUNCTIONS:
        return OTHER_FUNCTIONS[function.name](weight, name, kwargs)
    known = FUNCTIONS.get(function.name)
    if known is None:
        raise UnknownNameError(
            f"{function.name} is no function of torchao's that quantizes activations",
            pointer="/input_quant_func",
            found=function.name,
            expected="one of " + ", ".join(sorted({*FUNCTIONS, *OTHER_FUNCTIONS})),
            hint=nearest(function.name, {*FUNCTIONS, *OTHER_FUNCTIONS}),
        )
    _check_kwargs(function, kwargs, ())
    product: tuple[str, ...] = (changes.PRODUCT,)
    codes = name in _OF_INT8
    if name == _SPARSE:
        weight, name, product = weight.newest(), "Int8TensorLayout", (changes.SPARSE_PRODUCT,)
    how: dict[str, Any]
    if name in _OF_INT8 and known.int8 is not None:
        how = {"act_quant_kwargs": QuantizeTensorToInt8Kwargs(PerRow(), known.int8)}
        version = _OF_INT8[name]
    elif name in _OF_FEWER_BITS and known.intx is not None:
        how, version = {"activation_quantization": known.intx}, _OF_FEWER_BITS[name]
    else:
        raise _unfit(function.name, weight)
    dtype: DType = weight.layout.dtype  # type: ignore[attr-defined]
    arithmetic, unknown = arithmetics.of_function(function.name, dtype, era, codes=codes)
    if arithmetic is None or name not in _SAYING_ARITHMETIC:
        result = weight.at_least(version).with_fields(**how)
        return result.noting(changes=known.changes + changes.scale_type(dtype))
    result = arithmetics.following(weight.at_least(_SAYING_ARITHMETIC[name]), arithmetic, **how)
    rounded = () if arithmetic.product is Int8Product.SCALE_TYPE else product
    return result.noting(changes=rounded, ambiguities=unknown)


def float8_kwargs_of(kwargs: Mapping[str, Any]) -> QuantizeTensorToFloat8Kwargs:
    """Return how `_input_activation_quant_func_fp8` quantized, from its two arguments.

    Raises:
        ContainerError: one of them is missing, or something else than they can be.
    """
    for name in ("activation_granularity", "activation_dtype"):
        if name not in kwargs:
            raise ContainerError(
                f"the function for activations has no {name}",
                found=list(kwargs),
                expected="activation_granularity and activation_dtype",
            )
    dtype = kwargs["activation_dtype"]
    if not isinstance(dtype, DType):
        raise wrong("activation_dtype", dtype, "a dtype")
    return QuantizeTensorToFloat8Kwargs(dtype, granularity(kwargs["activation_granularity"]))


def _float8(weight: Read, name: str, kwargs: Mapping[str, Any]) -> Read:
    if name != "Float8TensorLayout":
        raise _unfit("_input_activation_quant_func_fp8", weight)
    _check_kwargs(_FP8, kwargs, ("activation_granularity", "activation_dtype"))
    return weight.with_fields(act_quant_kwargs=float8_kwargs_of(kwargs))


def _float8_rows(weight: Read, name: str, kwargs: Mapping[str, Any]) -> Read:
    """Read the function of CUTLASS's products: a scale a row, of `target_dtype`."""
    if name != "Float8TensorLayout":
        raise _unfit("_float8_cutlass_quant", weight)
    given = {"activation_granularity": _ROW, "activation_dtype": kwargs.get("target_dtype")}
    _check_kwargs(StoredFunction("_float8_cutlass_quant"), kwargs, ("target_dtype",))
    return weight.with_fields(act_quant_kwargs=float8_kwargs_of(given))


def _mx(weight: Read, name: str, kwargs: Mapping[str, Any]) -> Read:
    if name != "MXTensorLayout":
        raise _unfit("_input_activation_quant_func_mxfp", weight)
    known = ("activation_dtype", "block_size", "scaling_mode", "scale")
    _check_kwargs(StoredFunction("_input_activation_quant_func_mxfp"), kwargs, known)
    if kwargs.get("scale") is not None:
        raise wrong("scale", kwargs["scale"], "None, as no release had a static scale")
    layout: Any = weight.at_least(3).layout
    how = QuantizeTensorToMXKwargs013(
        element_type(kwargs.get("activation_dtype", DType.FLOAT8_E4M3FN)),
        kwargs.get("block_size", layout.block_size),
        ScaleCalculationMode.FLOOR,
        layout.gemm_kernel_choice,
    )
    return weight.at_least(3).with_fields(act_quant_kwargs=how)


def _cast(weight: Read, _name: str, kwargs: Mapping[str, Any]) -> Read:
    _check_kwargs(StoredFunction("_to_bfloat16"), kwargs, ())
    return weight.noting(changes=(changes.CAST,))


def _unchanged(weight: Read, _name: str, kwargs: Mapping[str, Any]) -> Read:
    _check_kwargs(StoredFunction("_identity"), kwargs, ())
    return weight


def _check_kwargs(
    function: StoredFunction, kwargs: Mapping[str, Any], known: tuple[str, ...]
) -> None:
    extra = sorted(kwargs.keys() - set(known))
    if extra:
        raise ContainerError(
            f"{function.name} has no argument {extra[0]}",
            pointer="/quant_kwargs",
            found=extra,
            expected=", ".join(known) or "no arguments",
        )


def _check_dtype(fields: Fields, weight: Read) -> None:
    shown: Any = getattr(weight.layout, "dtype", None)
    if fields.stored.dtype not in (None, shown):
        raise wrong("original_weight_tensor", shown, f"a tensor of {fields.stored.dtype}")


def _unfit(name: str, weight: Read) -> MigrationError:
    return MigrationError(
        f"{name} does not go with {weight.origin.type}",
        pointer="/input_quant_func",
        found=name,
        expected="a function that quantizes activations for this weight",
    )


OTHER_FUNCTIONS: Mapping[str, Callable[[Read, str, Mapping[str, Any]], Read]] = {
    "_float8_cutlass_quant": _float8_rows,
    "_float8_cutlass_quant_sparse": _float8_rows,
    "_identity": _unchanged,
    "_input_activation_quant_func_fp8": _float8,
    "_input_quant_func_dyanmic_fp8": _float8,
    "_input_activation_quant_func_mxfp": _mx,
    "_to_bfloat16": _cast,
    "_to_float16": _cast,
}
"""Functions that make other activations than int8 and int4, or none."""
