# Sourced by the findings about Slurm: starts Debian 12's Slurm out of a temporary folder, with two emulated nodes of two
# GPUs each, and ends and removes it with the script. Needs root and apt; listens on loopback.
set -euo pipefail
version=22.05.8-4+deb12u3
source="Debian 12, package slurm-wlm $version"
folder=$(mktemp -d)
chmod 755 "$folder"
started=()

finish() {
    if [ ${#started[@]} != 0 ]; then
        scancel --user=root 2> /dev/null || true
        for _ in $(seq 50); do [ -n "$(squeue -h 2> /dev/null)" ] || break; sleep 0.2; done
        kill "${started[@]}" 2> /dev/null || true
        wait
    fi
    rm -rf "$folder"
}
trap finish EXIT

# The packages themselves, and the libraries that this machine lacks.
packages=()
for name in slurmctld slurmd slurm-client slurm-wlm-basic-plugins; do packages+=("$name=$version"); done
packages+=(munge=0.5.15-2+deb12u1 libmunge2=0.5.15-2+deb12u1)
mkdir -p "$folder/archives/partial" "$folder/root" "$folder/state" "$folder/spool-n1" "$folder/spool-n2"
(
    cd "$folder/archives"
    apt-get -qq download "${packages[@]}"
    apt-get -qq --yes --no-install-recommends --download-only -o "Dir::Cache::archives=$folder/archives" \
        install "${packages[@]}"
    for archive in *.deb; do dpkg-deb -x "$archive" "$folder/root"; done
) > "$folder/apt.log" 2>&1 || { cat "$folder/apt.log"; exit 2; }
# The daemons know themselves by these names, which Debian makes when it installs them.
for name in slurmctld slurmd slurmstepd; do ln -s "$name-wlm" "$folder/root/usr/sbin/$name"; done
libraries=$folder/root/usr/lib/x86_64-linux-gnu
export PATH="$folder/root/usr/bin:$folder/root/usr/sbin:$folder/root/bin:$PATH"
export LD_LIBRARY_PATH="$libraries:$libraries/slurm-wlm:$folder/root/lib/x86_64-linux-gnu"
export SLURM_CONF=$folder/slurm.conf

mkdir "$folder/dev"
for gpu in 0 1; do mknod "$folder/dev/gpu$gpu" c 1 3; done
cat > "$SLURM_CONF" << CONF
ClusterName=findings
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=17817
SlurmUser=root
SlurmdUser=root
PluginDir=$libraries/slurm-wlm
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
GresTypes=gpu
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=17821 CPUs=4 RealMemory=4000 Gres=gpu:2
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=17822 CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=all Nodes=n[1-2] Default=YES State=UP
CONF
printf 'NodeName=n[1-2] Name=gpu File=%s/dev/gpu[0-1]\n' "$folder" > "$folder/gres.conf"
echo CgroupAutomount=no > "$folder/cgroup.conf"
head -c 1024 /dev/urandom > "$folder/munge.key"
chmod 400 "$folder/munge.key"

start() { (cd "$folder" && exec "$@") > "$folder/$1.log" 2>&1 & started+=($!); }
await() { for _ in $(seq 100); do if "$@" > /dev/null 2>&1; then return; fi; sleep 0.2; done; echo "not ready: $*"; exit 2; }
start munged --foreground --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
    --pid-file="$folder/munge.pid" --log-file="$folder/munge.log" --seed-file="$folder/munge.seed"
await test -S "$folder/munge.socket"
start slurmctld -D
await sinfo
for node in n1 n2; do start slurmd -D -N $node -d "$folder/root/usr/sbin/slurmstepd"; done
idle() { [ "$(sinfo -h -N -o %t | grep -c '^idle$')" = 2 ]; }
await idle
cd "$folder"

# Prints what was expected and seen, and ends: with 0 if Slurm still does what is recorded, else with 1.
seen() {
    printf '%s (%s)\nexpected: %s\nrecorded: %s\nseen:     %s\n' "$source" "$(sinfo -V)" "$1" "$2" "$3"
    [ "$2" = "$3" ] || { echo "this has changed"; exit 1; }
}
