"""Files of torch.save, read without torch's loader: no code runs, no class is made.

The pickle in the archive is followed symbolically. Tensors become lazy ones with their byte ranges
in the file; other classes become `pickled_values` with their names, which a dialect's closed table
has to hold.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from qconfig.codec.collector import collector_paused
from qconfig.codec.pickle_machine import run
from qconfig.codec.pickle_tree import check_tree
from qconfig.codec.pickled_values import Role
from qconfig.codec.regular_files import open_regular
from qconfig.codec.torch_archive import read_archive
from qconfig.codec.torch_meanings import TorchMeanings
from qconfig.codec.torch_storages import Storages
from qconfig.errors import ContainerError, StorageError
from qconfig.limits import current_limits


@frozen
class TorchFile:
    """What a file of torch.save holds.

    Args:
        path: the file.
        file_size: its bytes.
        stamp: inode and time of the last change, in ns.
        root: the value that was saved, plain data and `pickled_values`. It is a tree of bounded
            depth and size.
        attributes: Python attributes of `root`, where it is an OrderedDict, such as a state_dict's
            `_metadata`.
    """

    path: Path
    file_size: int
    stamp: tuple[int, int]
    root: Any
    attributes: Mapping[str, Any] = field(factory=dict, repr=False)


def read_torch_file(path: Path | str, names: Mapping[str, Role]) -> TorchFile:
    """Read a file of torch.save; no elements are read.

    Args:
        path: the file, of torch 1.6 or later.
        names: the classes and functions that the file may name beside torch's own, by
            "module.name"; a method as "<path of its class>.<method>".

    Raises:
        ContainerError: it is another kind of file, is damaged, breaks a limit, or names what is in
            no table.
        StorageError: it is missing or may not be read.
    """
    path, limits = Path(path), current_limits()
    try:
        with open_regular(path) as file, collector_paused():
            stamp = file.stamp
            archive = read_archive(file, limits)
            storages = Storages(path, file.size, archive.storages, limits)
            meanings = TorchMeanings(names, storages, limits)
            root, instructions = run(archive.pickle, meanings, limits)
            asides = [aside for _, aside in meanings.attributes.values()]
            check_tree([root, asides], instructions, limits)
            _, attributes = meanings.attributes.get(id(root), (root, {}))
            return TorchFile(path, file.size, stamp, root, attributes)
    except (ContainerError, StorageError) as error:
        error.at(file=path)
        raise


def mentions(path: Path | str, words: Iterable[bytes]) -> bool:
    """Return whether the pickle of a file of torch.save has one of some words in it.

    A first look that follows nothing: names and texts stand in a pickle as they are.

    Args:
        path: the file.
        words: what names or keys have in them.

    Raises:
        ContainerError, StorageError: as `read_torch_file`.
    """
    with open_regular(Path(path)) as file:
        pickled = read_archive(file, current_limits()).pickle
    return any(word in pickled for word in words)
