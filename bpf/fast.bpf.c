// SPDX-License-Identifier: MIT OR Apache-2.0
//
// FAST TCP as a congestion control of the kernel. Loss recovery (proportional rate reduction), pacing, window
// validation and ECN remain those of the kernel, because the program defines only the hooks that the kernel's own
// modules define.
#include "tcp.h"
#include "fast.h"

// The loader writes and freezes these settings.
const volatile struct fast_settings settings = {};

_Static_assert(sizeof(struct fast) <= PRIVATE_BYTES, "it must fit into icsk_ca_priv");

static __always_inline struct fast *private_of(struct sock *sk)
{
	return (struct fast *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops")
void BPF_PROG(fast_init_connection, struct sock *sk)
{
	struct fast *f = private_of(sk);

	__builtin_memset(f, 0, sizeof(*f));
}

SEC("struct_ops")
void BPF_PROG(fast_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct fast_settings s = fast_load_settings(&settings);
	struct connection c = {};
	u32 mss = tp->mss_cache;

	read_connection(&c, tp);
	fast_acked(&s, private_of(sk), &c, sample->pkts_acked, sample->rtt_us, mss ? sample->in_flight / mss : 0);
}

SEC("struct_ops")
void BPF_PROG(fast_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct fast_settings s = fast_load_settings(&settings);
	struct connection c = {};

	read_connection(&c, tp);
	fast_avoid(&s, private_of(sk), &c, acked);
	write_connection(tp, &c);
}

SEC("struct_ops")
u32 BPF_PROG(fast_ssthresh, struct sock *sk)
{
	struct connection c = {};

	read_connection(&c, (struct tcp_sock *)sk);
	return fast_after_loss(&c);
}

SEC("struct_ops")
u32 BPF_PROG(fast_undo_cwnd, struct sock *sk)
{
	struct connection c = {};

	read_connection(&c, (struct tcp_sock *)sk);
	return before_reduction(&c);
}

SEC("struct_ops")
void BPF_PROG(fast_set_state, struct sock *sk, u8 state)
{
	if (state == bpf_core_enum_value(enum tcp_ca_state, TCP_CA_Loss))
		fast_timeout(private_of(sk));
}

SEC("struct_ops")
void BPF_PROG(fast_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_CWND_RESTART))
		fast_idle(private_of(sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops congestion_control = {
	.name = "fast",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)fast_init_connection,
	.pkts_acked = (void *)fast_pkts_acked,
	.cong_avoid = (void *)fast_cong_avoid,
	.ssthresh = (void *)fast_ssthresh,
	.undo_cwnd = (void *)fast_undo_cwnd,
	.set_state = (void *)fast_set_state,
	.cwnd_event = (void *)fast_cwnd_event,
};

// The kernel requires a GPL-compatible license of struct_ops programs, although this program calls no GPL-only helper.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
