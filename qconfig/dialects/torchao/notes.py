"""What reading a document of torchao's assumed, or could not carry."""

from attrs import frozen

from qconfig.versioning import Config


@frozen
class Note:
    """One thing to tell about a document that was read.

    Args:
        pointer: JSON pointer of what it is about, into the document.
        text: what was assumed, or is not carried.
        without_tensors: whether there is nothing to tell where the model's tensors are known, too.
    """

    pointer: str
    text: str
    without_tensors: bool = False


@frozen
class ReadConfig:
    """A config that was read, and what to tell about it.

    Args:
        config: in its current version.
        notes: what was assumed, or is not carried.
        dialect: in whose form the document is.
    """

    config: Config
    notes: tuple[Note, ...] = ()
    dialect: str = "torchao"
