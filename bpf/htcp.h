/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_HTCP_H
#define LONGHAUL_HTCP_H

// H-TCP (Leith and Shorten, draft-leith-tcp-htcp). docs/reference/congestion-controls.md says where sources differ and what is
// followed; crates/congestion/src/htcp.rs is the same in Rust.

#include "connection.h"

struct htcp_settings {
	__u32 rtt_scaling;       // whether the increase grows with the round trip
	__u32 adaptive_backoff;  // whether the decrease follows from the queue: RTTmin / RTTmax
	__u32 bandwidth_switch;  // whether it is a half again after the throughput has changed
	__u32 tick_us;           // granularity of times, as a clock in jiffies has; 0: none
};

// In icsk_ca_priv. crates/bpf/src/inner.rs reads it.
struct htcp {
	__u64 congestion_us;   // when the last congestion began
	__u64 undo_us;         // the one before; 0: nothing to undo
	__u64 counted_us;      // since when packets are counted
	__u32 alpha;           // increase a round trip in 1/128 packet
	__u32 beta;            // factor of decrease in 1/128
	__u32 min_rtt_us;      // 0: none yet
	__u32 max_rtt_us;
	__u32 packets;         // delivered since counted_us
	__u32 rate;            // mean, in packets a second
	__u32 max_rate;        // since the last congestion
	__u32 old_max_rate;    // before it
	__u32 undo_max_rtt_us;
	__u32 undo_old_max_rate;
	__u32 adaptive;        // whether a congestion at this throughput has been seen
	__u32 ended;           // whether the recovery has ended since the last congestion
};

#define HTCP_ONE 128
#define HTCP_BETA_LEAST 64   // 0.5
#define HTCP_BETA_MOST 102   // 0.8
#define HTCP_LOW_US 1000000  // D_L: so long after a congestion the increase is that of Reno
#define HTCP_REFERENCE_US 100000
#define HTCP_SHORT_US 10000  // below this round trip the queue cannot be told from the hosts' own delays
#define HTCP_RISE_US 20000   // larger steps of the round trip are no queue

// What the loader has written; volatile, for the compiler must not take it for what stands in the source.
static __always_inline struct htcp_settings htcp_chosen(const volatile struct htcp_settings *s)
{
	return (struct htcp_settings){
		.rtt_scaling = s->rtt_scaling,
		.adaptive_backoff = s->adaptive_backoff,
		.bandwidth_switch = s->bandwidth_switch,
		.tick_us = s->tick_us,
	};
}

static __always_inline __u64 htcp_ticks(const struct htcp_settings *s, __u64 us)
{
	return s->tick_us ? us / s->tick_us * s->tick_us : us;
}

static __always_inline __u64 htcp_since(const struct htcp_settings *s, const struct htcp *h, const struct connection *c)
{
	__u64 now = htcp_ticks(s, c->now_us);

	return now > h->congestion_us ? now - h->congestion_us : 0;
}

static __always_inline void htcp_init(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	h->alpha = HTCP_ONE;
	h->beta = HTCP_BETA_LEAST;
	h->congestion_us = h->counted_us = htcp_ticks(s, c->now_us);
}

// alpha(D) = 1 + 10 (D - D_L) + ((D - D_L) / 2)^2, times the round trip over 100 ms, times 2 (1 - beta).
static __always_inline void htcp_set_alpha(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	__u64 since = htcp_since(s, h, c);
	__u64 factor = HTCP_ONE;

	if (since > HTCP_LOW_US) {
		__u64 us = LEAST(since - HTCP_LOW_US, 1ull << 32);
		__u64 ms = us / 1000;

		factor += 10 * us * HTCP_ONE / 1000000 + ms * ms * (HTCP_ONE / 4) / 1000000;
	}
	if (s->rtt_scaling && h->min_rtt_us) {
		__u64 rtt = LEAST(MOST(h->min_rtt_us, HTCP_REFERENCE_US / 10), 2 * HTCP_REFERENCE_US);

		factor = MOST(factor * rtt / HTCP_REFERENCE_US, HTCP_ONE);
	}
	h->alpha = LEAST(2 * factor * (HTCP_ONE - h->beta) / HTCP_ONE, 1u << 30);
}

static __always_inline void htcp_set_beta(const struct htcp_settings *s, struct htcp *h)
{
	if (s->bandwidth_switch) {
		__u64 now = h->max_rate, old = h->old_max_rate;

		h->old_max_rate = h->max_rate;
		if (5 * now < 4 * old || 5 * now > 6 * old) {
			h->beta = HTCP_BETA_LEAST;
			h->adaptive = 0;
			return;
		}
	}
	if (s->adaptive_backoff && h->adaptive && h->min_rtt_us > HTCP_SHORT_US && h->max_rtt_us) {
		__u64 beta = (__u64)h->min_rtt_us * HTCP_ONE / h->max_rtt_us;

		h->beta = LEAST(MOST(beta, HTCP_BETA_LEAST), HTCP_BETA_MOST);
		return;
	}
	h->beta = HTCP_BETA_LEAST;
	h->adaptive = 1;
}

