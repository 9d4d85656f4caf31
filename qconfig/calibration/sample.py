"""A bounded, even sample of the rows that pass."""

import torch

_SEED = 0


class RowSample:
    """Up to `size` rows of all that are added, each row as likely as any other.

    Vitter's algorithm R, with a seed of its own: the same rows in the same order give the same
    sample, and nothing touches torch's global generator. As long as there are no more rows than
    `size`, all are kept in their order.

    Args:
        size: the most rows to keep.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._kept: list[torch.Tensor] = []
        self._generator = torch.Generator().manual_seed(_SEED)

    def add(self, rows: torch.Tensor) -> None:
        """Add rows, (M, K); what is kept is a copy on the CPU, in the type of the first rows."""
        if not self.size or not rows.shape[0]:
            return
        room = max(0, self.size - self.seen)
        if room:
            head = rows[:room]
            kind = self._kept[0].dtype if self._kept else head.dtype
            self._kept.append(head.detach().to("cpu", kind, copy=True))
        self._replace(rows[room:], self.seen + room)
        self.seen += rows.shape[0]

    def _replace(self, rows: torch.Tensor, first: int) -> None:
        count = rows.shape[0]
        if not count:
            return
        kept = self.rows()
        if kept is None:
            return
        numbers = torch.arange(first, first + count, dtype=torch.float64) + 1.0
        draws = torch.rand(count, dtype=torch.float64, generator=self._generator)
        slots = (draws * numbers).to(torch.int64)
        hits = torch.nonzero(slots < self.size).squeeze(1).tolist()
        # Where two rows fall on one place, the later stays, as if they came one by one.
        last = {int(slots[hit]): hit for hit in hits}
        if last:
            places, sources = torch.tensor(list(last)), torch.tensor(list(last.values()))
            kept[places] = rows[sources.to(rows.device)].detach().to("cpu", kept.dtype)

    def rows(self) -> torch.Tensor | None:
        """Return the sample, (M, K), or None if no row was kept."""
        if len(self._kept) > 1:
            self._kept = [torch.cat(self._kept)]
        return self._kept[0] if self._kept else None
