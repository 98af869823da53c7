#!/usr/bin/env bash
# `sbatch --wait` of a job that is cancelled before it starts.
. "$(dirname "$0")/slurm.sh"
sbatch --wait --hold -J waits -o none --wrap true > out 2>&1 &
waiting=$!
await grep -q Submitted out
scancel --name=waits
code=0
wait $waiting || code=$?
seen "an exit code that is not 0" "exit code 0" "exit code $code"
