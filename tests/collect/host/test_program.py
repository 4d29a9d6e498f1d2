"""What a capture says of the program: its model, optimizer and loaders."""

from __future__ import annotations

import gc
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import traceanalyzer as ta
from tests.ingest.test_capture import ENVIRONMENT, capture
from traceanalyzer.collect.host import program
from traceanalyzer.ingest.conditions import program_conditions

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 2)


def loader(**options: Any) -> Any:
    return torch.utils.data.DataLoader(list(range(8)), **options)


def test_the_objects_of_a_training_are_described() -> None:
    net = Net().eval()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    found = program._describe([net.first, net, optimizer, loader(batch_size=4), 5, "text"])
    assert found["model"] == {
        "name": "Net",
        "parameters": 40 + 18,
        "dtypes": ["float32"],
        "training": False,
    }
    assert found["optimizers"] == ["AdamW (foreach)"]
    assert found["loaders"] == [
        {
            "batch_size": 4,
            "num_workers": 0,
            "pin_memory": False,
            "persistent_workers": False,
            "prefetch_factor": None,
        }
    ]


def test_what_is_wrapped_is_named_with_its_wrapper() -> None:
    wrapped = type("DataParallel", (torch.nn.Module,), {})()
    wrapped.module = Net()
    assert program._describe([wrapped.module, wrapped])["model"]["name"] == "DataParallel(Net)"


def test_it_finds_them_by_itself_and_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    found = program.describe_program(gc.get_objects())
    assert found is not None
    assert found["model"]["parameters"] >= 58
    assert net.training

    class Odd(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def parameters(self, recurse: bool = True) -> Any:
            raise RuntimeError("no")

    odd = Odd()
    found = program.describe_program(gc.get_objects())
    assert found is not None, "a method of the module's own is not called"
    assert found["model"]["parameters"] >= 58
    del odd
    monkeypatch.delitem(sys.modules, "torch")
    assert program.describe_program(gc.get_objects()) is None


def test_without_any_of_them_nothing_is_said() -> None:
    assert program._describe([1, "a"]) == {"model": None, "optimizers": [], "loaders": []}


def test_a_capture_states_them_as_conditions(tmp_path: Path) -> None:
    described = program._describe(
        [(net := Net()), torch.optim.SGD(net.parameters()), loader(batch_size=4)]
    )
    capture(tmp_path, environment={**ENVIRONMENT, "program": described})
    stated = {row.name: row.value for row in ta.analyze(str(tmp_path)).tables["conditions"]}
    assert (stated["model"], stated["parameters"], stated["mode of the model"]) == (
        "Net",
        "58",
        "train",
    )
    assert (
        stated["loader batch size"],
        stated["loader num_workers"],
        stated["loader pin_memory"],
    ) == ("4", "0", "off")


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        {"model": []},
        {"model": {"name": 5, "parameters": "many", "training": 1, "dtypes": [3]}},
        {"optimizers": "AdamW"},
        {"loaders": [5, {"batch_size": True, "num_workers": -1, "pin_memory": "yes"}]},
        {"model": {"parameters": 1e300}},
    ],
)
def test_damaged_descriptions_say_nothing(damaged: object) -> None:
    assert list(program_conditions(json.loads(json.dumps(damaged)))) == []


def test_lazy_batches_and_parameters_of_other_classes_are_not_asked() -> None:
    class Lazy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    class Parameter(torch.nn.Parameter):  # type: ignore[misc,name-defined,unused-ignore]
        @classmethod
        def __torch_function__(cls, *called: Any) -> Any:
            asked.append(called)
            return super().__torch_function__(*called)

    asked: list[Any] = []
    net = torch.nn.Module()
    net.weight = Parameter(torch.zeros(3))
    asked.clear()
    found = program.describe_program([net])
    assert not asked
    assert found is not None
    assert found["model"]["parameters"] == 3
    batches = iter(loader(batch_size=4))
    assert program.samples_in(batches, [Lazy(), {"x": Lazy()}]) == 4
