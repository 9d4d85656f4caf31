"""Classes of weights that autoquant of torchao 0.4 to 0.16 chose from, by name."""

_GROUPS = ("32", "64", "128", "256")

CHOSEN: tuple[str, ...] = (
    "AQFloat8PerRowScalingDynamicallyQuantizedLinearWeight",
    "AQFloat8PerTensorScalingDynamicallyQuantizedLinearWeight",
    "AQFloat8WeightOnlyQuantizedLinearWeight",
    "AQInt8DynamicallyQuantizedLinearWeight",
    "AQInt8DynamicallyQuantizedSemiSparseLinearWeight",
    "AQInt8WeightOnlyQuantizedLinearWeight",
    "AQInt8WeightOnlyQuantizedLinearWeight2",
    "AQInt8WeightOnlyQuantizedLinearWeight3",
    "AQInt4G128WeightOnlyQuantizedMarlinSparseLinearWeight",
    *(f"AQInt4G{group}WeightOnlyQuantizedLinearWeight" for group in _GROUPS),
    *(f"AQGemliteInt4G{group}WeightOnlyQuantizedLinearWeight" for group in _GROUPS),
)
"""Subclasses of AffineQuantizedTensor and its wrappers, with the fields of those."""
