/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_CONNECTION_H
#define LONGHAUL_CONNECTION_H

// Fields of a TCP connection that a congestion control reads and writes. The programs copy them from the kernel's
// struct tcp_sock, and replay.bpf.c from a script. Thus the same code can be compared with its reference in
// crates/congestion, which uses the same names.
struct connection {
	__u64 now_us;
	__u32 window;        // snd_cwnd, in packets
	__u32 window_count;  // snd_cwnd_cnt: acknowledged packets towards the next increase of the window
	__u32 threshold;     // snd_ssthresh, in packets
	__u32 clamp;         // snd_cwnd_clamp
	__u32 prior_window;  // prior_cwnd: window before the last reduction
	__u32 delivered;     // total packets
	__u32 limited;       // whether the congestion window limits the sender
	__u32 open;          // whether the connection has neither disorder nor loss (TCP_CA_Open)
	__u32 disorder;      // whether packets arrived out of order, without assumed loss (TCP_CA_Disorder)
};

#define WINDOW_PACKETS_MIN 2

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// Slow start (RFC 5681, section 3.1) by the number of acknowledged packets (RFC 3465). Returns the packets beyond the
// threshold.
static __always_inline __u32 slow_start(struct connection *c, __u32 acked)
{
	__u32 room = c->threshold > c->window ? c->threshold - c->window : 0;
	__u32 used = MIN(acked, room);

	c->window = MIN(c->window + used, c->clamp);
	return acked - used;
}

// Equivalent of tcp_reno_undo_cwnd.
static __always_inline __u32 before_reduction(const struct connection *c)
{
	return MAX(c->window, c->prior_window);
}

#endif
