# Says in what it runs: a container has a root of its own, and sees its own processes and GPUs only.
. /etc/os-release
echo "job ${MUSTER_JOB_ID:-none} runs in $PRETTY_NAME, as user $(id -u)"
echo "processes that I see: $(ls -d /proc/[0-9]* | wc -l)"
echo "GPUs that I may use: ${CUDA_VISIBLE_DEVICES:-none}"
echo "my files: $(ls)"
