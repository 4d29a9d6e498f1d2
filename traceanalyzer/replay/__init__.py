"""The step replayed: what the host did and what the device did, with what each waited for, run
again.

`tape` turns a recording into the host's events, the device ops that they launch and the
dependencies between them; `simulate` runs a tape; `scenarios` changes it and says what the step
would then take. Replaying causes instead of subtracting shares is the idea of Daydream (USENIX ATC
2020), dPRO (MLSys 2022) and Lumos (MLSys 2025)."""
