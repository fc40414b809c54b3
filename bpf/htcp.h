/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_HTCP_H
#define LONGHAUL_HTCP_H

// H-TCP (Leith and Shorten, draft-leith-tcp-htcp). docs/reference/congestion-controls.md lists the differences between
// the sources. crates/congestion/src/htcp.rs is the reference in Rust.

#include "connection.h"

struct htcp_settings {
	__u32 rtt_scaling;       // whether the increase is proportional to the round-trip time
	__u32 adaptive_backoff;  // whether the decrease factor is RTTmin / RTTmax
	__u32 bandwidth_switch;  // whether the decrease factor is 0.5 after a change of throughput
	__u32 tick_us;           // granularity of times, to emulate a clock in jiffies; 0: exact
};

// Stored in icsk_ca_priv; trace.bpf.c reads it.
struct htcp {
	__u64 congestion_us;   // start of the last congestion event
	__u64 undo_us;         // start of the previous congestion event; 0: nothing to undo
	__u64 counted_us;      // start of the packet count
	__u32 alpha;           // increase per round trip in 1/128 packet
	__u32 beta;            // decrease factor in 1/128
	__u32 min_rtt_us;      // 0: unknown
	__u32 max_rtt_us;
	__u32 packets;         // delivered since counted_us
	__u32 rate;            // mean throughput in packets per second
	__u32 max_rate;        // maximum of `rate` since the last congestion event
	__u32 old_max_rate;    // maximum of `rate` before the last congestion event
	__u32 undo_max_rtt_us;
	__u32 undo_old_max_rate;
	__u32 adaptive;        // whether a congestion event at this throughput has occurred
	__u32 ended;           // whether the recovery has ended since the last congestion
};

#define HTCP_ONE 128
#define HTCP_BETA_MIN 64   // 0.5
#define HTCP_BETA_MAX 102   // 0.8
#define HTCP_LOW_US 1000000  // D_L: time after a congestion event with the increase of Reno
#define HTCP_REFERENCE_US 100000
#define HTCP_SHORT_US 10000  // round-trip time below which queueing delay cannot be separated from host delays
#define HTCP_RISE_US 20000   // larger steps of the round-trip time do not indicate a queue

// Copies the settings. The source is volatile, so that the compiler does not replace it by the initial value.
static __always_inline struct htcp_settings htcp_load_settings(const volatile struct htcp_settings *s)
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
	h->beta = HTCP_BETA_MIN;
	h->congestion_us = h->counted_us = htcp_ticks(s, c->now_us);
}

// alpha(D) = 1 + 10 (D - D_L) + ((D - D_L) / 2)^2, multiplied by the round-trip time over 100 ms and by 2 (1 - beta).
static __always_inline void htcp_set_alpha(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	__u64 since = htcp_since(s, h, c);
	__u64 factor = HTCP_ONE;

	if (since > HTCP_LOW_US) {
		__u64 us = MIN(since - HTCP_LOW_US, 1ull << 32);
		__u64 ms = us / 1000;

		factor += 10 * us * HTCP_ONE / 1000000 + ms * ms * (HTCP_ONE / 4) / 1000000;
	}
	if (s->rtt_scaling && h->min_rtt_us) {
		__u64 rtt = MIN(MAX(h->min_rtt_us, HTCP_REFERENCE_US / 10), 2 * HTCP_REFERENCE_US);

		factor = MAX(factor * rtt / HTCP_REFERENCE_US, HTCP_ONE);
	}
	h->alpha = MIN(2 * factor * (HTCP_ONE - h->beta) / HTCP_ONE, 1u << 30);
}

static __always_inline void htcp_set_beta(const struct htcp_settings *s, struct htcp *h)
{
	if (s->bandwidth_switch) {
		__u64 now = h->max_rate, old = h->old_max_rate;

		h->old_max_rate = h->max_rate;
		if (5 * now < 4 * old || 5 * now > 6 * old) {
			h->beta = HTCP_BETA_MIN;
			h->adaptive = 0;
			return;
		}
	}
	if (s->adaptive_backoff && h->adaptive && h->min_rtt_us > HTCP_SHORT_US && h->max_rtt_us) {
		__u64 beta = (__u64)h->min_rtt_us * HTCP_ONE / h->max_rtt_us;

		h->beta = MIN(MAX(beta, HTCP_BETA_MIN), HTCP_BETA_MAX);
		return;
	}
	h->beta = HTCP_BETA_MIN;
	h->adaptive = 1;
}

static __always_inline void htcp_measure_rtt(const struct htcp_settings *s, struct htcp *h, const struct connection *c,
					     __s32 rtt_us)
{
	__u32 tick = MAX(s->tick_us, 1), rtt;

	if (rtt_us <= 0)
		return;
	// The kernel rounds round-trip times up to whole ticks (usecs_to_jiffies), and other times down.
	rtt = ((__u64)rtt_us + tick - 1) / tick * tick;
	if (!h->min_rtt_us || rtt < h->min_rtt_us)
		h->min_rtt_us = rtt;
	if (!c->open)
		return;
	h->max_rtt_us = MAX(h->max_rtt_us, h->min_rtt_us);
	if (rtt > h->max_rtt_us && rtt <= h->max_rtt_us + HTCP_RISE_US)
		h->max_rtt_us = rtt;
}

// Measures the throughput over about one window at a time.
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
	if ((__u64)h->packets + MAX(h->alpha / HTCP_ONE, 1) < c->window || !h->min_rtt_us || time < h->min_rtt_us || !time)
		return;
	rate = (__u64)h->packets * 1000000 / time;
	// Until the fourth round trip after a congestion event the throughput equals the capacity of the path.
	if (htcp_since(s, h, c) < 4 * (__u64)h->min_rtt_us) {
		h->rate = h->max_rate = rate;
	} else {
		h->rate = (3 * (__u64)h->rate + rate) / 4;
		h->max_rate = MAX(h->max_rate, h->rate);
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
	__u32 window = MAX(c->window, 1), steps;

	if (!c->limited)
		return;
	if (c->window < c->threshold) {
		acked = slow_start(c, acked);
		if (!acked)
			return;
		window = MAX(c->window, 1);
	}
	// Counts acknowledged packets times alpha in 1/128 packet: an increase by one packet takes 128 windows.
	count = (__u64)c->window_count + acked;
	steps = count * h->alpha / HTCP_ONE / window;
	if (!steps) {
		c->window_count = count;
		return;
	}
	c->window_count = 0;
	c->window = MIN(c->window + steps, c->clamp);
	htcp_set_alpha(s, h, c);
}

static __always_inline __u32 htcp_after_loss(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	htcp_set_beta(s, h);
	htcp_set_alpha(s, h, c);
	// Decays the largest round-trip time slowly, because routes change.
	if (h->min_rtt_us && h->max_rtt_us > h->min_rtt_us)
		h->max_rtt_us = h->min_rtt_us + (__u64)(h->max_rtt_us - h->min_rtt_us) * 95 / 100;
	return MAX((__u64)c->window * h->beta / HTCP_ONE, WINDOW_PACKETS_MIN);
}

// Start of a congestion event; saves the state for an undo.
static __always_inline void htcp_congestion(const struct htcp_settings *s, struct htcp *h, const struct connection *c)
{
	h->undo_us = h->congestion_us;
	h->undo_max_rtt_us = h->max_rtt_us;
	h->undo_old_max_rate = h->old_max_rate;
	h->congestion_us = htcp_ticks(s, c->now_us);
	h->ended = 0;
}

// End of recovery; the time since the congestion event starts to count.
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
