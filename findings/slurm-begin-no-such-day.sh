#!/usr/bin/env bash
# `--begin` on a day that the calendar does not have.
. "$(dirname "$0")/slurm.sh"
job=$(sbatch --parsable -o none --begin=2027-02-29 --wrap true)
seen "a refusal" "begins 2027-03-01T00:00:00" "begins $(squeue -h -j "$job" -o %S)"
