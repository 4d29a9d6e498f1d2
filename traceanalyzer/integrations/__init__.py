"""Where people already are: callbacks of trainers, experiment trackers, notebooks.

| module | one line of yours | needs |
|---|---|---|
| `huggingface` | `Trainer(..., callbacks=[RecordCallback()])` | transformers |
| `lightning` | `Trainer(callbacks=[RecordCallback()])` | lightning |
| `trackers` | `log_to_wandb(report)`, `log_to_mlflow(report)`, `log_to_tensorboard(report, writer)` | the tracker |
| `magic` | `%load_ext traceanalyzer`, then `%traceanalyzer trace.json.gz` | IPython |

`recorder` is what the callbacks share; it never ends the training that it watches."""
