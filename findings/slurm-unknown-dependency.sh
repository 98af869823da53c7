#!/usr/bin/env bash
# `--dependency=afterok` of a number that no job ever had.
. "$(dirname "$0")/slurm.sh"
first=$(sbatch --parsable -o none --wrap true)
code=0
sbatch --wait -o none --dependency="afterok:$((first + 5000))" --wrap 'exit 7' || code=$?
seen "a refusal, or a job that waits" "the job runs: exit code 7" "the job runs: exit code $code"
