// SPDX-License-Identifier: MIT OR Apache-2.0
//
// `longhaul trace`: the kernel's TCP state of selected connections at every received packet or at intervals, changes of
// their state, and retransmissions. The program changes nothing.
#include "tcp.h"
#include "fast.h"
#include "htcp.h"

#define AF_INET 2
#define AF_INET6 10

struct trace_settings {
	__u64 interval_ns;   // minimum time between two samples of a connection; 0: every packet
	__u32 by_cookie;     // only connections in `cookies`
	__u32 by_address;    // only connections with this local or remote address
	__u8 address[16];    // IPv4 mapped into IPv6
	__u32 port;          // only connections with this local or remote port; 0: any
	__u32 name_bytes;    // length of the prefix of the congestion control's name; 0: any
	char name[16];
};

enum event_kind { FLOW, SAMPLE, STATE, RETRANSMISSION, END };
enum inner_kind { NOTHING, OF_FAST, OF_HTCP };

struct head {
	__u64 time_ns;  // CLOCK_MONOTONIC
	__u64 cookie;
	__u32 kind;
	__u32 state;    // TCP_CA_Open to TCP_CA_Loss
};

struct flow {
	struct head head;
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 unused;
	char name[16];
};

struct sample {
	struct head head;
	__u64 pacing_rate;
	__u64 bytes_acked;
	__u32 window;
	__u32 threshold;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 min_rtt_us;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 delivered;
	__u32 mss;
	__u32 peer_window;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 limits;  // bit 0: limited by the application, bit 1: by the congestion window
	__u32 inner_kind;
	__u32 inner[6];
	__u32 unused;
};

struct flow_state {
	__u64 sampled_ns;
};

const volatile struct trace_settings settings = {};

// Events dropped because the ring buffer was full.
__u64 lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

// Connections with a reported flow event.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __u64);
	__type(value, struct flow_state);
} flows SEC(".maps");

// Socket cookies of the selected connections.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __u64);
	__type(value, __u32);
} cookies SEC(".maps");

static __always_inline void *reserve(__u64 bytes)
{
	void *record = bpf_ringbuf_reserve(&events, bytes, 0);

	if (!record)
		__sync_fetch_and_add(&lost, 1);
	return record;
}

static __always_inline void read_address(__u8 *to, const void *six, const void *four, __u16 family)
{
	if (family == AF_INET6) {
		bpf_probe_read_kernel(to, 16, six);
		return;
	}
	__builtin_memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	bpf_probe_read_kernel(to + 12, 4, four);
}

static __always_inline int is_selected_address(const __u8 *address)
{
	for (int i = 0; i < 16; i++)
		if (address[i] != settings.address[i])
			return 0;
	return 1;
}

static __always_inline void read_ends(struct flow *f, const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	read_address(f->local, __builtin_preserve_access_index(&common->skc_v6_rcv_saddr),
		     __builtin_preserve_access_index(&common->skc_rcv_saddr), family);
	read_address(f->remote, __builtin_preserve_access_index(&common->skc_v6_daddr),
		     __builtin_preserve_access_index(&common->skc_daddr), family);
	f->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	f->remote_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
}

static __always_inline const struct tcp_congestion_ops *control_of(const struct sock *sk)
{
	return BPF_CORE_READ((const struct inet_connection_sock *)sk, icsk_ca_ops);
}

static __always_inline __u32 state_of(const struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD_PROBED((const struct inet_connection_sock *)sk, icsk_ca_state);
}

// Whether a connection is selected; fills the flow event.
static __always_inline int is_selected(struct flow *f, const struct sock *sk, __u64 cookie)
{
	if (settings.by_cookie && !bpf_map_lookup_elem(&cookies, &cookie))
		return 0;
	read_ends(f, sk);
	if (settings.port && f->local_port != settings.port && f->remote_port != settings.port)
		return 0;
	if (settings.by_address && !is_selected_address(f->local) && !is_selected_address(f->remote))
		return 0;
	bpf_probe_read_kernel(f->name, sizeof(f->name), __builtin_preserve_access_index(&control_of(sk)->name));
	for (__u32 i = 0; i < sizeof(f->name); i++) {
		if (i < settings.name_bytes && f->name[i] != settings.name[i])
			return 0;
	}
	return 1;
}

static __always_inline void fill_head(struct head *head, const struct sock *sk, __u64 cookie, __u64 now, __u32 kind)
{
	head->time_ns = now;
	head->cookie = cookie;
	head->kind = kind;
	head->state = state_of(sk);
}

// State of a selected connection; the first call submits the flow event.
static __always_inline struct flow_state *find(const struct sock *sk, __u64 cookie, __u64 now)
{
	struct flow_state *flow_state = bpf_map_lookup_elem(&flows, &cookie);
	struct flow_state fresh = {};
	struct flow f = {};
	struct flow *out;

	if (flow_state)
		return flow_state;
	if (!is_selected(&f, sk, cookie))
		return NULL;
	// If the ring buffer is full, a later packet repeats the flow event, because samples without a flow event would be
	// unusable.
	out = reserve(sizeof(*out));
	if (!out)
		return NULL;
	fill_head(&f.head, sk, cookie, now, FLOW);
	*out = f;
	bpf_ringbuf_submit(out, 0);
	bpf_map_update_elem(&flows, &cookie, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&flows, &cookie);
}

