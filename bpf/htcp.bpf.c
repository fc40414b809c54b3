// SPDX-License-Identifier: MIT OR Apache-2.0
//
// H-TCP as a congestion control of the kernel, for kernels without tcp_htcp. Loss recovery (proportional rate
// reduction), pacing, window validation and ECN remain those of the kernel, because the program defines only the hooks
// that the kernel's own modules define.
#include "tcp.h"
#include "htcp.h"

// The loader writes and freezes these settings.
const volatile struct htcp_settings settings = {};

_Static_assert(sizeof(struct htcp) <= PRIVATE_BYTES, "it must fit into icsk_ca_priv");

static __always_inline struct htcp *private_of(struct sock *sk)
{
	return (struct htcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops")
void BPF_PROG(htcp_init_connection, struct sock *sk)
{
	struct htcp_settings s = htcp_load_settings(&settings);
	struct htcp *h = private_of(sk);
	struct connection c = {};

	__builtin_memset(h, 0, sizeof(*h));
	read_connection(&c, (struct tcp_sock *)sk);
	htcp_init(&s, h, &c);
}

SEC("struct_ops")
void BPF_PROG(htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp_settings s = htcp_load_settings(&settings);
	struct connection c = {};

	read_connection(&c, (struct tcp_sock *)sk);
	htcp_acked(&s, private_of(sk), &c, sample->pkts_acked, sample->rtt_us);
}

SEC("struct_ops")
void BPF_PROG(htcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct htcp_settings s = htcp_load_settings(&settings);
	struct connection c = {};

	read_connection(&c, tp);
	htcp_avoid(&s, private_of(sk), &c, acked);
	write_connection(tp, &c);
}

SEC("struct_ops")
u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	struct htcp_settings s = htcp_load_settings(&settings);
	struct connection c = {};

	read_connection(&c, (struct tcp_sock *)sk);
	return htcp_after_loss(&s, private_of(sk), &c);
}

SEC("struct_ops")
u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	struct connection c = {};

	read_connection(&c, (struct tcp_sock *)sk);
	return htcp_undo(private_of(sk), &c);
}

SEC("struct_ops")
void BPF_PROG(htcp_set_state, struct sock *sk, u8 state)
{
	struct htcp_settings s = htcp_load_settings(&settings);
	struct htcp *h = private_of(sk);
	struct connection c = {};

	read_connection(&c, (struct tcp_sock *)sk);
	if (state == bpf_core_enum_value(enum tcp_ca_state, TCP_CA_Open))
		htcp_open(&s, h, &c);
	else if (state != bpf_core_enum_value(enum tcp_ca_state, TCP_CA_Disorder))
		htcp_congestion(&s, h, &c);
}

SEC(".struct_ops")
struct tcp_congestion_ops congestion_control = {
	.name = "htcp",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)htcp_init_connection,
	.pkts_acked = (void *)htcp_pkts_acked,
	.cong_avoid = (void *)htcp_cong_avoid,
	.ssthresh = (void *)htcp_ssthresh,
	.undo_cwnd = (void *)htcp_undo_cwnd,
	.set_state = (void *)htcp_set_state,
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";
