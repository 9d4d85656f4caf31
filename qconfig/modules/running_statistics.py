"""Running statistics, and the step at which what was seen becomes what is learned.

In eager mode the count of steps is looked at, and only what the moment asks for is computed. While
a graph is compiled or exported it is not known: both are computed, and the count chooses.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from qconfig.errors import UncalibratedError
from qconfig.tensors.quant_tensor.fields import is_real


class Moment(NamedTuple):
    """How many training steps were seen before this forward.

    Args:
        steps: int64, 0-d.
        end: how many are looked at before what was seen is learned; None for all there will be.
        now: `steps` as a number, or None while a graph is traced.
    """

    steps: torch.Tensor
    end: int | None
    now: int | None

    @property
    def is_over(self) -> bool:
        """Whether what was seen is known to be learned by now."""
        return self.end is not None and self.now is not None and self.now > self.end


def moment_of(steps: torch.Tensor, end: int | None) -> Moment:
    """Return the moment that a count of steps says."""
    known = not torch.compiler.is_compiling() and is_real(steps) and not _is_faked()
    return Moment(steps, end, int(steps.item()) if known else None)


def _is_faked() -> bool:
    """Return whether operations on real tensors give fake ones now."""
    return any(isinstance(m, FakeTensorMode) for m in _get_current_dispatch_mode_stack())


@torch.no_grad()
def advance(moment: Moment) -> None:
    """Count a training step, in place; after the step at which learning begins, none is counted."""
    if not torch.compiler.is_compiling() and is_real(moment.steps) and _is_faked():
        return  # nothing was seen, and a fake mode adds to real numbers
    if moment.end is None or (moment.now is not None and moment.now <= moment.end):
        moment.steps.add_(1)
    elif moment.now is not None:
        return
    else:
        moment.steps.add_((moment.steps <= moment.end).to(moment.steps.dtype))


@torch.no_grad()
def remember(
    running: torch.Tensor, seen: torch.Tensor, moment: Moment, momentum: float | None
) -> None:
    """Let a running statistic follow what a batch shows, in place.

    The first batch is taken as it is. Then it is `(1 - momentum) * running + momentum * seen`, or
    the mean of all without a momentum.

    Args:
        running: of any shape.
        seen: of the same shape.
        moment: how many were seen before; from its end on, nothing is changed.
        momentum: weight of `seen`.
    """
    now, end = moment.now, moment.end
    seen = seen.to(running.dtype)
    if now == 0:
        running.copy_(seen)
        return
    count = moment.steps if now is None else now
    if now is not None and end is not None and now >= end:
        return
    if momentum is None:
        followed = running * (count / (count + 1)) + seen / (count + 1)
    else:
        followed = running * (1 - momentum) + momentum * seen
    if now is None:
        followed = torch.where(moment.steps == 0, seen, followed)
        if end is not None:
            followed = torch.where(moment.steps < end, followed, running)
    running.copy_(followed)


def turned(
    moment: Moment,
    learned: torch.Tensor,
    running: torch.Tensor,
    of_batch: Callable[[], torch.Tensor],
    of_learned: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Return what a batch gives until enough was seen, and then what is learned.

    At the turn, what was seen becomes the value of what is learned, in place.

    Args:
        moment: how many steps were seen before.
        learned: the parameter; before the turn it has a gradient of zeros.
        running: what it becomes, of its shape.
        of_batch: the result before.
        of_learned: the result from then on.
    """
    now, end = moment.now, moment.end
    if now is not None and (end is None or now < end):
        return of_batch() + 0.0 * learned
    if now is not None:
        if now == end:
            with torch.no_grad():
                learned.copy_(running)
        return of_learned(learned)
    if end is None:
        return of_batch()
    with torch.no_grad():
        learned.copy_(torch.where(torch.eq(moment.steps, end), running, learned))
    return torch.where(moment.steps < end, of_batch(), of_learned(learned))


def served(moment: Moment, learned: torch.Tensor | None, running: torch.Tensor) -> torch.Tensor:
    """Return what evaluation takes: what was seen, or what is learned once that has begun.

    Args:
        moment: how many steps were seen.
        learned: the parameter, or None where nothing is learned.
        running: what was seen.

    Raises:
        UncalibratedError: nothing has been seen.
    """
    if moment.now == 0:
        raise UncalibratedError(
            "the quantizer of activations has not seen any",
            found="0 training steps",
            expected="at least one",
            hint="run the model on some batches in training mode before, load a state dict that "
            "has, or give the config a threshold",
        )
    if learned is None or moment.end is None:
        return running
    if moment.now is None:
        return torch.where(moment.steps <= moment.end, running, learned)
    return running if moment.now <= moment.end else learned
