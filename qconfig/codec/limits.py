"""The bounds that every reader of foreign bytes keeps to, in one place."""

from attrs import frozen


@frozen(kw_only=True)
class Limits:
    """How much a file or document may ask of this process. All bounds are inclusive.

    Args:
        header_bytes: bytes of a safetensors header; the format itself allows no more. The
            directory of a zip archive may be as long.
        tensors: tensors of one file or of one index.
        rank: dimensions of one tensor.
        dimension: extent of one dimension.
        name_bytes: UTF-8 bytes of a tensor name or metadata key.
        metadata_value_bytes: UTF-8 bytes of one metadata value.
        json_depth: arrays and objects nested in each other.
        document_bytes: UTF-8 bytes of a config, an index or another JSON document.
        number_digits: digits of one integer literal.
        archive_records: files in one zip archive.
        pickle_bytes: bytes of one pickle.
        pickle_operations: instructions of one pickle.
        pickle_depth: values of one pickle nested in each other.
        expanded_bytes: bytes of one tensor that is larger than its storage, as torch's `expand`
            makes.
        shared_bytes: bytes that the tensors of one file take beyond the file's own size, because
            they share storages.
    """

    header_bytes: int = 100_000_000
    tensors: int = 1_000_000
    rank: int = 16
    dimension: int = 2**48 - 1
    name_bytes: int = 4_096
    metadata_value_bytes: int = 16 * 2**20
    json_depth: int = 64
    document_bytes: int = 64 * 2**20
    number_digits: int = 40
    archive_records: int = 1_000_100
    pickle_bytes: int = 256 * 2**20
    pickle_operations: int = 32_000_000
    pickle_depth: int = 64
    expanded_bytes: int = 2**30
    shared_bytes: int = 2**36

    def describe(self, name: str) -> str:
        """Return the bound called `name` as an error's `expected`.

        Raises:
            AttributeError: there is no such bound.
        """
        return f"at most {getattr(self, name)} (Limits.{name})"


DEFAULT_LIMITS = Limits()
