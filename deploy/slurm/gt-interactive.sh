#!/bin/bash
# A GT server and a worker for each node of this terminal's allocation, and a shell, or a program,
# that uses them by GT_CONNECT.
#   salloc --nodes=2 --ntasks-per-node=1 --exclusive
#   deploy/slurm/gt-interactive.sh                       a shell; server and workers end with it
#   deploy/slurm/gt-interactive.sh ./train --epochs 3    a program
# The shell runs where this script is called. Where the shell of `salloc` stays on the login node,
# this calls it on the first node:
#   srun --overlap --nodes=1 --ntasks=1 --pty deploy/slurm/gt-interactive.sh
# It makes no allocation. gt.sbatch, which has to be beside it, does all the work.
set -euo pipefail
exec "$BASH" "$(dirname "${BASH_SOURCE[0]}")/gt.sbatch" "${@:-${SHELL:-bash}}"
