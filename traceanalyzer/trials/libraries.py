"""Programs whose loop is a library's: there a switch is an argument of the library's."""

from traceanalyzer.trials.seen.probe import ARGUMENTS, HF_TRAINER, LIGHTNING
from traceanalyzer.trials.switch import ProgramFacts, Switch

MADE_BY_EITHER = ("loader", "optimizer")  # the loop is the library's, these may be the program's
WORKERS = "TrainingArguments(dataloader_num_workers={value}, dataloader_persistent_workers=True)"
WRITTEN = {
    HF_TRAINER: {
        "loader_workers": WORKERS,
        "more_loader_workers": "TrainingArguments(dataloader_num_workers={value})",
        "persistent_workers": "TrainingArguments(dataloader_persistent_workers=True)",
        "prefetch_factor": "TrainingArguments(dataloader_prefetch_factor={value})",
        "pinned_memory": "TrainingArguments(dataloader_pin_memory=True)",
        "autocast_bf16": "TrainingArguments(bf16=True)",
        "tf32": "TrainingArguments(tf32=True)",
        "compile": "TrainingArguments(torch_compile=True)",
        "compile_graphs": (
            'TrainingArguments(torch_compile=True, torch_compile_mode="reduce-overhead")'
        ),
        "fused_optimizer": 'TrainingArguments(optim="adamw_torch_fused")',
        "no_recompute": "TrainingArguments(gradient_checkpointing=False)",
        "bucket_size": "TrainingArguments(ddp_bucket_cap_mb={value})",
    },
    LIGHTNING: {"autocast_bf16": 'Trainer(precision="bf16-mixed")'},
}
"""What to write into the program, by library and switch."""


def written_switch(switch: Switch, facts: ProgramFacts) -> str:
    """What to write into the program for a switch."""
    own = _by_library(switch, facts)
    return (own or switch.write).replace("{value}", str(switch.value(facts)))


def place_of(switch: Switch, facts: ProgramFacts) -> str:
    """File and line where that is to be written, empty where that is not known."""
    if _by_library(switch, facts):
        return facts.places.get(ARGUMENTS, "")
    return facts.places.get(switch.place, "")


def _by_library(switch: Switch, facts: ProgramFacts) -> str:
    made_at = switch.place if switch.place in MADE_BY_EITHER else "backward"
    library = facts.libraries.get(made_at, "")
    return WRITTEN.get(library, {}).get(switch.id, "")
