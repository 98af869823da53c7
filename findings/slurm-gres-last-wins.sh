#!/usr/bin/env bash
# `--gres=gpu:1,gpu:2`, a list of two amounts of the same resource.
. "$(dirname "$0")/slurm.sh"
job=$(sbatch --parsable -o none --gres=gpu:1,gpu:2 --wrap 'sleep 30')
running() { [ "$(squeue -h -j "$job" -o %T)" = RUNNING ]; }
await running
seen "3 GPUs, or a refusal" "GRES=gpu:2(IDX:0-1)" "$(scontrol -d show job "$job" | grep -o ' GRES=.*' | tr -d ' ')"
