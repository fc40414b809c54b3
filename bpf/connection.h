/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_CONNECTION_H
#define LONGHAUL_CONNECTION_H

// What a congestion control reads of a TCP connection and writes to it. The programs fill it from the kernel's struct tcp_sock,
// replay.bpf.c from a script: so the same code can be compared with its reference in crates/congestion, which has the same names.
struct connection {
	__u64 now_us;
	__u32 window;        // snd_cwnd, in packets
	__u32 window_count;  // snd_cwnd_cnt: what has been acknowledged towards the next packet of window
	__u32 threshold;     // snd_ssthresh, in packets
	__u32 clamp;         // snd_cwnd_clamp
	__u32 prior_window;  // prior_cwnd: before the last reduction
	__u32 delivered;     // packets in all
	__u32 limited;       // whether the window, not the application or the receiver, holds the sender back
	__u32 open;          // whether nothing is amiss (TCP_CA_Open)
	__u32 disorder;      // whether something came out of order, and nothing is thought lost (TCP_CA_Disorder)
};

#define MIN_WINDOW 2

#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))

// RFC 5681, section 3.1, with the number of packets that an ACK acknowledges (RFC 3465); gives those beyond the threshold.
static __always_inline __u32 slow_start(struct connection *c, __u32 acked)
{
	__u32 room = c->threshold > c->window ? c->threshold - c->window : 0;
	__u32 used = LEAST(acked, room);

	c->window = LEAST(c->window + used, c->clamp);
	return acked - used;
}

// As tcp_reno_undo_cwnd does.
static __always_inline __u32 before_reduction(const struct connection *c)
{
	return MOST(c->window, c->prior_window);
}

#endif
