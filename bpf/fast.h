/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_FAST_H
#define LONGHAUL_FAST_H

// FAST TCP (Jin, Wei and Low, INFOCOM 2004). docs/reference/congestion-controls.md says where sources differ and what is followed;
// crates/congestion/src/fast.rs is the same in Rust.

#include "connection.h"

// What the arithmetic carries: packets in flight, and two minutes.
#define FAST_MOST_FLIGHT (1u << 20)
#define FAST_MOST_RTT_US (1 << 27)

struct fast_settings {
	__u32 alpha;          // packets that a flow keeps queued
	__u32 gamma;          // step towards the goal, in 1/256
	__u32 period_us;      // least time between two changes of the window
	__u32 threshold_us;   // queueing delay below which the window doubles each round trip
	__u32 average_least;  // the mean of the round trip moves by a window's third, and by no more than 1 in this of the difference
	__u32 every_other;    // whether the window rests for a round trip after each change
};

// In icsk_ca_priv. crates/bpf/src/inner.rs reads it.
struct fast {
	__u64 average;     // mean round trip in 1/256 us; 0: none yet
	__u64 changed_us;  // when the window was last computed
	__u32 base_us;     // smallest round trip of the connection, which is never forgotten; 0: none yet
	__u32 flight;      // packets that were in flight when the packet acknowledged last was sent
	__u32 target;      // where the window goes in this round
	__u32 fraction;    // of the target, in 1/256 packet
	__u32 growth;      // packets to grow by in this round
	__u32 round;       // packets delivered when this round began
	__u32 expected;    // the window as we left it
	__u32 resting;     // whether this round measures what the one before has changed
	__u32 after_timeout;
};

// What the loader has written; volatile, for the compiler must not take it for what stands in the source.
static __always_inline struct fast_settings fast_chosen(const volatile struct fast_settings *s)
{
	return (struct fast_settings){
		.alpha = s->alpha,
		.gamma = s->gamma,
		.period_us = s->period_us,
		.threshold_us = s->threshold_us,
		.average_least = s->average_least,
		.every_other = s->every_other,
	};
}

static __always_inline void fast_acked(const struct fast_settings *s, struct fast *f, const struct connection *c,
				       __u32 acked, __s32 rtt_us, __u32 flight)
{
	__u64 sample, scale;

	f->flight = LEAST(flight, FAST_MOST_FLIGHT);
	if (rtt_us <= 0)
		return;
	rtt_us = LEAST(rtt_us, FAST_MOST_RTT_US);
	if (!f->base_us || (__u32)rtt_us < f->base_us)
		f->base_us = rtt_us;
	sample = (__u64)rtt_us << 8;
	if (!f->average) {
		f->average = sample;
		return;
	}
	// An ACK for n packets stands for n samples.
	scale = c->window / (3 * (__u64)MOST(acked, 1));
	scale = MOST(scale, MOST(s->average_least, 1));
	if (sample >= f->average)
		f->average += (sample - f->average) / scale;
	else
		f->average -= (f->average - sample) / scale;
}

// The window rule, in 1/256 packet: min(2w, (1 - gamma) w + gamma (baseRTT / RTT w' + alpha)), where w' is what was in flight
// when the round trip was measured.
static __always_inline __u64 fast_goal(const struct fast_settings *s, const struct fast *f, const struct connection *c)
{
	__u64 window = ((__u64)f->target << 8) + f->fraction;
	__u64 measured = c->limited ? f->flight : MOST(f->flight, f->target);
	__u64 kept = (measured << 8) * ((__u64)f->base_us << 8) / f->average;
	__u64 goal = ((256 - s->gamma) * window + s->gamma * (kept + ((__u64)s->alpha << 8))) >> 8;

	goal = LEAST(goal, 2 * window);
	// A goal that runs ahead of a window that is not used would be made up for within one round trip later.
	if (!c->limited)
		goal = LEAST(goal, (__u64)c->window << 8);
	goal = MOST(goal, MIN_WINDOW << 8);
	return LEAST(goal, (__u64)c->clamp << 8);
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

// Spread over the ACKs of a round, for an increase at once would send a burst.
static __always_inline void fast_grow(struct fast *f, struct connection *c, __u32 acked)
{
	__u64 count = (__u64)c->window_count + (__u64)acked * f->growth;
	__u32 window = MOST(c->window, 1);
	__u32 steps = count / window;

	c->window_count = count % window;
	c->window = LEAST(c->window + steps, f->target);
}

static __always_inline void fast_avoid(const struct fast_settings *s, struct fast *f, struct connection *c, __u32 acked)
{
	__u64 base = (__u64)f->base_us << 8;
	int quiet = f->average - base < (__u64)s->threshold_us << 8;

	// A loss, an idle time or a full receiver has changed it meanwhile.
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
			c->window = LEAST(c->window + acked, c->clamp);
	} else {
		f->after_timeout = 0;
		c->threshold = LEAST(c->threshold, c->window);
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
	return MOST(c->window / 2, MIN_WINDOW);
}

static __always_inline void fast_timeout(struct fast *f)
{
	f->after_timeout = 1;
}

// After a silence nothing is known of the queue.
static __always_inline void fast_idle(struct fast *f)
{
	f->average = 0;
}

#endif
