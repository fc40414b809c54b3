/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_TCP_H
#define LONGHAUL_TCP_H

// Fields of the kernel's TCP that the programs use. Only the names matter: libbpf resolves the offsets from the BTF of
// the running kernel when it loads the program (CO-RE).

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "connection.h"

#define OF_KERNEL __attribute__((preserve_access_index))

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct {
		__u8 bytes[16];
	} skc_v6_daddr, skc_v6_rcv_saddr;
} OF_KERNEL;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
} OF_KERNEL;

struct inet_sock {
	struct sock sk;
} OF_KERNEL;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
} OF_KERNEL;

struct minmax_sample {
	u32 v;
} OF_KERNEL;

struct minmax {
	struct minmax_sample s[3];
} OF_KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_wnd;
	u32 prior_cwnd;
	u32 max_packets_out;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 delivered;
	u32 app_limited;
	u32 rate_delivered;
	u32 rate_interval_us;
	u64 bytes_acked;
	u32 mss_cache;
	u32 srtt_us;
	u32 mdev_us;
	struct minmax rtt_min;
	u64 tcp_mstamp;
	u8 is_cwnd_limited : 1;
} OF_KERNEL;

struct ack_sample {
	u32 pkts_acked;
	__s32 rtt_us;
	u32 in_flight;
} OF_KERNEL;

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART };

// The name is the first member: the loader writes it there.
struct module;
struct sk_buff;

struct tcp_congestion_ops {
	char name[16];
	struct module *owner;
	u32 flags;
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
};

// Lets unprivileged processes select the congestion control, like the kernel's own unrestricted ones
// (include/net/tcp.h).
#define TCP_CONG_NON_RESTRICTED 1

#define PRIVATE_BYTES 104

// Equivalent of the kernel's tcp_is_cwnd_limited: in slow start a window that is half used also counts as limited.
static __always_inline u32 is_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void read_connection(struct connection *c, struct tcp_sock *tp)
{
	u32 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);

	c->now_us = tp->tcp_mstamp;
	c->window = tp->snd_cwnd;
	c->window_count = tp->snd_cwnd_cnt;
	c->threshold = tp->snd_ssthresh;
	c->clamp = tp->snd_cwnd_clamp;
	c->prior_window = tp->prior_cwnd;
	c->delivered = tp->delivered;
	c->limited = is_limited(tp);
	c->open = state == bpf_core_enum_value(enum tcp_ca_state, TCP_CA_Open);
	c->disorder = state == bpf_core_enum_value(enum tcp_ca_state, TCP_CA_Disorder);
}

static __always_inline void write_connection(struct tcp_sock *tp, const struct connection *c)
{
	tp->snd_cwnd = c->window;
	tp->snd_cwnd_cnt = c->window_count;
	tp->snd_ssthresh = c->threshold;
}

#endif
