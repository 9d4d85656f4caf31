"""The list of checks for a builder or config, ready to run."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from attrs import NOTHING, evolve, fields

from qconfig.builders.base import Builder, ModuleBuilder, builders
from qconfig.codec.dtypes import DType
from qconfig.configs.quant_relations import FakeQuantizedConfig
from qconfig.errors import UsageError
from qconfig.testing.subject import Check, Subject
from qconfig.versioning import Config

_TOPICS = (
    "build_checks",
    "copy_checks",
    "linear_checks",
    "product_checks",
    "view_checks",
    "refusal_checks",
    "compile_checks",
    "export_checks",
)
_FAKE_QUANTIZED = ("quant_checks",)


def conformance(
    subject: Config | type[Config] | Builder,
    *,
    shape: tuple[int, int] = (32, 64),
    dtypes: Iterable[Any] = ("float32", "bfloat16"),
    module_class: str = "Linear",
    compile_backend: str = "aot_eager",
) -> list[Check]:
    """Return the checks that every builder of a linear's weight must pass.

    Those of packed weights are others than those of fake-quantized ones, whose configs derive from
    `FakeQuantizedConfig`: these compute and differentiate as their values.

    Args:
        subject: a config; a config class, for its default values; or a registered builder.
        shape: (N, K) of the weight, where the default does not suit the config.
        dtypes: element types of the weight.
        module_class: name of the module class of the weight.
        compile_backend: backend of torch.compile; `inductor` generates code as well, slowly.

    Returns:
        Named checks; each is called without arguments and raises ConformanceFailure.

    Raises:
        UsageError: the builder is not registered, or a class has fields without a default.
    """
    config = _config_of(subject)
    base = Subject(config, shape, module_class=module_class, compile_backend=compile_backend)
    topics = _FAKE_QUANTIZED if isinstance(config, FakeQuantizedConfig) else _TOPICS
    checks: list[Check] = []
    for dtype in map(DType.parse, dtypes):
        for topic in topics:
            for function in import_module(f"qconfig.testing.{topic}").CHECKS:
                name = f"{type(config).__name__}-{dtype.value}-{function.__name__}"
                checks.append(Check(name, function, evolve(base, dtype=dtype)))
    return checks


def packing_configs() -> list[type[Config]]:
    """Return the config classes whose builders make packed weights, those of plug-ins too.

    Builders that change modules, for training, are of another kind.
    """
    kinds = {c for c, builder in builders().items() if isinstance(builder, ModuleBuilder)}
    kinds.update(fake_quantized_configs())
    return [c for c in builders() if c not in kinds]


def fake_quantized_configs() -> list[type[Config]]:
    """Return the config classes whose builders make fake-quantized weights."""
    return [c for c in builders() if issubclass(c, FakeQuantizedConfig)]


def _config_of(subject: Config | type[Config] | Builder) -> Config:
    if isinstance(subject, Config):
        return subject
    if isinstance(subject, type):
        return _default(subject)
    for config_class, builder in builders().items():
        if builder is subject or type(builder) is type(subject):
            return _default(config_class)
    raise UsageError(
        "the builder is not registered",
        found=type(subject).__name__,
        expected="a class under register_builder",
    )


def _default(config_class: type[Config]) -> Config:
    required = required_fields(config_class)
    if required:
        raise UsageError(
            f"{config_class.__name__} has fields without a default",
            found=", ".join(required),
            expected="a config",
            hint=f"give a {config_class.__name__} instead of its class or builder",
        )
    return config_class()


def required_fields(config_class: type[Any]) -> list[str]:
    """Return the names of the fields that have no default."""
    return [field.name for field in fields(config_class) if field.default is NOTHING]
