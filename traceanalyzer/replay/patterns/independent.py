"""Calls of one model right after each other, of which none needs another: shapes tell them from
layers and time steps.

Either no call gives what the next one takes, as where views of one picture are compared: the
input's shape is not met any more once the model has taken it, and its result has another size. Or
the calls give what they take, but the program works on these tensors between runs of calls only,
and then puts the results of a run together. Or as many results as there are calls (crops,
documents, molecules) are put into one tensor, or each is added to those before it, and nothing is
carried from call to call: a recurrent product takes a tensor that nothing before it in the call has
given. Where the items' sizes go up and down, no state of that size goes from one to the next."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise, takewhile

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.operators import JOINING, Operator, convolved, output_shape
from traceanalyzer.replay.patterns.repeats import Repeat
from traceanalyzer.trace import I32

FEWEST_ITEMS = 4  # fewer calls in a loop are told by other means
LAST_OF_CALL = 4  # operators; what begins the next round may stand behind the result
LEAST_STATE = 256  # numbers; a call's answer, which many tensors are as large as, has fewer
FEWEST_TURNS_OF_SIZES = 3
"""As often as this sizes of items go from rising to falling or back; those of a pyramid do once."""
MOST_LISTED = 30  # PyTorch's recorder leaves out the shapes of longer lists of tensors
WEIGHTS = regex(r"^aten::(linear|addmm|mm|matmul|bmm|baddbmm|conv\w*|embedding\w*|_scaled_mm)$")
CONVOLUTION = regex(r"^aten::(conv\dd|convolution)$")
WEIGHTS_FIRST = regex(r"^aten::(addmm|embedding\w*)$")
"""The second tensor of these is the data: a bias, or rows to look up, come before it."""
EITHER_DATA = regex(r"^aten::(matmul|bmm|baddbmm)$")  # either operand may be data
TAKES_STATE = regex(
    r"^aten::(linear|addmm|mm|matmul|conv\w*|stack|cat|concat|lstm\w*|gru\w*|rnn\w*)$"
)
"""Operators through which a recurrent cell takes its state."""
CELL = regex(r"(lstm|gru|rnn(?:(?!rnn)\w)*)_cell")
REDUCES = regex(
    r"^aten::((?=\w*?pool)\w+|mean|sum|amax|amin|max|min|prod|norm|linalg_vector_norm|logsumexp|argmax|argmin)$"
)
"""Operators that give fewer elements than they take."""
LOOKUP = regex(r"^aten::embedding(_bag)?$")
GIVES_NUMBERS = regex(
    r"^aten::(arg\w+|multinomial|topk|sort|msort|searchsorted|bucketize|nonzero\w*|unique\w*|histc|floor\w*|round|"
    r"to|_to_copy|long|int)$"
)
"""Operators that may give whole numbers of what they take."""
PUTS_TOGETHER = regex(r"^aten::(add|sub|mul|div|lerp|addcmul|rsub)_?$")
ADDS = regex(r"^aten::(add_?|maximum|logaddexp)$")
"""Takes what a call gives, and what those before it gave together."""
Run = Sequence[Operator]


def has_weights(operator: Operator) -> bool:
    """Whether an operator may multiply by weights, or look rows of them up."""
    return operator.named(WEIGHTS)


def data_and_weights(operator: Operator) -> tuple[list[Shape], list[Shape]]:
    """What an operator takes beside weights, and the shapes of these."""
    if not has_weights(operator) or operator.named(EITHER_DATA):
        return operator.listed or operator.shapes, []
    place = int(operator.named(WEIGHTS_FIRST))
    return operator.shapes[place : place + 1], operator.shapes[:place] + operator.shapes[
        place + 1 :
    ]


def of_other_size(operators: Run, run: Repeat) -> bool:
    """Whether no call gives what the next one takes."""
    call = operators[run.first : run.first + run.period]
    taken = _model_takes(call)
    given = output_shape(call[-1])
    if taken is None or given is None or math.prod(taken) == math.prod(given):
        return False
    return not _met_again(call, taken) and not _is_brought(call, math.prod(given))


def _is_brought(call: Run, size: int) -> bool:
    """Whether a call takes something of this size that it has not given itself before: a model that
    begins with the time takes its input later. What the operator before gives may be that where it is
    not known."""
    before: Shape | None = ()
    for operator in call:
        sizes = map(math.prod, data_and_weights(operator)[0])
        if size in sizes:
            return before is not None
        before = _gives(operator)
        if before is not None and math.prod(before) == size:
            return False
    return False


def takes_its_result(call: Run) -> bool:
    """Whether a call begins with a tensor of the size that it gives: each call may work on what the
    one before gave, as rounds of a diffusion model do."""
    given = [shape for shape in map(_gives, call[-LAST_OF_CALL:]) if shape is not None]
    sizes = [math.prod(shape) for shape in given if math.prod(shape) >= LEAST_STATE]
    return bool(sizes) and _is_brought(call, sizes[-1])


def put_together(operators: Run, run: Repeat) -> bool:
    """Whether results of the calls are put together after them, and what they take of that size is
    worked on nowhere within: not always by the first layer, which may be one of the time."""
    call = operators[run.first : run.first + run.period]
    given = _gives(call[-1])
    taken = {shape for one in call if has_weights(one) for shape in data_and_weights(one)[0]}
    worked_on = {shape for one in call if not has_weights(one) for shape in one.shapes}
    after = operators[run.stop : run.stop + run.times]
    return any(
        one.named(PUTS_TOGETHER) and one.shapes.count(shape) > 1
        for one in after
        for shape in taken - worked_on
        if given in (None, shape)
    )


def _gives(operator: Operator) -> Shape | None:
    """The shape of what an operator gives; None where that is not known."""
    return convolved(operator) if operator.named(CONVOLUTION) else output_shape(operator)


def share_weights_only(operators: Run, steps: I32, run: Repeat) -> bool:
    """Whether these calls share only their weights, and what they give is put together in the same
    step."""
    if run.times < FEWEST_ITEMS:
        return False
    starts = range(run.first, run.stop, run.period)
    calls = [operators[at : at + run.period] for at in starts]
    added_up = all(map(_adds_up, calls))
    collected_by = _collected_by(operators, steps, run)
    taken = [_first_taken(call) for call in calls]
    sizes = [math.prod(shape) for shape in taken]
    if not added_up and collected_by is None and not _are_of_items(sizes):
        return False
    if any(_weights(call) != _weights(calls[0]) for call in calls):
        return False
    if _carries(calls[0], through_any=added_up):
        return False
    if _looks_words_up(calls[0]):
        return True
    if len(set(taken)) == 1:
        return _gives_other_size(calls[0], taken[0], collected_by)
    # Sizes of items rise and fall; a text that is written, or a pyramid, has them in order.
    return sizes not in (sorted(sizes), sorted(sizes, reverse=True))


def _first_taken(call: Run) -> Shape:
    first = next(filter(has_weights, call))
    return next(iter(data_and_weights(first)[0]), ())


def _are_of_items(sizes: Sequence[int]) -> bool:
    """Whether sizes are those of items in any order, whatever happens to the results: most are met
    once, and they rise and fall again and again. A cycle through a pyramid has few, down and up."""
    changes = [after > before for before, after in pairwise(sizes) if after != before]
    turns = sum(a != b for a, b in pairwise(changes))
    once = sum(count == 1 for count in Counter(sizes).values())
    return turns >= FEWEST_TURNS_OF_SIZES and 2 * once > len(sizes)


def _looks_words_up(call: Run) -> bool:
    """Whether a call begins with numbers of words, and gives none: then no call takes what another
    gives."""
    first = next(filter(has_weights, call))
    return first.named(LOOKUP) and not any(one.named(GIVES_NUMBERS) for one in call)


def _weights(call: Run) -> list[list[Shape]]:
    return [data_and_weights(one)[1] for one in call if has_weights(one)]


def _model_takes(call: Run) -> Shape | None:
    """The shape of what the first operator with weights takes; None for words to look up."""
    first = next(filter(has_weights, call))
    return first.shapes[0] if first.shapes and "embedding" not in first.name else None


def _met_again(call: Run, taken: Shape) -> bool:
    """Whether an operator after the first with weights takes a tensor of this shape."""
    begun = next(i for i, one in enumerate(call) if has_weights(one))
    return any(taken in one.shapes for one in call[begun + 1 :])


def is_collected(operators: Run, steps: I32, run: Repeat) -> bool:
    """Whether as many tensors as there are calls are made one after them."""
    return _collected_by(operators, steps, run) is not None


def _collected_by(operators: Run, steps: I32, run: Repeat) -> Operator | None:
    """What makes one of as many tensors as there are calls, after them in their step."""
    too_many = MOST_LISTED + 1
    wanted = min(run.times, too_many)
    after = zip(operators[run.stop :], steps[run.stop :].tolist(), strict=True)
    in_step = takewhile(lambda pair: pair[1] == steps[run.first], after)
    joining = (one for one, _ in in_step if one.named(JOINING))
    return next(
        (one for one in joining if wanted == min(len(one.listed) or too_many, too_many)), None
    )


def _adds_up(call: Run) -> bool:
    """Whether a call ends by adding its result to that of the calls before it."""
    last = call[-1]
    if not last.named(ADDS):
        return False
    if not last.shapes:
        return output_shape(last) is not None
    return len(last.shapes) == 2 and last.shapes[0] == last.shapes[1]


def _gives_other_size(call: Run, taken: Shape, collected_by: Operator | None) -> bool:
    """Whether a call gives nothing of the size that it takes. What it gives is told by its last
    operator, else by what puts the results of all calls together."""
    given = output_shape(call[-1])
    if given is None and collected_by is not None:
        given = next(iter(collected_by.listed), None)
    if given is None and not call[-1].named(REDUCES):
        return False
    if given is None:
        return not _met_again(call, taken)
    # A model that begins with the time takes what the call before gave later.
    size = math.prod(given)
    return size != math.prod(taken) and not (_met_again(call, taken) or _is_brought(call, size))


def _carries(call: Run, *, through_any: bool) -> bool:
    """Whether a product or a joint of tensors, or any operator, takes one, of as many rows as the
    call's input, that nothing before it in the call can have given: a state. What an operator gives
    is known of some; one of others may have given anything."""
    data = list(map(_by_size, call))
    rows = next(chain.from_iterable(map(dict.values, data)), (0,))[0]
    known = set[int]()
    given_anything = True
    for operator, found in zip(call, data, strict=True):
        unexplained = [shape[0] for size, shape in found.items() if size not in known][
            given_anything:
        ]
        takes_state = through_any or operator.named(TAKES_STATE)
        if operator.named(CELL) or (rows in unexplained and takes_state):
            return True
        shape = output_shape(operator)
        given_anything = shape is None or (given_anything and found.keys() <= known)
        known |= found.keys() | (set() if shape is None else {math.prod(shape)})
    return False


def _by_size(operator: Operator) -> dict[int, Shape]:
    """Batches that an operator takes beside weights, the first of each size."""
    found = dict[int, Shape]()
    for shape in data_and_weights(operator)[0]:
        if len(shape) > 1:
            found.setdefault(math.prod(shape), shape)
    return found