static __always_inline void htcp_measure_rtt(const struct htcp_settings *s, struct htcp *h, const struct connection *c,
					     __s32 rtt_us)
{
	__u32 tick = MOST(s->tick_us, 1), rtt;

	if (rtt_us <= 0)
		return;
	// Of a round trip, other than of a time, the kernel counts a tick that has begun (usecs_to_jiffies).
	rtt = ((__u64)rtt_us + tick - 1) / tick * tick;
	if (!h->min_rtt_us || rtt < h->min_rtt_us)
		h->min_rtt_us = rtt;
	if (!c->open)
		return;
	h->max_rtt_us = MOST(h->max_rtt_us, h->min_rtt_us);
	if (rtt > h->max_rtt_us && rtt <= h->max_rtt_us + HTCP_RISE_US)
		h->max_rtt_us = rtt;
}

// The throughput, over about a window at a time.
static __always_inline void htcp_measure_rate(const struct htcp_settings *s, struct htcp *h, const struct connection *c,
					      __u32 acked)
{
	__u64 now = htcp_ticks(s, c->now_us);
	__u64 time = now > h->counted_us ? now - h->counted_us : 0;
	__u32 rate;

	if (!c->open && !c->disorder) {
		h->packets = 0;
		h->counted_us = now;
		return;
	}
	h->packets += acked;
	if ((__u64)h->packets + MOST(h->alpha / HTCP_ONE, 1) < c->window || !h->min_rtt_us || time < h->min_rtt_us || !time)
		return;
	rate = (__u64)h->packets * 1000000 / time;
	// Until the fourth round trip after a congestion the throughput is what the path gives.
	if (htcp_since(s, h, c) < 4 * (__u64)h->min_rtt_us) {
		h->rate = h->max_rate = rate;
	} else {
		h->rate = (3 * (__u64)h->rate + rate) / 4;
		h->max_rate = MOST(h->max_rate, h->rate);
	}
	h->packets = 0;
	h->counted_us = now;
}

static __always_inline void htcp_acked(const struct htcp_settings *s, struct htcp *h, const struct connection *c,
				       __u32 acked, __s32 rtt_us)
{
	htcp_measure_rtt(s, h, c, rtt_us);
	if (s->bandwidth_switch)
		htcp_measure_rate(s, h, c, acked);
}

static __always_inline void htcp_avoid(const struct htcp_settings *s, struct htcp *h, struct connection *c, __u32 acked)
{
	__u64 count;
	__u32 window = MOST(c->window, 1), steps;

	if (!c->limited)
		return;
	if (c->window < c->threshold) {
		acked = slow_start(c, acked);
		if (!acked)
			return;
		window = MOST(c->window, 1);
	}
	// In units of 1/128 packet acknowledged, times alpha: a packet of window is worth 128 windows.
	count = (__u64)c->window_count + acked;
	steps = count * h->alpha / HTCP_ONE / window;
	if (!steps) {
		c->window_count = count;
		return;
	}
	c->window_count = 0;
	c->window = LEAST(c->window + steps, c->clamp);
	htcp_set_alpha(s, h, c);
}

static __always_inline __u32 htcp_after_loss(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	htcp_set_beta(s, h);
	htcp_set_alpha(s, h, c);
	// Slowly forgets the largest round trip, for routes change.
	if (h->min_rtt_us && h->max_rtt_us > h->min_rtt_us)
		h->max_rtt_us = h->min_rtt_us + (__u64)(h->max_rtt_us - h->min_rtt_us) * 95 / 100;
	return MOST((__u64)c->window * h->beta / HTCP_ONE, MIN_WINDOW);
}

// A congestion begins: what an undo would bring back is kept.
static __always_inline void htcp_congestion(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	h->undo_us = h->congestion_us;
	h->undo_max_rtt_us = h->max_rtt_us;
	h->undo_old_max_rate = h->old_max_rate;
	h->congestion_us = htcp_ticks(s, c->now_us);
	h->ended = 0;
}

// The recovery has ended: the time since the congestion begins to count.
static __always_inline void htcp_open(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	if (h->ended || !h->undo_us)
		return;
	h->ended = 1;
	h->undo_us = 0;
	h->congestion_us = htcp_ticks(s, c->now_us);
}

static __always_inline __u32 htcp_undo(struct htcp *h, const struct connection *c)
{
	if (h->undo_us) {
		h->congestion_us = h->undo_us;
		h->max_rtt_us = h->undo_max_rtt_us;
		h->old_max_rate = h->undo_old_max_rate;
		h->undo_us = 0;
	}
	return before_reduction(c);
}

#endif
