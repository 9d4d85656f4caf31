"""The public functions on configs: load, dump, validate, upgrade, plan, explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qconfig.codec import strict_json
from qconfig.codec.converter import unstructure
from qconfig.errors import DocumentSyntaxError, QconfigError, UsageError, raise_problems
from qconfig.versioning import Config

if TYPE_CHECKING:
    from torch import nn

    from qconfig.calibration.calibration import Calibration
    from qconfig.checkpoints.writer import Writer
    from qconfig.dialects.torchao import ReadConfig
    from qconfig.engine.plan_document import Plan
    from qconfig.rules.explain import Explanation

_DIALECTS = ("qconfig", "torchao")


def read_config(data: Any, *, writer: "Writer | str | None" = None) -> "ReadConfig":
    """Return the config of a document, with notes on what was assumed or is not carried.

    Args:
        data: a document of ours, or torchao's `{"_type", "_version", "_data"}`, alone or in a
            `quantization_config`; of any version.
        writer: the release that wrote torchao's, such as `"torchao==0.13"`: some documents meant
            other things in other releases.

    Raises:
        UsageError: a writer that did not write the document, or is not known.
        DocumentError: everything that is wrong, each problem with its JSON pointer.
        RuleError: a pattern that cannot be used.
    """
    from qconfig.checkpoints.dialects import check_writer, dialects
    from qconfig.checkpoints.writer import Writer
    from qconfig.codec.documents import parse_config_document
    from qconfig.dialects.torchao import ReadConfig, is_envelope, read_document

    release = Writer.of(writer)
    try:
        if is_envelope(data):
            check_writer(None if release is None else dialects.get("torchao"), release)
            read = read_document(data, writer=release)
        else:
            check_writer(None, release)
            read = ReadConfig(parse_config_document(data), dialect="qconfig")
    except RecursionError:  # files cannot be that deep, but what Python code passes can
        raise DocumentSyntaxError(
            "nested too deeply", expected="no more levels than Python can recurse"
        ) from None
    _check_rules(read.config)
    return read


def config_from_dict(data: Any, *, writer: "Writer | str | None" = None) -> Config:
    """Return the config of a document: our form, or torchao's `{"_type", "_version", "_data"}`.

    Documents of earlier versions are brought to the current one.

    Args:
        data: the document.
        writer: the release that wrote it, see `read_config`, which has notes as well.

    Raises:
        QconfigError: see `read_config`.
    """
    return read_config(data, writer=writer).config


def config_to_dict(config: Config, *, dialect: str = "qconfig") -> dict[str, Any]:
    """Return the document of a config, all defaults written out.

    Args:
        config: any registered config of its current version.
        dialect: `"qconfig"`, or `"torchao"` for what torchao 0.18 reads.

    Raises:
        UsageError: an unknown dialect, or something else than a config.
        MigrationError: torchao has no form for what the config says.
    """
    if dialect not in _DIALECTS:
        raise UsageError("unknown dialect", found=dialect, expected=" or ".join(_DIALECTS))
    if not isinstance(config, Config):
        raise UsageError("not a config", found=config, hint="config_from_dict reads documents")
    if dialect == "torchao":
        from qconfig.dialects.torchao import to_envelope

        return to_envelope(config)
    document: dict[str, Any] = unstructure(config)
    return document


def load_config(path: Path | str, *, writer: "Writer | str | None" = None) -> Config:
    """Return the config in a JSON, YAML or TOML file, brought to its current version.

    Args:
        path: the file.
        writer: the release that wrote it, see `read_config`.

    Raises:
        UsageError: the file's name says neither JSON nor YAML nor TOML, or a wrong writer.
        StorageError, ContainerError: the file cannot be read, is no regular file, or too large.
        DocumentError, RuleError: everything that is wrong with it.
    """
    from qconfig.codec.documents import load_document

    path = Path(path)
    data = load_document(path)
    try:
        return config_from_dict(data, writer=writer)
    except QconfigError as error:
        raise error.at(file=path) from None


def dump_config(config: Config, path: Path | str | None = None) -> str:
    """Return the canonical JSON text of a config, and write it to `path` if there is one.

    The file is replaced at once: a reader sees the old or the new text.

    Raises:
        UsageError: something else than a config.
        StorageError: the file cannot be written.
    """
    from qconfig.codec.documents import replace_text

    text = strict_json.dumps(config_to_dict(config))
    if path is not None:
        replace_text(Path(path), text)
    return text


def validate_config(data: Any, *, writer: "Writer | str | None" = None) -> list[QconfigError]:
    """Return all problems of a document, or of the file at a path; empty if it is sound.

    Args:
        data: a mapping, or a `Path` or string that names a file.
        writer: the release that wrote it, see `read_config`.
    """
    read = load_config if isinstance(data, str | Path) else config_from_dict
    try:
        read(data, writer=writer)
    except QconfigError as error:
        return list(error.problems)
    return []


def upgrade_config(data: Any, *, writer: "Writer | str | None" = None) -> dict[str, Any]:
    """Return a document of any version or dialect as one of the current version.

    Args:
        data: the document.
        writer: the release that wrote it, see `read_config`.

    Raises:
        DocumentError, RuleError: everything that is wrong with it.
    """
    return config_to_dict(config_from_dict(data, writer=writer))


def plan(
    model: "nn.Module | Path | str",
    config: Config,
    *,
    allow_unmatched: bool = False,
    calibration: "Calibration | None" = None,
    dialect: str | None = None,
) -> "Plan":
    """Return what `quantize_` or `quantize_checkpoint` would do; nothing is changed.

    Args:
        model: a module, or the path of a checkpoint.
        config: an `FqnToConfig`, or one config for every Linear.
        allow_unmatched: accept rules that match nothing.
        calibration: what `calibrate` observed; None leaves unchecked whether layers whose config
            needs calibration have it.
        dialect: in whose form a checkpoint is written, see `open_checkpoint`; None finds it out.

    Raises:
        QconfigError: the checkpoint cannot be opened, or is quantized already.
        RuleError: a pattern that cannot be used.
        PlanError: rules and model do not fit together; all problems at once.
    """
    if isinstance(model, str | Path):
        from qconfig.checkpoints.open import open_checkpoint
        from qconfig.checkpoints.quantize import plan_checkpoint

        return plan_checkpoint(
            open_checkpoint(model, dialect=dialect),
            config,
            allow_unmatched=allow_unmatched,
            calibration=calibration,
        )
    from qconfig.engine.apply import plan_model

    return plan_model(model, config, allow_unmatched=allow_unmatched, calibration=calibration)


def explain(fqn: str, config: Config, *, module_class: str | None = None) -> "Explanation":
    """Return which rule decides about a module or parameter, and why the others do not.

    Args:
        fqn: name of a parameter, or of a module (then its `weight` is meant).
        config: an `FqnToConfig`, or one config for every Linear.
        module_class: class of the module, such as `"Linear"`; None infers it from the name.

    Raises:
        RuleError: a pattern that cannot be used.
    """
    from qconfig.engine.explain import explain_name

    return explain_name(fqn, config, module_class)


def _check_rules(config: Config) -> None:
    from qconfig.configs.fqn_to_config import FqnToConfig

    if isinstance(config, FqnToConfig):
        from qconfig.rules.lint import check_rules

        raise_problems(check_rules(config))
