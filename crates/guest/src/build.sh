#!/bin/sh
# Builds a user-mode Linux kernel with time travel from a source tree of Linux 6.1.
# Usage: build.sh SOURCE BUILD OUTPUT    SOURCE: tar archive or directory; BUILD: empty directory; OUTPUT: kernel file
set -eu
source=$1 build=$2 output=$3

if [ -d "$source" ]; then
  cp -a "$source/." "$build"
  make -C "$build" ARCH=um mrproper
else
  tar -C "$build" --strip-components=1 -xf "$source"
fi

# replace FILE PATTERN TEXT: replaces the one line of FILE that contains PATTERN.
replace() {
  [ "$(grep -cF "$2" "$build/$1")" = 1 ] || { echo "$1 of this source has no single line \`$2\`; use Linux 6.1" >&2; exit 1; }
  sed -i "s|^.*$(printf '%s' "$2" | sed 's/[][\.*^$&|]/\\&/g').*\$|$3|" "$build/$1"
}

# Equal seeds must give equal runs: the random numbers of this kernel come from the seed in LONGHAUL_SEED alone
# (SplitMix64 by Steele, Lea and Flood, OOPSLA 2014), and its entropy pool ignores clocks and interrupts.
replace arch/um/os-Linux/util.c 'return getrandom(buf, len, flags);' '\
	static unsigned long long state;\
	static int is_seeded;\
	unsigned char *out = buf;\
	size_t i;\
\
	(void)flags;\
	if (!is_seeded) {\
		const char *seed = getenv("LONGHAUL_SEED");\
		state = seed ? strtoull(seed, NULL, 10) : 1;\
		is_seeded = 1;\
	}\
	for (i = 0; i < len; i++) {\
		unsigned long long z = (state += 0x9e3779b97f4a7c15ULL);\
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;\
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;\
		out[i] = (unsigned char)(z ^ (z >> 31));\
	}\
	return (ssize_t)len;'
replace drivers/char/random.c 'blake2s_update(&input_pool.hash, buf, len);' '	(void)buf; (void)len;'

cat > "$build/fragment" <<'FRAGMENT'
CONFIG_64BIT=y
CONFIG_LOCALVERSION="-longhaul"
CONFIG_UML_TIME_TRAVEL_SUPPORT=y
CONFIG_HOSTFS=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_PROC_FS=y
CONFIG_PROC_SYSCTL=y
CONFIG_SYSFS=y
CONFIG_TMPFS=y
CONFIG_TMPFS_POSIX_ACL=y
CONFIG_SHMEM=y
CONFIG_DEVTMPFS=y
CONFIG_FILE_LOCKING=y
CONFIG_MULTIUSER=y
CONFIG_NAMESPACES=y
CONFIG_NET_NS=y
CONFIG_UTS_NS=y
CONFIG_IPC_NS=y
CONFIG_PID_NS=y
CONFIG_USER_NS=y
CONFIG_SYSVIPC=y
CONFIG_CGROUPS=y
CONFIG_POSIX_TIMERS=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_NO_HZ_IDLE=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_TIMERFD=y
CONFIG_EVENTFD=y
CONFIG_SIGNALFD=y
CONFIG_INOTIFY_USER=y
CONFIG_MEMFD_CREATE=y
CONFIG_MEMBARRIER=y
CONFIG_ADVISE_SYSCALLS=y
CONFIG_AIO=y
CONFIG_IO_URING=y
CONFIG_SCHED_INFO=y
CONFIG_SCHEDSTATS=y
CONFIG_TASKSTATS=y
CONFIG_TASK_DELAY_ACCT=y
CONFIG_PRINTK=y
CONFIG_TTY=y
CONFIG_STDERR_CONSOLE=y
CONFIG_SSL=y
CONFIG_NULL_CHAN=y
CONFIG_CON_CHAN="null"
CONFIG_SSL_CHAN="null"
CONFIG_UNIX98_PTYS=y
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_INET=y
CONFIG_IPV6=y
CONFIG_PACKET=y
CONFIG_INET_DIAG=y
CONFIG_INET_TCP_DIAG=y
CONFIG_INET_UDP_DIAG=y
CONFIG_NETDEVICES=y
CONFIG_NET_CORE=y
CONFIG_VETH=y
CONFIG_TUN=y
CONFIG_DUMMY=y
CONFIG_BRIDGE=y
CONFIG_IFB=y
CONFIG_NET_SCHED=y
CONFIG_NET_SCH_NETEM=y
CONFIG_NET_SCH_HTB=y
CONFIG_NET_SCH_TBF=y
CONFIG_NET_SCH_FQ=y
CONFIG_NET_SCH_FQ_CODEL=y
CONFIG_NET_SCH_CAKE=y
CONFIG_NET_SCH_RED=y
CONFIG_NET_SCH_PIE=y
CONFIG_NET_SCH_INGRESS=y
CONFIG_NET_CLS_U32=y
CONFIG_NET_CLS_BPF=y
CONFIG_NET_CLS_ACT=y
CONFIG_NET_ACT_MIRRED=y
CONFIG_TCP_CONG_ADVANCED=y
CONFIG_TCP_CONG_CUBIC=y
CONFIG_TCP_CONG_HTCP=y
CONFIG_TCP_CONG_BBR=y
CONFIG_TCP_CONG_VEGAS=y
CONFIG_TCP_CONG_DCTCP=y
CONFIG_BPF_SYSCALL=y
CONFIG_CGROUP_BPF=y
FRAGMENT
make -C "$build" ARCH=um allnoconfig KCONFIG_ALLCONFIG=fragment
make -C "$build" ARCH=um -j"$(nproc)" linux
strip -o "$output" "$build/linux"
