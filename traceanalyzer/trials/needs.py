"""What switches need of the program: each says why it is not tried, or None."""

from traceanalyzer.trials.switch import Need, ProgramFacts

FUSED = "fused"
LEAST_LOADING = 0.005  # of the step: less is nothing to be won
READS = frozenset({"aten::item", "aten::_local_scalar_dense"})


def all_of(*needs: Need) -> Need:
    """All of these."""

    def need(facts: ProgramFacts) -> str | None:
        reasons = (one(facts) for one in needs)
        return next((why for why in reasons if why is not None), None)

    return need


def gpu(facts: ProgramFacts) -> str | None:
    """A GPU."""
    return None if facts.gpu else "needs a GPU"


def loader_without_workers(facts: ProgramFacts) -> str | None:
    """A DataLoader that loads in the training process."""
    if not facts.loaders:
        return "no DataLoader was made"
    if all(one.get("num_workers") for one in facts.loaders):
        return "the DataLoader has workers"
    return batches_cost(facts)


def batches_cost(facts: ProgramFacts) -> str | None:
    """Steps that load their batch, or wait for it."""
    step_ms = facts.loading.get("step_ms", 0.0)
    if step_ms and facts.loading["loading_ms"] < LEAST_LOADING * step_ms:
        share = 100 * facts.loading["loading_ms"] / step_ms
        return f"loading takes {share:.1f} % of the step"
    return None


def data_shared_among_workers(facts: ProgramFacts) -> str | None:
    """No IterableDataset that each of several workers would read from its beginning to its end."""
    alone = [one for one in facts.loaders if one.get("streams") and one.get("num_workers", 0) < 2]
    if alone and not facts.calls.get("get_worker_info"):
        return "its IterableDataset does not ask get_worker_info(): each worker would read all"
    return None


def loader_with_workers(facts: ProgramFacts) -> str | None:
    """A DataLoader with workers."""
    if any(one.get("num_workers") for one in facts.loaders):
        return None
    return "no DataLoader with workers was made"


def unpinned_loader(facts: ProgramFacts) -> str | None:
    """A DataLoader whose batches are not pinned."""
    if not facts.loaders:
        return "no DataLoader was made"
    if all(one.get("pin_memory") for one in facts.loaders):
        return "the DataLoader pins its batches"
    return None


def passing_workers(facts: ProgramFacts) -> str | None:
    """Workers that end with each epoch."""
    with_workers = [one for one in facts.loaders if one.get("num_workers")]
    if with_workers and all(one.get("persistent_workers") for one in with_workers):
        return "the DataLoader keeps its workers"
    return loader_with_workers(facts)


def model(facts: ProgramFacts) -> str | None:
    """A module with weights that is called."""
    return None if facts.models else "no module with weights was called"


def not_compiled(facts: ProgramFacts) -> str | None:
    """A program without torch.compile."""
    return "the program compiles already" if facts.compiled else model(facts)


def convolutions(facts: ProgramFacts) -> str | None:
    """Two-dimensional convolutions."""
    if any(one.get("convolutions") for one in facts.models):
        return None
    return "no two-dimensional convolution in the model"


def contiguous_images(facts: ProgramFacts) -> str | None:
    """Convolutions whose weights are not channels_last yet."""
    if any(one.get("channels_last") for one in facts.models):
        return "the model is channels_last already"
    return convolutions(facts)


def fp32_model(facts: ProgramFacts) -> str | None:
    """Weights in fp32, and no autocast."""
    if facts.settings.get("autocast"):
        return "the program uses autocast"
    if any(one.get("dtype") == "float32" for one in facts.models):
        return None
    return "no weights in fp32"


def full_precision_products(facts: ProgramFacts) -> str | None:
    """Products of fp32 matrices at full precision."""
    if facts.settings.get("float32_matmul_precision") == "highest":
        return fp32_model(facts)
    return "fp32 products use TF32 already"


def optimizer(facts: ProgramFacts) -> str | None:
    """An optimizer of torch.optim."""
    return None if facts.optimizers else "no optimizer was made"


def optimizer_not_fused(facts: ProgramFacts) -> str | None:
    """An optimizer that could be fused and is not."""
    could = [one for one in facts.optimizers if FUSED in one.get("settings", {})]
    if not could:
        return "no optimizer with a fused implementation was made"
    if all(one["settings"][FUSED] for one in could):
        return "the optimizer is fused"
    return None


def attention_calls(facts: ProgramFacts) -> str | None:
    """Calls of scaled_dot_product_attention."""
    if any("scaled_dot_product" in name for name in facts.operators):
        return None
    return "no scaled_dot_product_attention in the recording"


def reads(facts: ProgramFacts) -> str | None:
    """Values that the host reads from the device."""
    if facts.operators & READS or "remove_syncs" in facts.remedies:
        return None
    return "no .item() in the recording"


def called(name: str) -> Need:
    """A function that the program calls."""

    def need(facts: ProgramFacts) -> str | None:
        return None if facts.calls.get(name) else f"{name} is not called"

    return need


def anomaly_detection(facts: ProgramFacts) -> str | None:
    """Anomaly detection left on."""
    return None if facts.settings.get("anomaly_detection") else "anomaly detection is off"


def needless_gradients(facts: ProgramFacts) -> str | None:
    """Models that are called with gradients on, and no backward pass."""
    if facts.backwards_per_step:
        return "the program trains"
    return None if facts.settings.get("grad") else "gradients are off"


def ddp(facts: ProgramFacts) -> str | None:
    """DistributedDataParallel over several ranks."""
    if facts.ranks < 2:
        return "one rank"
    if any(one.get("wrapper") == "DistributedDataParallel" for one in facts.models):
        return None
    return "no DistributedDataParallel"


def fsdp(facts: ProgramFacts) -> str | None:
    """FSDP over several ranks."""
    if facts.ranks < 2:
        return "one rank"
    if any(
        "FSDP" in one.get("wrapper", "") or "Fully" in one.get("wrapper", "")
        for one in facts.models
    ):
        return None
    return "no FSDP"


def fsdp_wrapper(facts: ProgramFacts) -> str | None:
    """The older FSDP, which has a switch for it."""
    if any(one.get("wrapper") == "FSDPModule" for one in facts.models):
        return "fully_shard has no such switch"
    return fsdp(facts)


def accumulation(facts: ProgramFacts) -> str | None:
    """A whole number of backward passes a step, more than one."""
    passes = facts.backwards_per_step
    if passes > 1 and passes == int(passes):
        return None
    return "gradients are not accumulated over several backward passes"


def several_cpus(facts: ProgramFacts) -> str | None:
    """More than one CPU."""
    return None if facts.cpus > 1 else "one CPU"


def unset(name: str) -> Need:
    """A variable that the user has not set."""

    def need(facts: ProgramFacts) -> str | None:
        return f"{name} is set already" if name in facts.variables else None

    return need
