#!/usr/bin/env bash
# `squeue -j` of numbers that no job has: of one, and of two.
. "$(dirname "$0")/slurm.sh"
one=0 two=0
squeue -h -j 999001 2> /dev/null || one=$?
squeue -h -j 999001,999002 2> /dev/null || two=$?
seen "the same exit code" "exit code 1 of one, 0 of two" "exit code $one of one, $two of two"
