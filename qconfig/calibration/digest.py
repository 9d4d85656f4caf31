"""A digest of all that was observed, to tell one calibration from another."""

from xxhash import xxh3_64

from qconfig.calibration.calibration import TENSORS, Calibration
from qconfig.codec.converter import unstructure
from qconfig.codec.raw_memory import byte_view
from qconfig.codec.strict_json import dumps_compact


def calibration_digest(calibration: Calibration) -> str:
    """Return the same text for calibrations of the same record and the same bits."""
    running = xxh3_64(dumps_compact(unstructure(calibration.record)).encode())
    for name, layer in sorted(calibration.values.items()):
        for part in TENSORS:
            value = getattr(layer, part)
            if value is not None:
                running.update(f"{name}\0{part}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
                with byte_view(value.detach().cpu().contiguous()) as view:
                    running.update(view)
    return running.hexdigest()