// The kernel marks congestion controls in BPF with an owner that is not a module: BPF_MODULE_OWNER
// (include/linux/bpf.h), a value above the poison for pointers. Later kernels shift it for alignment.
#define BPF_OWNER 0xeb9fu
#define BPF_OWNER_ALIGNED (BPF_OWNER << 2)

static __always_inline int is_in_bpf(const struct tcp_congestion_ops *control)
{
	__u32 owner = (__u64)BPF_CORE_READ(control, owner);

	return owner == BPF_OWNER || owner == BPF_OWNER_ALIGNED;
}

static __always_inline void read_inner(struct sample *s, const struct sock *sk)
{
	const struct tcp_congestion_ops *control = control_of(sk);
	const struct inet_connection_sock *icsk = (const void *)sk;
	const void *from = __builtin_preserve_access_index(&icsk->icsk_ca_priv);
	char name[4];

	s->inner_kind = NOTHING;
	if (!is_in_bpf(control))
		return;
	bpf_probe_read_kernel(name, sizeof(name), __builtin_preserve_access_index(&control->name));
	if (name[0] == 'f' && name[1] == 'a' && name[2] == 's' && name[3] == 't') {
		struct fast f;

		bpf_probe_read_kernel(&f, sizeof(f), from);
		s->inner_kind = OF_FAST;
		s->inner[0] = f.base_us;
		s->inner[1] = f.average >> 8;
		s->inner[2] = f.flight;
		s->inner[3] = f.target;
		s->inner[4] = f.resting;
		s->inner[5] = 0;
	} else if (name[0] == 'h' && name[1] == 't' && name[2] == 'c' && name[3] == 'p') {
		struct htcp h;

		bpf_probe_read_kernel(&h, sizeof(h), from);
		s->inner_kind = OF_HTCP;
		s->inner[0] = h.min_rtt_us;
		s->inner[1] = h.max_rtt_us;
		s->inner[2] = h.alpha;
		s->inner[3] = h.beta;
		s->inner[4] = h.rate;
		s->inner[5] = h.max_rate;
	}
}

static __always_inline void fill_sample(struct sample *s, const struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;

	s->pacing_rate = BPF_CORE_READ(sk, sk_pacing_rate);
	s->bytes_acked = BPF_CORE_READ(tp, bytes_acked);
	s->window = BPF_CORE_READ(tp, snd_cwnd);
	s->threshold = BPF_CORE_READ(tp, snd_ssthresh);
	s->srtt_us = BPF_CORE_READ(tp, srtt_us) >> 3;
	// The kernel keeps rttvar_us at or above the minimum retransmission timeout; TCP_INFO reports mdev_us as well.
	s->rttvar_us = BPF_CORE_READ(tp, mdev_us) >> 2;
	s->min_rtt_us = BPF_CORE_READ(tp, rtt_min.s[0].v);
	s->packets_out = BPF_CORE_READ(tp, packets_out);
	s->sacked_out = BPF_CORE_READ(tp, sacked_out);
	s->lost_out = BPF_CORE_READ(tp, lost_out);
	s->retrans_out = BPF_CORE_READ(tp, retrans_out);
	s->total_retrans = BPF_CORE_READ(tp, total_retrans);
	s->delivered = BPF_CORE_READ(tp, delivered);
	s->mss = BPF_CORE_READ(tp, mss_cache);
	s->peer_window = BPF_CORE_READ(tp, snd_wnd);
	s->rate_delivered = BPF_CORE_READ(tp, rate_delivered);
	s->rate_interval_us = BPF_CORE_READ(tp, rate_interval_us);
	s->limits = (BPF_CORE_READ(tp, app_limited) ? 1 : 0) | (BPF_CORE_READ_BITFIELD_PROBED(tp, is_cwnd_limited) ? 2 : 0);
	s->unused = 0;
	read_inner(s, sk);
}

static __always_inline int submit_sample(const struct sock *sk, __u64 cookie, __u32 kind, __u32 state)
{
	__u64 now = bpf_ktime_get_ns();
	struct flow_state *flow_state = find(sk, cookie, now);
	struct sample *s;

	if (!flow_state)
		return 0;
	if (kind == SAMPLE) {
		if (settings.interval_ns && now - flow_state->sampled_ns < settings.interval_ns)
			return 0;
		flow_state->sampled_ns = now;
	}
	s = reserve(sizeof(*s));
	if (!s)
		return 0;
	fill_head(&s->head, sk, cookie, now, kind);
	s->head.state = state;
	fill_sample(s, sk);
	bpf_ringbuf_submit(s, 0);
	return 0;
}

// Runs at each packet received for an established connection, before TCP processes it.
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_packet, struct sock *sk, struct sk_buff *skb)
{
	return submit_sample(sk, bpf_get_socket_cookie(sk), SAMPLE, state_of(sk));
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(on_state, struct sock *sk, u8 state)
{
	return submit_sample(sk, bpf_get_socket_cookie(sk), STATE, state);
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmission, struct sock *sk, struct sk_buff *skb)
{
	return submit_sample(sk, bpf_get_socket_cookie(sk), RETRANSMISSION, state_of(sk));
}

// TCP_CLOSE of include/net/tcp_states.h.
#define CLOSED 7

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_close, struct sock *sk, int before, int after)
{
	__u64 cookie;

	if (after != CLOSED)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	if (!bpf_map_lookup_elem(&flows, &cookie))
		return 0;
	submit_sample(sk, cookie, END, state_of(sk));
	bpf_map_delete_elem(&flows, &cookie);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
