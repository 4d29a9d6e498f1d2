"""The step of a run that was never made: another batch, sequence length, number format, GPU or
number of ranks.

`question` holds what is asked, `dimensions` which sizes of the recorded tensors are batch and
length, `resized` the tensors at other sizes, `work` what each device op then has to do, `curve` how
long that takes, `precision` and `gpu` another format and another GPU, `ranks` more of them,
`memory` the peak, and `answer` the step that all this leads to; `sweep` asks several at once. The
host's time is that of the recording: it does not go with shapes."""
