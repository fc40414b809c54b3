/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_FAST_H
#define LONGHAUL_FAST_H

// FAST TCP (Jin, Wei and Low, INFOCOM 2004). docs/reference/congestion-controls.md lists the differences between the
// sources. crates/congestion/src/fast.rs is the reference in Rust.

#include "connection.h"

// Limits of the arithmetic: packets in flight, and round-trip time (two minutes).
#define FAST_FLIGHT_MAX (1u << 20)
#define FAST_RTT_US_MAX (1 << 27)

struct fast_settings {
	__u32 alpha;          // target number of queued packets per flow
	__u32 gamma;          // step towards the goal, in 1/256
	__u32 period_us;      // minimum time between two changes of the window
	__u32 threshold_us;   // queueing delay below which the window doubles each round trip
	__u32 average_divisor_min;  // minimum divisor of a sample's weight in the mean round trip; the divisor is a third of the window
	__u32 every_other;    // whether the window stays constant for a round trip after each change
};

// Stored in icsk_ca_priv; trace.bpf.c reads it.
struct fast {
	__u64 average;     // mean round trip in 1/256 us; 0: unknown
	__u64 changed_us;  // time of the last window computation
	__u32 base_us;     // smallest round trip of the connection, without expiry; 0: unknown
	__u32 flight;      // packets in flight when the last acknowledged packet was sent
	__u32 target;      // window at the end of this round
	__u32 fraction;    // fraction of the target, in 1/256 packet
	__u32 growth;      // increase of the window in this round, in packets
	__u32 round;       // packets delivered at the start of this round
	__u32 expected;    // window after the last change by this program
	__u32 resting;     // whether the window stays constant in this round, to measure the effect of the last change
	__u32 after_timeout;
};

// Copies the settings. The source is volatile, so that the compiler does not replace it by the initial value.
static __always_inline struct fast_settings fast_load_settings(const volatile struct fast_settings *s)
{
	return (struct fast_settings){
		.alpha = s->alpha,
		.gamma = s->gamma,
		.period_us = s->period_us,
		.threshold_us = s->threshold_us,
		.average_divisor_min = s->average_divisor_min,
		.every_other = s->every_other,
	};
}

static __always_inline void fast_acked(const struct fast_settings *s, struct fast *f, const struct connection *c,
				       __u32 acked, __s32 rtt_us, __u32 flight)
{
	__u64 sample, scale;

	f->flight = MIN(flight, FAST_FLIGHT_MAX);
	if (rtt_us <= 0)
		return;
	rtt_us = MIN(rtt_us, FAST_RTT_US_MAX);
	if (!f->base_us || (__u32)rtt_us < f->base_us)
		f->base_us = rtt_us;
	sample = (__u64)rtt_us << 8;
	if (!f->average) {
		f->average = sample;
		return;
	}
	// An ACK of n packets counts as n samples.
	scale = c->window / (3 * (__u64)MAX(acked, 1));
	scale = MAX(scale, MAX(s->average_divisor_min, 1));
	if (sample >= f->average)
		f->average += (sample - f->average) / scale;
	else
		f->average -= (f->average - sample) / scale;
}

// The window rule, in 1/256 packet: min(2w, (1 - gamma) w + gamma (baseRTT / RTT w' + alpha)), where w' is the number
// of packets in flight when the round trip was measured.
static __always_inline __u64 fast_goal(const struct fast_settings *s, const struct fast *f, const struct connection *c)
{
	__u64 window = ((__u64)f->target << 8) + f->fraction;
	__u64 measured = c->limited ? f->flight : MAX(f->flight, f->target);
	__u64 kept = (measured << 8) * ((__u64)f->base_us << 8) / f->average;
	__u64 goal = ((256 - s->gamma) * window + s->gamma * (kept + ((__u64)s->alpha << 8))) >> 8;

	goal = MIN(goal, 2 * window);
	// A goal above an unused window would cause a burst once the application sends again.
	if (!c->limited)
		goal = MIN(goal, (__u64)c->window << 8);
	goal = MAX(goal, WINDOW_PACKETS_MIN << 8);
	return MIN(goal, (__u64)c->clamp << 8);
}

static __always_inline void fast_change(const struct fast_settings *s, struct fast *f, struct connection *c)
{
	__u64 goal;

	if ((__s32)(c->delivered - f->flight - f->round) < 0 || c->now_us - f->changed_us < s->period_us)
		return;
	f->round = c->delivered;
	if (s->every_other) {
		f->resting = !f->resting;
		if (f->resting)
			return;
	}
	f->changed_us = c->now_us;
	goal = fast_goal(s, f, c);
	f->target = goal >> 8;
	f->fraction = goal & 255;
	f->growth = f->target > c->window ? f->target - c->window : 0;
	c->window_count = 0;
	if (f->target < c->window)
		c->window = f->target;
}

// Spreads the increase over the ACKs of a round; an immediate increase would send a burst.
static __always_inline void fast_grow(struct fast *f, struct connection *c, __u32 acked)
{
	__u64 count = (__u64)c->window_count + (__u64)acked * f->growth;
	__u32 window = MAX(c->window, 1);
	__u32 steps = count / window;

	c->window_count = count % window;
	c->window = MIN(c->window + steps, f->target);
}

static __always_inline void fast_avoid(const struct fast_settings *s, struct fast *f, struct connection *c, __u32 acked)
{
	__u64 base = (__u64)f->base_us << 8;
	int quiet = f->average - base < (__u64)s->threshold_us << 8;

	// A loss, an idle period or a full receiver has changed the window.
	if (c->window != f->expected) {
		f->target = c->window;
		f->fraction = 0;
		f->growth = 0;
		c->window_count = 0;
	}
	if (f->after_timeout && c->window < c->threshold) {
		if (c->limited)
			slow_start(c, acked);
	} else if (!f->average || quiet) {
		if (c->limited)
			c->window = MIN(c->window + acked, c->clamp);
	} else {
		f->after_timeout = 0;
		c->threshold = MIN(c->threshold, c->window);
		fast_change(s, f, c);
		if (c->limited && c->window < f->target)
			fast_grow(f, c, acked);
		f->expected = c->window;
		return;
	}
	f->target = c->window;
	f->fraction = 0;
	f->growth = 0;
	f->resting = 0;
	f->round = c->delivered;
	f->changed_us = c->now_us;
	f->expected = c->window;
}

static __always_inline __u32 fast_after_loss(const struct connection *c)
{
	return MAX(c->window / 2, WINDOW_PACKETS_MIN);
}

static __always_inline void fast_timeout(struct fast *f)
{
	f->after_timeout = 1;
}

// After an idle period the queueing delay is unknown.
static __always_inline void fast_idle(struct fast *f)
{
	f->average = 0;
}

#endif
