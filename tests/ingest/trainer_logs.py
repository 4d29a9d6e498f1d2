"""Logs of trainers in `tests/data/timing`: what each holds."""

from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class Case:
    """A log, the form that it is read as, its steps and their times."""

    name: str
    form: str
    steps: list[int]
    times_ms: list[float | None]


CASES = (
    Case("build_nanogpt.log", "build-nanogpt", [0, 1, 2, 3], [390.0, 395.0, 400.0, 405.0]),
    Case(
        "clu.log",
        "lines of keys and values",
        [100, 200, 300, 400],
        [395.007, 400.0, 405.006, 410.004],
    ),
    Case("composer.log", "Composer", [1, 2, 3, 4], [395.007, 400.0, 405.006, 410.004]),
    Case("detectron2.log", "detectron2", [19, 39, 59, 79], [390.0, 395.0, 400.0, 405.0]),
    Case("espnet.log", "ESPnet", [-1, -1, -1, -1], [390.0, 395.0, 400.0, 405.0]),
    Case("fairseq.log", "fairseq", [10, 20, 30, 40], [395.257, 400.0, 404.858, 409.836]),
    Case("gpt_neox.log", "Megatron-LM", [10, 20, 30, 40], [395.0, 400.0, 405.0, 410.0]),
    Case(
        "imagenet.log",
        "torchvision, imagenet example",
        [0, 10, 20, 30],
        [390.0, 395.0, 400.0, 405.0],
    ),
    Case("keras.log", "keras", [938, 938, 938], [400.0, 400.0, 400.0]),
    Case("lerobot.log", "LeRobot", [200, 400, 600, 800, 1000], [395.0, 400.0, 405.0, 410.0, 390.0]),
    Case("llama_factory.jsonl", "JSONL", [10, 20, 30, 40], [400.0] * 4),
    Case("llm_c.log", "llm.c", [1, 2, 3, 4], [395.0, 400.0, 405.0, 410.0]),
    Case("maxtext.log", "MaxText", [0, 1, 2, 3], [390.0, 395.0, 400.0, 405.0]),
    Case("metric_logger.log", "MetricLogger", [0, 20, 40, 60], [390.0, 395.0, 400.0, 405.0]),
    Case("mmengine.log", "mmengine", [50, 100, 150, 200], [390.0, 395.0, 400.0, 405.0]),
    Case(
        "modded_nanogpt.log", "modded-nanogpt", [0, 1, 2, 3, 4], [None, 390.0, 395.0, 400.0, 405.0]
    ),
    Case("nanochat.log", "nanochat", [1, 2, 3, 4], [395.0, 400.0, 405.0, 410.0]),
    Case("nanotron.log", "nanotron", [1, 2, 3, 4], [395.0, 400.0, 405.0, 410.0]),
    Case("nemo.log", "NeMo", [0, 1, 2, 3], [390.0, 395.0, 400.0, 405.0]),
    Case("olmo.log", "OLMo", [7, 8, 9, 10], [390.0, 395.007, 400.0, 405.006]),
    Case(
        "opennmt.log",
        "lines of keys and values",
        [50, 100, 150, 200, 250],
        [None, 400.0, 400.0, 400.0, 400.0],
    ),
    Case("paddle.log", "PaddlePaddle", [10, 20, 30, 40], [395.0, 400.0, 405.0, 410.0]),
    Case("prefixed.log", "lines of keys and values", [0, 1, 2, 3], [390.0, 395.0, 400.0, 405.0]),
    Case("rsl_rl.log", "lines of keys and values", [0, 1, 2, 3], [390.0, 400.0, 400.0, 410.0]),
    Case("swift.jsonl", "JSONL", [5, 10, 15, 20], [400.0, 400.0, 400.0, 400.0]),
    Case("tensorboard.csv", "CSV", [0, 1, 2, 3], [None, 400.0, 400.0, 400.0]),
    Case(
        "tensorflow.log",
        "TensorFlow estimator",
        [100, 200, 300, 400],
        [400.0, 405.006, 410.004, None],
    ),
    Case("timm.log", "timm", [0, 50, 100, 150], [390.0, 395.0, 400.0, 405.0]),
    Case(
        "torchtune.log",
        "lines of keys and values",
        [1, 2, 3, 4, 5],
        [400.0, 400.0, 410.0, 410.0, 390.0],
    ),
    Case("verl.log", "verl", [1, 2, 3, 4], [39000.0, 39500.0, 40000.0, 40500.0]),
    Case("wandb.jsonl", "JSONL", [0, 1, 2, 3, 4], [None, 407.131, 399.163, 394.913, 402.404]),
)
