"""Members of torchao's enums, by every value that a release gave them.

Pickles of Python 3.11.2 hold a member's name, those of 3.11.7 its value. A value keeps its meaning
where an enum moved or grew, but for MappingType: 2 was ASYMMETRIC up to 0.5, which put no member
into a file.
"""

from collections.abc import Mapping
from typing import Any

from qconfig.errors import ContainerError, nearest


def _lower(*members: str) -> dict[Any, str]:
    return {member.lower(): member for member in members}


ENUMS: Mapping[str, Mapping[Any, str]] = {
    "Float8PackingFormat": {
        **_lower("PLAIN", "SPARSE_2D_DATA_2D_METADATA", "SPARSE_1D_DATA_1D_METADATA"),
        "sparse_cutlass": "SPARSE_CUTLASS",
    },
    "GemmInputRole": _lower("INPUT", "WEIGHT", "GRAD_OUTPUT"),
    "Int4ChooseQParamsAlgorithm": _lower("TINYGEMM", "HQQ"),
    "Int4PackingFormat": _lower(
        "PLAIN", "PRESHUFFLED", "MARLIN_SPARSE", "PLAIN_INT32", "TILE_PACKED_TO_4D", "OPAQUE"
    ),
    "IntxChooseQParamsAlgorithm": _lower("AFFINE", "HQQ_SCALE_ONLY"),
    "IntxPackingFormat": _lower(
        "UNPACKED_TO_INT8",
        "OPAQUE_ATEN_KLEIDIAI",
        "OPAQUE_TORCHAO_AUTO",
        "OPAQUE_TORCHAO_KLEIDIAI",
        "OPAQUE_TORCHAO_LOWBIT",
    ),
    "IntxUnpackedToInt8TensorActivationQuantization": _lower("INT8_ASYM_PER_TOKEN"),
    "KernelPreference": _lower(
        "AUTO", "TORCH", "FBGEMM", "MSLK", "EMULATED", "TRITON", "DEEPGEMM", "CUTEDSL"
    ),
    "MappingType": {1: "SYMMETRIC", 2: "SYMMETRIC_NO_CLIPPING_ERR", 3: "ASYMMETRIC"},
    "MXGemmKernelChoice": _lower("EMULATED", "CUTLASS", "CUBLAS"),
    "NVFP4MMConfig": _lower("DYNAMIC", "WEIGHT_ONLY"),
    "PackingFormat": _lower("PLAIN", "PRESHUFFLED", "MARLIN_SPARSE", "UNPACKED_TO_INT8", "OPAQUE"),
    "ScaleCalculationMode": {
        **_lower("FLOOR", "CEIL", "EVEN", "RCEIL"),
        1: "FLOOR",
        2: "CEIL",
        3: "EVEN",
        4: "RCEIL",
    },
    "Target": {
        # 0.9 had NATIVE=1 and ATEN=2 in another module; no value of ours holds either.
        **_lower("AUTO", "UNIVERSAL", "KLEIDIAI", "ATEN", "NATIVE"),
        1: "AUTO",
        2: "UNIVERSAL",
        3: "KLEIDIAI",
        4: "ATEN",
    },
    "ZeroPointDomain": {1: "INT", 2: "FLOAT", 3: "NONE"},
}
"""Class name -> value -> member name."""


def member_name(path: str, value: Any, member: str | None) -> str:
    """Return the name of an enum's member.

    Args:
        path: module and name of the enum.
        value: the member's value, where the file holds that.
        member: the member's name, where the file holds that.

    Raises:
        ContainerError: no release of torchao had such a member, or such an enum.
    """
    name = path.rpartition(".")[2]
    members = ENUMS.get(name)
    if members is None:
        raise ContainerError(
            f"{path} is no enum of torchao's",
            found=name,
            expected="one of " + ", ".join(sorted(ENUMS)),
            hint=nearest(name, ENUMS),
        )
    names = set(members.values())
    if member is not None:
        if member in names:
            return member
    elif type(value) in (int, str) and value in members:
        return members[value]
    raise ContainerError(
        f"{name} never had that member",
        found=value if member is None else member,
        expected="one of " + ", ".join(sorted(names)),
    )
